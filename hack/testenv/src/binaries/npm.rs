//! Downloads files from npm packages without installing the packages, and verifies their pinned hashes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// A file in an npm package.
pub(super) struct Package {
    /// Name and version.
    pub(super) name: &'static str,
    /// Path of the file in the archive.
    pub(super) inside: &'static str,
    /// The BLAKE3 hash of the file.
    pub(super) hash: &'static str,
}

/// Accessibility checker for web pages.
pub(super) static AXE: Package = Package {
    name: "axe-core@4.14.1",
    inside: "package/axe.min.js",
    hash: "a0ed4373d1e8caa6416959a32966c75840c12038c33fc4b8d68e50eed251640d",
};

impl Package {
    /// Downloads the package, verifies the file and writes it to `to`.
    pub(super) fn fetch(&self, to: &Path) -> Result<()> {
        let folder = tempfile::tempdir().context("creating a folder")?;
        let run = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(folder.path()).stdin(Stdio::null());
            let output = command.output().with_context(|| format!("starting {program}"))?;
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(output.status.success(), "{program} {}: {words}", arguments.join(" "));
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let archive = run("npm", &["pack", "--silent", self.name])?;
        run("tar", &["-xzf", &archive])?;
        let file = fs::read(folder.path().join(self.inside))
            .with_context(|| format!("reading {} of {}", self.inside, self.name))?;
        let found = blake3::hash(&file).to_string();
        ensure!(
            found == self.hash,
            "{} of {} has the hash {found}, expected {}",
            self.inside,
            self.name,
            self.hash
        );
        fs::write(to, file).with_context(|| format!("writing {}", to.display()))
    }
}
