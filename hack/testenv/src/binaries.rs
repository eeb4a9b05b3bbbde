//! The programs of a control plane, and what the chart is tested with, built once from pinned Go modules.
//!
//! Each group in `tools/` is a Go module of its own, because their dependencies conflict; its `go.sum` pins every
//! checksum. What is built lies in `target/testenv` beside a stamp with the text of both files, so that a new pin builds
//! anew. Test processes run side by side: a file lock lets one of them build while the others wait.
//!
//! `KUBEBUILDER_ASSETS` names a folder that has some of the programs already; only what it lacks is built.
//! `POLICY_SYNC_TESTENV_DIR` takes the place of `target/testenv`.

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

/// Where the programs and the Gateway API's CRDs lie.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// `etcd`
    pub etcd: PathBuf,
    /// `kube-apiserver`
    pub kube_apiserver: PathBuf,
    /// `kube-controller-manager`
    pub kube_controller_manager: PathBuf,
    /// `kubectl`
    pub kubectl: PathBuf,
    /// A folder with the Gateway API's CRDs of the standard channel, one YAML file for each.
    pub gateway_api: PathBuf,
}

/// The folder that holds what is built.
pub fn directory() -> PathBuf {
    std::env::var_os("POLICY_SYNC_TESTENV_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/testenv"), PathBuf::from)
}

/// What the chart is tested and documented with.
#[derive(Debug, Clone)]
pub struct ChartTools {
    /// `helm`
    pub helm: PathBuf,
    /// `helm-docs`
    pub helm_docs: PathBuf,
}

/// Builds what is missing or out of date. Fast where nothing is.
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

/// The same for what the chart needs.
///
/// # Errors
///
/// Where it cannot be built.
pub async fn chart_tools() -> Result<ChartTools> {
    blocking(|| {
        let directory = made_directory()?;
        Ok(ChartTools { helm: built(&directory, &go::HELM)?, helm_docs: built(&directory, &go::HELM_DOCS)? })
    })
    .await
}

/// The same for `crane`, which serves images from this machine.
///
/// # Errors
///
/// Where it cannot be built.
pub async fn crane() -> Result<PathBuf> {
    blocking(|| built(&made_directory()?, &go::CRANE)).await
}

/// The same for `opa`, the Open Policy Agent.
///
/// # Errors
///
/// Where it cannot be built.
pub async fn opa() -> Result<PathBuf> {
    blocking(|| built(&made_directory()?, &go::OPA)).await
}

/// The folder of OPA's own test cases, in YAML.
///
/// # Errors
///
/// Returns an error if its module cannot be downloaded.
pub async fn opa_cases() -> Result<PathBuf> {
    blocking(go::opa_cases).await
}

/// The same for `yaml-reader`, which reads YAML as kubectl does.
///
/// # Errors
///
/// Returns an error if it cannot be built.
pub async fn yaml_reader() -> Result<PathBuf> {
    blocking(|| built(&made_directory()?, &go::YAML_READER)).await
}

/// The folder of the cases of yaml-test-suite.
///
/// # Errors
///
/// Returns an error if the module that has them cannot be downloaded.
pub async fn yaml_cases() -> Result<PathBuf> {
    blocking(go::yaml_cases).await
}

/// The same for axe-core's script, which finds faults of pages that keep people out.
///
/// # Errors
///
/// Where it cannot be fetched, or is another than the one that is pinned.
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
    tokio::task::spawn_blocking(make).await.context("the build ended early")?
}

/// [`directory`], which is there now.
fn made_directory() -> Result<PathBuf> {
    let directory = directory();
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    directory.canonicalize().with_context(|| format!("resolving {}", directory.display()))
}

/// A program of `KUBEBUILDER_ASSETS`, else our own.
fn built(directory: &Path, program: &'static Program) -> Result<PathBuf> {
    let given = std::env::var_os("KUBEBUILDER_ASSETS").map(|assets| PathBuf::from(assets).join(program.name));
    match given.filter(|path| path.is_file()) {
        Some(path) => path.canonicalize().with_context(|| format!("resolving {}", path.display())),
        None => {
            made(directory, &directory.join("bin").join(program.name), program.group, |to| program.build(to))
        }
    }
}

/// The program at `inside` of Debian's `package`: one of its name on the `PATH`, else the package's own, fetched once.
///
/// # Errors
///
/// Where there is neither.
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

/// What something is made from.
struct Pins {
    /// What the stamp holds.
    text: String,
    /// In a few words.
    version: String,
}

/// Makes `path` with `make` from `group`, unless it is there and made from the same pins.
fn made(
    directory: &Path,
    path: &Path,
    group: &'static Group,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    once(directory, path, &Pins { text: group.pins(), version: group.version() }, make)
}

/// Makes `path` with `make`, unless it is there and made from the same `pins`.
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
    progress(&format!("making {} from {}; the first time takes minutes", path.display(), pins.version));
    make(path).with_context(|| format!("making {}", path.display()))?;
    fs::write(&stamp, &pins.text).with_context(|| format!("writing {}", stamp.display()))?;
    progress(&format!("made {} in {} s", path.display(), started.elapsed().as_secs()));
    Ok(path.to_owned())
}

fn lock(path: &Path) -> Result<File> {
    let file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("opening {}", path.display()))?;
    if file.try_lock().is_err() {
        progress("another process is building: waiting for it");
        file.lock().with_context(|| format!("locking {}", path.display()))?;
    }
    Ok(file)
}

/// To the real stderr: the test harness would keep what `eprintln!` writes until a test has failed.
fn progress(text: &str) {
    let _ = writeln!(std::io::stderr(), "testenv: {text}");
}
