//! An OCI image layout in a directory, and the tools `skopeo` and `umoci` that read the layout.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::{BINARY, run};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/hack/image");

/// An image layout that contains an image of the present version.
pub(crate) struct Layout {
    folder: PathBuf,
    /// Whether the image is a release image built by `hack/image`, instead of a packed test binary.
    pub(crate) is_released: bool,
    _packed: Option<TempDir>,
}

/// Packs a binary, and returns the digest.
pub(crate) fn pack(binary: &Path, output: &Path) -> Result<String> {
    let mut command = Command::new(SCRIPT);
    command.arg("--pack").arg(binary).arg("--output").arg(output);
    Ok(run(&mut command)?.trim().to_owned())
}

/// The layout in `POLICY_SYNC_IMAGE`, or else the packed test binary.
pub(crate) fn packed() -> Result<Layout> {
    if let Some(folder) = released() {
        return Ok(Layout { folder, is_released: true, _packed: None });
    }
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("image");
    pack(BINARY.as_ref(), &output)?;
    Ok(Layout { folder: output, is_released: false, _packed: Some(folder) })
}

/// The directory in `POLICY_SYNC_IMAGE`.
pub(crate) fn released() -> Option<PathBuf> {
    std::env::var_os("POLICY_SYNC_IMAGE").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// The directory of `skopeo` and `umoci`.
fn tools() -> Result<&'static Path> {
    static TOOLS: LazyLock<Result<PathBuf>> =
        LazyLock::new(|| Ok(run(Command::new(SCRIPT).arg("--tools"))?.trim().into()));
    match &*TOOLS {
        Ok(folder) => Ok(folder),
        Err(error) => bail!("{error:#}"),
    }
}

/// Runs `skopeo` with these arguments, and returns its output.
pub(crate) fn skopeo(arguments: &[&str]) -> Result<String> {
    run(Command::new(tools()?.join("skopeo")).arg("--insecure-policy").args(arguments))
}

impl Layout {
    /// The image reference for `skopeo`.
    pub(crate) fn reference(&self) -> String {
        format!("oci:{}:{}", self.folder.display(), env!("CARGO_PKG_VERSION"))
    }

    /// The platform of this machine, as Go names architectures.
    pub(crate) fn own_platform() -> Result<String> {
        match std::env::consts::ARCH {
            "x86_64" => Ok("amd64".into()),
            "aarch64" => Ok("arm64".into()),
            other => bail!("no image for {other}"),
        }
    }

    /// The manifests of all platforms, each with its architecture.
    pub(crate) fn manifests(&self) -> Result<Vec<(String, Value)>> {
        let index: Value = serde_json::from_str(&skopeo(&["inspect", "--raw", &self.reference()])?)?;
        let manifests = index["manifests"].as_array().context("not an image index")?;
        let named = manifests.iter().map(|manifest| {
            let platform = manifest["platform"]["architecture"].as_str().context("no architecture")?;
            let digest = manifest["digest"].as_str().context("no digest")?;
            Ok((platform.to_owned(), self.blob(digest)?))
        });
        named.collect()
    }

    /// The architectures of the image.
    pub(crate) fn platforms(&self) -> Result<Vec<String>> {
        Ok(self.manifests()?.into_iter().map(|(platform, _)| platform).collect())
    }

    /// The image configuration for a platform.
    pub(crate) fn config(&self, platform: &str) -> Result<Value> {
        let text = skopeo(&["--override-arch", platform, "inspect", "--config", "--raw", &self.reference()])?;
        Ok(serde_json::from_str(&text)?)
    }

    fn blob(&self, digest: &str) -> Result<Value> {
        let path = self.folder.join("blobs").join(digest.replace(':', "/"));
        let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

/// Unpacks a platform of an image, and returns the root of its files.
pub(crate) fn unpacked(image: &Layout, platform: &str, folder: &Path) -> Result<PathBuf> {
    // umoci supports no index, only an image of one platform.
    let one = folder.join("one");
    skopeo(&[
        "--override-arch",
        platform,
        "copy",
        "--quiet",
        &image.reference(),
        &format!("oci:{}:one", one.display()),
    ])?;
    let bundle = folder.join("bundle");
    let mut command = Command::new(tools()?.join("umoci"));
    command.args(["unpack", "--rootless", "--image"]).arg(format!("{}:one", one.display())).arg(&bundle);
    run(&mut command)?;
    Ok(bundle.join("rootfs"))
}
