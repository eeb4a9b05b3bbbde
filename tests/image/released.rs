//! Additional checks of a release image, which `POLICY_SYNC_IMAGE` names.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::ports::Port;
use policy_sync_testenv::{ControlPlane, Fleet, Tenant, binaries, wait};
use serde_json::Value;
use tempfile::TempDir;

use crate::layout::{Layout, packed, released, skopeo, unpacked};
use crate::{INSIDE, run};

/// The time limit for the start of a registry.
const LIMIT: Duration = Duration::from_secs(30);
/// The maximum download size of a platform, in bytes.
const SIZE: u64 = 20 << 20;

/// The image, unpacked for a platform.
struct Unpacked {
    root: PathBuf,
    _folder: TempDir,
}

impl Unpacked {
    fn new(image: &Layout, platform: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        // The files must be readable by the container's user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        Ok(Self { root: unpacked(image, platform, folder.path())?, _folder: folder })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_image_is_small_and_works_on_both_platforms() -> Result<()> {
    if released().is_none() {
        eprintln!("POLICY_SYNC_IMAGE is not set");
        return Ok(());
    }
    let image = packed()?;
    ensure!(image.platforms()? == ["amd64", "arm64"], "the platforms are {:?}", image.platforms()?);
    for (platform, manifest) in image.manifests()? {
        let layers = manifest["layers"].as_array().context("no layers")?;
        let size: u64 = layers.iter().filter_map(|layer| layer["size"].as_u64()).sum();
        ensure!(size > 0 && size < SIZE, "{platform} has {size} bytes");
        let unpacked = Unpacked::new(&image, &platform)?;
        is_described(&unpacked.root).with_context(|| platform.clone())?;
    }
    travels_through_a_registry(&image).await?;
    let hub = Fleet::shared_hub().await?.hub();
    runs_as_in_a_pod(hub, &Unpacked::new(&image, "amd64")?.root).await?;
    runs_on_arm64(hub, &Unpacked::new(&image, "arm64")?.root).await
}

/// Checks that the binary is static and contains no path of the build machine, and that the list of its dependencies is
/// beside the binary.
fn is_described(root: &Path) -> Result<()> {
    let binary = fs::read(root.join(INSIDE))?;
    let has = |text: &str| binary.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    ensure!(!has("ld-linux") && !has("ld-musl"), "the binary is not static");
    // The section in which cargo-auditable stores the list of crates.
    ensure!(has(".dep-v0"), "the binary has no list of crates");
    let home = std::env::var("HOME")?;
    for path in [env!("CARGO_MANIFEST_DIR"), &format!("{home}/.cargo"), &format!("{home}/.rustup")] {
        ensure!(!has(path), "the binary contains {path}");
    }
    let beside = root.join("usr/share/doc/policy-sync");
    let bill: Value = serde_json::from_str(&fs::read_to_string(beside.join("sbom.cdx.json"))?)?;
    ensure!(bill["bomFormat"] == "CycloneDX", "not a CycloneDX SBOM");
    ensure!(bill["metadata"]["component"]["version"] == env!("CARGO_PKG_VERSION"), "{}", bill["metadata"]);
    let components = bill["components"].as_array().context("no components")?;
    let licences = fs::read_to_string(beside.join("THIRD-PARTY.yaml"))?;
    for package in ["kube", "tokio", "ring", "serde_json", "tikv-jemallocator"] {
        ensure!(components.iter().any(|component| component["name"] == package), "the SBOM lacks {package}");
        ensure!(licences.contains(&format!("package_name: {package}\n")), "THIRD-PARTY.yaml lacks {package}");
    }
    for text in [bill.to_string(), licences] {
        ensure!(
            !text.contains(&home) && !text.contains(env!("CARGO_MANIFEST_DIR")),
            "contains a path of this machine"
        );
    }
    Ok(())
}

/// Pushes the image to a registry, pulls it, and compares the digests.
async fn travels_through_a_registry(image: &Layout) -> Result<()> {
    let hub = Fleet::shared_hub().await?.hub();
    let port = Port::reserve()?;
    let address = format!("127.0.0.1:{}", port.number());
    let arguments = ["registry", "serve", "--address", &address].map(str::to_owned);
    let _registry = hub.runtime_directory().spawn("registry", &binaries::crane().await?, &arguments)?;
    wait::until("the registry listens", LIMIT, || async {
        tokio::net::TcpStream::connect(&address).await.map(drop).context("cannot connect")
    })
    .await?;
    let published = format!("docker://{address}/policy-sync:{}", env!("CARGO_PKG_VERSION"));
    let digest =
        |reference: &str| skopeo(&["inspect", "--tls-verify=false", "--format", "{{.Digest}}", reference]);
    skopeo(&["copy", "--all", "--quiet", "--dest-tls-verify=false", &image.reference(), &published])?;
    let folder = tempfile::tempdir()?;
    let back = format!("oci:{}:back", folder.path().join("image").display());
    skopeo(&["copy", "--all", "--quiet", "--src-tls-verify=false", &published, &back])?;
    let raw = |reference: &str| skopeo(&["inspect", "--raw", "--tls-verify=false", reference]);
    ensure!(raw(&back)? == raw(&image.reference())?, "the pulled index differs");
    ensure!(digest(&back)? == digest(&published)?, "the pulled digest differs");
    Ok(())
}

/// Runs the controller as user 65532 in a read-only root with nothing but the image.
async fn runs_as_in_a_pod(hub: &ControlPlane, root: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pod = folder.path().join("pod");
    let script = format!(
        r#"#!/bin/sh
set -e
root={root}
for argument; do case "$argument" in --kubeconfig=*) kubeconfig=${{argument#*=}};; esac; done
install -D -m 444 "$kubeconfig" "$root$kubeconfig"
exec unshare --mount sh -c 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" &&
    exec chroot --userspec=65532:65532 "$0" /usr/bin/policy-sync "$@"' "$root" "$@"
"#,
        root = root.display()
    );
    fs::write(&pod, script)?;
    fs::set_permissions(&pod, fs::Permissions::from_mode(0o755))?;
    let tenant = Tenant::new(hub, &pod, "image", &["eu-1"]).await?;
    let controller = tenant.controller().await?;
    let process = PathBuf::from(format!("/proc/{}", controller.pid()));
    let status = fs::read_to_string(process.join("status"))?;
    ensure!(status.contains("Uid:\t65532\t65532\t65532\t65532\n"), "it runs as another user: {status}");
    ensure!(fs::read_link(process.join("root"))? == *root, "its root is not the image");
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-limits", |_| true).await?;
    controller.terminate().await.map(drop)
}

/// Runs the arm64 binary under an emulator against a hub.
async fn runs_on_arm64(hub: &ControlPlane, root: &Path) -> Result<()> {
    let emulator = binaries::debian("qemu-user-static", "usr/bin/qemu-aarch64-static").await?;
    let binary = root.join(INSIDE);
    let emulated = |arguments: &[&str]| run(Command::new(&emulator).arg(&binary).args(arguments));
    let version = emulated(&["--version"])?;
    ensure!(version.starts_with(concat!("policy-sync ", env!("CARGO_PKG_VERSION"))), "{version}");
    let tenant = Tenant::new(hub, &binary, "arm", &["eu-1"]).await?;
    let output = Command::new(&emulator)
        .arg(&binary)
        .args(["status", "--output", "json", "--namespace", tenant.name()])
        .args(["--controller-name", &tenant.controller_name()])
        .arg("--kubeconfig")
        .arg(hub.kubeconfig())
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    // Exit code 1 is a valid result: the Gateway is not programmed.
    ensure!(matches!(output.status.code(), Some(0 | 1)), "{stderr}");
    let shown: Value = serde_json::from_slice(&output.stdout).with_context(|| stderr.into_owned())?;
    ensure!(shown["items"][0]["name"] == "web", "{shown}");
    Ok(())
}
