//! Tests of the container image: packing is reproducible, the image contains exactly the expected files, and the image
//! runs.
//!
//! By default, the image has the test binary, which is neither static nor small. If `POLICY_SYNC_IMAGE` names a
//! layout that `hack/image` has built, the tests use that layout, and run additional checks.

mod layout;
mod released;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use layout::{Layout, pack, packed, unpacked};

/// The controller, as built for tests.
const BINARY: &str = env!("CARGO_BIN_EXE_policy-sync");
/// The path of the binary in the image.
const INSIDE: &str = "usr/bin/policy-sync";

/// Runs a program and returns its output.
fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {stderr}");
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn packing_is_reproducible_and_depends_on_the_binary() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let digest = |name: &str, binary: &Path| pack(binary, &folder.path().join(name));
    let first = digest("first", BINARY.as_ref())?;
    // The image contains neither the file's times nor its mode.
    let copy = folder.path().join("copy");
    fs::write(&copy, fs::read(BINARY)?)?;
    ensure!(digest("second", &copy)? == first, "the digest differs for the same binary");
    fs::write(&copy, "another")?;
    ensure!(digest("third", &copy)? != first, "the digest is the same for another binary");
    Ok(())
}

#[test]
fn image_contains_exactly_the_expected_files() -> Result<()> {
    let image = packed()?;
    for platform in image.platforms()? {
        let mut listed = vec!["755 usr/bin/policy-sync", "644 usr/share/doc/policy-sync/LICENSE"];
        if image.is_released {
            listed.push("644 usr/share/doc/policy-sync/THIRD-PARTY.yaml");
            listed.push("644 usr/share/doc/policy-sync/sbom.cdx.json");
        }
        let folder = tempfile::tempdir()?;
        let root = unpacked(&image, &platform, folder.path())?;
        ensure!(files(&root, &root)? == listed, "{platform}: {:?}", files(&root, &root)?);

        let config = image.config(&platform)?;
        ensure!(config["config"]["User"] == "65532:65532", "{config}");
        ensure!(config["config"]["Entrypoint"] == serde_json::json!(["/usr/bin/policy-sync"]), "{config}");
        let labels = &config["config"]["Labels"];
        ensure!(labels["org.opencontainers.image.version"] == env!("CARGO_PKG_VERSION"), "{config}");
        ensure!(labels["org.opencontainers.image.licenses"] == "Apache-2.0", "{config}");
        ensure!(
            config["rootfs"]["diff_ids"].as_array().map(Vec::len) == Some(1),
            "not exactly one layer: {config}"
        );
    }
    Ok(())
}

/// The files below `folder`, each with its mode, in order.
fn files(root: &Path, folder: &Path) -> Result<Vec<String>> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            found.extend(files(root, &path)?);
        } else {
            let mode = metadata.permissions().mode() & 0o7777;
            found.push(format!("{mode:o} {}", path.strip_prefix(root)?.display()));
        }
    }
    found.sort_by(|one, other| one[4..].cmp(&other[4..]));
    Ok(found)
}

#[test]
fn unpacked_binary_runs() -> Result<()> {
    let image = packed()?;
    let folder = tempfile::tempdir()?;
    let root = unpacked(&image, &Layout::own_platform()?, folder.path())?;
    let version = run(Command::new(root.join(INSIDE)).arg("--version"))?;
    ensure!(version.starts_with(concat!("policy-sync ", env!("CARGO_PKG_VERSION"))), "{version}");
    Ok(())
}

#[test]
fn packing_replaces_only_an_existing_image() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let precious = folder.path().join("precious");
    fs::write(&precious, "")?;
    let refusal = pack(BINARY.as_ref(), folder.path()).err().context("the folder was replaced")?;
    ensure!(refusal.to_string().contains("is not an image"), "{refusal:#}");
    ensure!(precious.exists(), "the file was deleted");
    Ok(())
}
