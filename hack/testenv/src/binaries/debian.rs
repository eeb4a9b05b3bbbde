//! Extracts programs from Debian packages without installing the packages.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Downloads `package` and copies the program at `inside` to `to`.
pub(super) fn fetch(package: &str, inside: &str, to: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("creating a folder")?;
    let lists = folder.path().join("lists");
    fs::create_dir_all(lists.join("partial")).context("creating a folder")?;
    // A new machine may have no package lists, and only root can update the system's lists.
    let own =
        [format!("Dir::State::Lists={}", lists.display()), format!("Dir::Cache={}", folder.path().display())];
    let own: Vec<&str> = own.iter().flat_map(|option| ["-o", option]).collect();
    let download =
        |options: &[&str]| run(folder.path(), "apt-get", &[options, &["download", package]].concat());
    if download(&[]).is_err() {
        run(folder.path(), "apt-get", &[&own[..], &["update"]].concat())?;
        download(&own)?;
    }
    let files = fs::read_dir(folder.path()).context("reading the download folder")?;
    let fetched = files.filter_map(|file| Some(file.ok()?.path()));
    let fetched = fetched.filter(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let Some(archive) = fetched.last() else { bail!("apt-get downloaded no package {package}") };
    let unpacked = folder.path().join("unpacked");
    run(folder.path(), "dpkg-deb", &["-x", &archive.to_string_lossy(), &unpacked.to_string_lossy()])?;
    fs::copy(unpacked.join(inside), to).with_context(|| format!("copying {inside} from {package}"))?;
    Ok(())
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).current_dir(folder).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("starting {program}, which requires Debian or its tools"))?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{program} {}: {words}", arguments.join(" "));
    Ok(())
}
