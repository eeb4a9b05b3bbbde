//! Modules in files.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cli::documents;
use crate::cli::output::say;
use crate::cli::text::printable;
use crate::rego::bundle::Bundle;
use crate::rego::confined::Checker;
use crate::rego::fault::Faults;
use crate::rego::module::{ModuleId, Text};

/// The ending of a file that is a module.
const ENDING: &str = "rego";

/// Reads the modules of `paths`: each file, of a folder all files below it that end in `.rego`, `-` standard input.
///
/// # Errors
///
/// Where one cannot be read, or there is none.
pub(super) fn texts(paths: &[PathBuf]) -> anyhow::Result<Vec<Text>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() { below(path, &mut files)? } else { files.push(path.clone()) }
    }
    files.sort();
    files.dedup();
    if files.is_empty() {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        anyhow::bail!("no file in {} ends in .rego", paths.join(", "));
    }
    let text = |file: &PathBuf| {
        let (name, text) = documents::read(file)?;
        anyhow::Ok(Text { id: ModuleId::new(&name), text: text.into() })
    };
    files.iter().map(text).collect()
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let cannot = || format!("cannot read {}", folder.display());
    for entry in folder.read_dir().with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        // A link is not followed: it may lead back.
        if entry.file_type().with_context(cannot)?.is_dir() {
            below(&entry.path(), files)?;
        } else if entry.path().extension().is_some_and(|ending| ending == ENDING) {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Checks `texts` in a process of its own.
///
/// # Errors
///
/// Where that cannot be done.
pub(super) async fn check(texts: &[Text]) -> anyhow::Result<Faults> {
    Ok(Checker::this_program()?.check(texts).await?)
}

/// The bundle of `texts`; where something is wrong with it, that is said, and there is none.
///
/// # Errors
///
/// As [`check`].
pub(super) async fn bundle(texts: &[Text]) -> anyhow::Result<Option<Bundle>> {
    let mut faults = check(texts).await?;
    if faults.is_empty() {
        match Bundle::read(texts) {
            Ok(bundle) => return Ok(Some(bundle)),
            Err(found) => faults.told = found,
        }
    }
    say(lines(&faults).trim_end());
    Ok(None)
}

/// A line for each of `faults`.
pub(super) fn lines(faults: &Faults) -> String {
    faults.to_string().lines().map(|line| printable(line) + "\n").collect()
}
