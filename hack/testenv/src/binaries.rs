//! Builds the programs of a control plane and other tools of the tests once, from pinned Go modules.
//!
//! Each group in `tools/` is a separate Go module, because their dependencies conflict; its `go.sum` pins all
//! checksums. Results are in `target/testenv`. Beside each result is a stamp file with the text of `go.mod` and
//! `go.sum`, so that a changed pin triggers a rebuild. Test processes run concurrently. A file lock makes other
//! processes wait while one process builds.
//!
//! `KUBEBUILDER_ASSETS` names a directory with some of the programs; only missing programs are built.
//! `POLICY_SYNC_TESTENV_DIR` replaces `target/testenv`.

mod debian;
mod go;
mod npm;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use self::go::{Group, Program};
use crate::published;

/// Paths of the control plane's programs and of the Gateway API's CRDs.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// Path of `etcd`.
    pub etcd: PathBuf,
    /// Path of `kube-apiserver`.
    pub kube_apiserver: PathBuf,
    /// Path of `kube-controller-manager`.
    pub kube_controller_manager: PathBuf,
    /// Path of `kubectl`.
    pub kubectl: PathBuf,
    /// A directory with the Gateway API's CRDs of the standard channel, one YAML file each.
    pub gateway_api: PathBuf,
}

/// The directory for everything that is built or downloaded.
pub fn directory() -> PathBuf {
    std::env::var_os("POLICY_SYNC_TESTENV_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/testenv"), PathBuf::from)
}

/// Tools that test and document the chart.
#[derive(Debug, Clone)]
pub struct ChartTools {
    /// Path of `helm`.
    pub helm: PathBuf,
    /// Path of `helm-docs`.
    pub helm_docs: PathBuf,
}

/// Builds the missing or outdated programs of a control plane. If all programs are up to date, this is fast.
pub async fn ensure() -> Result<Binaries> {
    blocking(|| {
        let directory = made_directory()?;
        let program = |program| built(&directory, program);
        Ok(Binaries {
            etcd: program(&go::ETCD)?,
            kube_apiserver: program(&go::KUBE_APISERVER)?,
            kube_controller_manager: program(&go::KUBE_CONTROLLER_MANAGER)?,
            kubectl: program(&go::KUBECTL)?,
            gateway_api: match published::gateway_api() {
                Some(folder) => folder,
                None => {
                    made(&directory, &directory.join("gateway-api"), &go::GATEWAY_API, go::copy_gateway_api)?
                }
            },
        })
    })
    .await
}

/// Builds `helm` and `helm-docs` if needed.
///
/// # Errors
///
/// Returns an error if a build fails.
pub async fn chart_tools() -> Result<ChartTools> {
    blocking(|| {
        let directory = made_directory()?;
        Ok(ChartTools { helm: built(&directory, &go::HELM)?, helm_docs: built(&directory, &go::HELM_DOCS)? })
    })
    .await
}

/// Builds `crane`, a registry for images on this machine, if needed.
///
/// # Errors
///
/// Returns an error if the build fails.
pub async fn crane() -> Result<PathBuf> {
    blocking(|| built(&made_directory()?, &go::CRANE)).await
}

/// Builds `opa`, the Open Policy Agent, if needed.
///
/// # Errors
///
/// Returns an error if the build fails.
pub async fn opa() -> Result<PathBuf> {
    blocking(|| built(&made_directory()?, &go::OPA)).await
}

/// The directory of OPA's own test cases, in YAML.
///
/// # Errors
///
/// Returns an error if OPA's Go module cannot be downloaded.
pub async fn opa_cases() -> Result<PathBuf> {
    blocking(go::opa_cases).await
}

/// Builds `vale`, which checks the prose of documentation and comments, if needed.
///
/// # Errors
///
/// Returns an error if the build fails.
pub async fn vale() -> Result<PathBuf> {
    blocking(|| built(&made_directory()?, &go::VALE)).await
}

/// Builds `yaml-reader`, which reads YAML as kubectl does, if needed.
///
/// # Errors
///
/// Returns an error if the build fails.
pub async fn yaml_reader() -> Result<PathBuf> {
    blocking(|| built(&made_directory()?, &go::YAML_READER)).await
}

/// The directory of yaml-test-suite's cases.
///
/// # Errors
///
/// Returns an error if the Go module that contains them cannot be downloaded.
pub async fn yaml_cases() -> Result<PathBuf> {
    blocking(go::yaml_cases).await
}

/// Downloads axe-core's script, which checks the accessibility of pages, if needed.
///
/// # Errors
///
/// Returns an error if the download fails or the hash of the file differs from the pinned hash.
pub async fn axe() -> Result<PathBuf> {
    blocking(|| {
        let directory = made_directory()?;
        let package = &npm::AXE;
        let pins =
            Pins { text: format!("{} {}", package.name, package.hash), version: package.name.to_owned() };
        once(&directory, &directory.join("axe.js"), &pins, |to| package.fetch(to))
    })
    .await
}

async fn blocking<T: Send + 'static>(make: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(make).await.context("the build panicked")?
}

/// Creates [`directory`] if it is missing.
fn made_directory() -> Result<PathBuf> {
    let directory = directory();
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    directory.canonicalize().with_context(|| format!("resolving {}", directory.display()))
}

/// The program in `KUBEBUILDER_ASSETS` if it exists, otherwise the program that is built from `tools/`.
fn built(directory: &Path, program: &'static Program) -> Result<PathBuf> {
    let given = std::env::var_os("KUBEBUILDER_ASSETS").map(|assets| PathBuf::from(assets).join(program.name));
    match given.filter(|path| path.is_file()) {
        Some(path) => path.canonicalize().with_context(|| format!("resolving {}", path.display())),
        None => {
            made(directory, &directory.join("bin").join(program.name), program.group, |to| program.build(to))
        }
    }
}

/// The program at `inside` in a Debian package: from the `PATH` if it is installed, otherwise extracted from the
/// package.
///
/// # Errors
///
/// Returns an error if the program is not installed and the package cannot be downloaded.
pub async fn debian(package: &'static str, inside: &'static str) -> Result<PathBuf> {
    blocking(move || {
        let name = Path::new(inside).file_name().unwrap_or_default();
        let paths = std::env::var_os("PATH").unwrap_or_default();
        if let Some(path) =
            std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file())
        {
            return Ok(path);
        }
        let directory = made_directory()?;
        let pins = Pins { text: package.to_owned(), version: format!("Debian's {package}") };
        once(&directory, &directory.join("bin").join(name), &pins, |to| debian::fetch(package, inside, to))
    })
    .await
}

/// Identifies the inputs of a build.
struct Pins {
    /// Content of the stamp file.
    text: String,
    /// Version for progress messages.
    version: String,
}

/// Builds `path` with `make` unless it exists and was built from the pins of `group`.
fn made(
    directory: &Path,
    path: &Path,
    group: &'static Group,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    once(directory, path, &Pins { text: group.pins(), version: group.version() }, make)
}

/// Builds `path` with `make` unless it exists and was built from the same `pins`.
fn once(
    directory: &Path,
    path: &Path,
    pins: &Pins,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let stamp = path.with_extension("stamp");
    let current = || path.exists() && fs::read_to_string(&stamp).is_ok_and(|text| text == pins.text);
    if current() {
        return Ok(path.to_owned());
    }
    let _lock = lock(&directory.join("lock"))?;
    if current() {
        return Ok(path.to_owned());
    }
    let parent = path.parent().unwrap_or(directory);
    fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    let started = Instant::now();
    progress(&format!("building {} from {}; the first build takes minutes", path.display(), pins.version));
    make(path).with_context(|| format!("building {}", path.display()))?;
    fs::write(&stamp, &pins.text).with_context(|| format!("writing {}", stamp.display()))?;
    progress(&format!("built {} in {} s", path.display(), started.elapsed().as_secs()));
    Ok(path.to_owned())
}

fn lock(path: &Path) -> Result<File> {
    let file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("opening {}", path.display()))?;
    if file.try_lock().is_err() {
        progress("waiting for the build of another process");
        file.lock().with_context(|| format!("locking {}", path.display()))?;
    }
    Ok(file)
}

/// Writes to the real stderr: the test harness captures `eprintln!` until a test fails.
fn progress(text: &str) {
    let _ = writeln!(std::io::stderr(), "testenv: {text}");
}
