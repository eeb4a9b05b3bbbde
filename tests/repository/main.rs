//! Consistency of the repository: dependencies, documentation, and generated files match the code. The prose and the
//! commit subjects follow the style.

#![allow(clippy::unwrap_used)]

mod command_line;
mod commits;
mod crates;
mod crds;
mod dependencies;
mod documentation;
mod logging;
mod memory;
mod metadata;
mod parameters;
mod prose;

use std::fs;
use std::path::{Path, PathBuf};

/// All files with this extension in the folder and its subfolders.
fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => files_below(&path, extension),
            false => Vec::from_iter((path.extension() == Some(extension.as_ref())).then_some(path)),
        })
        .collect()
}
