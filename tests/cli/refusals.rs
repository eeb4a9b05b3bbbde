//! A command that fails prints one line on standard error, nothing on standard output, and exits with 2.

mod cases;

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::crds::{self, ClusterType, Crd};
use policy_sync_testenv::tenant::LIMIT;
use policy_sync_testenv::{ControlPlane, ControlPlaneOptions, Fleet, binaries, wait};
use serde_json::{Value, json};

use cases::{KUBECONFIGS, USAGE};

use crate::run::{CommandOutput, command, end, finish, run_with};

/// Some of the commands that read the hub, with minimal arguments. Of these, only `params check` works if no hub
/// is configured.
const COMMANDS: [&[&str]; 4] = [
    &["controller", "--metrics-bind-address=0", "--health-probe-bind-address=0"],
    &["plan", "--diff"],
    &["status"],
    &["params", "check", "-"],
];

/// Expands a kubeconfig in short form.
fn kubeconfig(text: &str, port: u16) -> String {
    text.replace(
        "CLUSTER",
        &format!("clusters: [{{name: hub, cluster: {{server: 'https://127.0.0.1:{port}'}}}}]"),
    )
    .replace("USER", "users: [{name: me, user: {token: secret}}]")
    .replace("CONTEXT", "contexts: [{name: hub, context: {cluster: hub, user: me}}], current-context: hub")
}

/// A closed port, which was free a moment ago.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The difference between a failed run and the expected result; `None` if there is none.
fn fault(ran: &CommandOutput, says: &str) -> Option<String> {
    let line = ran.stderr.strip_suffix('\n').unwrap_or_default();
    let fine = ran.code == 2
        && ran.stdout.is_empty()
        && line.starts_with("policy-sync: ")
        && line.contains(says)
        && !line.contains(char::is_control)
        // Causes are printed only once.
        && line.matches("(os error").count() <= 1
        && line.matches("auth exec").count() <= 1;
    (!fine).then(|| format!("expected {says:?}, found {ran:?}"))
}

fn with_kubeconfig(arguments: &[&str], directory: &Path, file: &str) -> CommandOutput {
    let mut command = command(arguments);
    command.current_dir(directory).args(["--kubeconfig", file]);
    finish(command, "{}")
}

#[test]
fn invalid_arguments_are_reported() {
    let faults: Vec<String> =
        USAGE.iter().filter_map(|(arguments, says)| fault(&run_with(arguments, "{}"), says)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn invalid_log_filter_is_reported() {
    let mut controller = command(&["controller", "--log-level=debug"]);
    controller.env("RUST_LOG", "policy_sync=loud");
    let fault = fault(&finish(controller, ""), "RUST_LOG \"policy_sync=loud\" is not a filter such as");
    assert!(fault.is_none(), "{fault:?}");
}

#[test]
fn missing_subcommand_prints_usage() {
    for arguments in [&[][..], &["params"]] {
        let ran = run_with(arguments, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
        assert!(ran.stderr.contains("\nUsage: policy-sync "), "{}", ran.stderr);
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    for arguments in [&["--help"][..], &["--version"], &["help", "plan"], &["params", "check", "-h"]] {
        let ran = run_with(arguments, "");
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments:?}");
        assert!(!ran.stdout.is_empty());
    }
}

#[test]
fn version_flag_prints_the_version_of_the_build() {
    let ran = run_with(&["--version"], "");
    assert_eq!((ran.code, ran.stdout), (0, format!("policy-sync {}\n", policy_sync::version::text())));
}

#[test]
fn invalid_kubeconfigs_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let mut faults = Vec::new();
    for (name, text, says) in KUBECONFIGS {
        if let Some(text) = text {
            std::fs::write(directory.path().join(name), kubeconfig(text, closed_port())).unwrap();
        }
        let ran = |command: &&[&str]| with_kubeconfig(command, directory.path(), name);
        faults.extend(COMMANDS.iter().map(ran).filter_map(|ran| fault(&ran, says)));
    }
    std::fs::write(directory.path().join("hub"), kubeconfig("{CLUSTER, USER, CONTEXT}", 1)).unwrap();
    for arguments in COMMANDS {
        let ran = with_kubeconfig(&[arguments, &["--context", "other"]].concat(), directory.path(), "hub");
        faults.extend(fault(&ran, "kubeconfig hub: failed to load current context: other"));
        let ran = run_with(&[arguments, &["--context", "other"]].concat(), "{}");
        faults.extend(fault(&ran, "cannot read the kubeconfig: "));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn missing_hub_configuration_is_reported() {
    // `params check` works without a hub.
    for arguments in &COMMANDS[..3] {
        assert_eq!(
            fault(&run_with(arguments, ""), "no hub is configured: set --kubeconfig or KUBECONFIG"),
            None
        );
    }
}

#[test]
fn unreachable_hub_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let port = closed_port();
    std::fs::write(directory.path().join("away"), kubeconfig("{CLUSTER, USER, CONTEXT}", port)).unwrap();
    for arguments in &COMMANDS[1..] {
        let says = format!("cannot reach the hub at https://127.0.0.1:{port}: Connection refused");
        assert_eq!(fault(&with_kubeconfig(arguments, directory.path(), "away"), &says), None);
    }
}

#[tokio::test]
async fn missing_apis_of_the_hub_are_reported() -> Result<()> {
    let hub = ControlPlane::start(ControlPlaneOptions::named("lacking")).await?;
    let client = hub.client()?;
    let ran =
        |arguments: &[&str]| with_kubeconfig(arguments, hub.directory(), hub.kubeconfig().to_str().unwrap());
    let refused = |arguments: &[&str], says: &str| {
        let fault = fault(&ran(arguments), says);
        ensure!(fault.is_none(), "{arguments:?}: {fault:?}");
        Ok(())
    };
    let nothing = format!("the hub at {} has no GatewayClasses: Gateway API is not installed", hub.url());
    COMMANDS[1..].iter().try_for_each(|arguments| refused(arguments, &nothing))?;

    let all = crds::for_cluster_type(ClusterType::Hub, &binaries::ensure().await?)?;
    let (gateway_api, mut others): (Vec<Crd>, Vec<Crd>) =
        all.into_iter().partition(|crd| crd.name().ends_with(".gateway.networking.k8s.io"));
    crds::install(&client, &gateway_api).await?;
    let no_works = "has no ManifestWorks: Open Cluster Management is not installed";
    COMMANDS[1..].iter().try_for_each(|arguments| refused(arguments, no_works))?;

    let works = others
        .iter_mut()
        .find(|crd| crd.name().starts_with("manifestworks."))
        .context("the CRD of ManifestWork is missing")?;
    let whole = works.clone();
    let strategies = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/manifestConfigs/items\
                      /properties/updateStrategy/properties/type/enum";
    let mut old = works.value().clone();
    *old.pointer_mut(strategies).context("the CRD has no update strategies")? =
        json!(["Update", "CreateOnly"]);
    *works = Crd::new(old)?;
    crds::install(&client, &others).await?;
    let old = "the controller would not start on the hub at https://127.0.0.1:";
    refused(COMMANDS[1], old)?;
    refused(COMMANDS[1], ": the hub's ManifestWork has no update strategy ServerSideApply")?;

    crds::install(&client, &[whole]).await?;
    let ran = ran(COMMANDS[1]);
    ensure!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()) == (0, "", ""), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn spoke_is_reported_as_a_spoke() -> Result<()> {
    let crds = crds::for_cluster_type(ClusterType::Spoke, &binaries::ensure().await?)?;
    let spoke =
        ControlPlane::start(ControlPlaneOptions { crds, ..ControlPlaneOptions::named("a-spoke") }).await?;
    let says = format!(
        "the cluster at {} looks like a spoke, not a hub: it has AppliedManifestWorks and no ManifestWorks. Set \
         --kubeconfig or --context to the hub",
        spoke.url()
    );
    let kubeconfig = spoke.kubeconfig().to_str().context("the path is not UTF-8")?;
    let web: &[&str] = &["web", "--port", "0"];
    for arguments in COMMANDS[1..].iter().copied().chain([web]) {
        let fault = fault(&with_kubeconfig(arguments, spoke.directory(), kubeconfig), &says);
        ensure!(fault.is_none(), "{arguments:?}: {fault:?}");
    }
    Ok(())
}

#[tokio::test]
async fn expired_credentials_are_reported() -> Result<()> {
    let hub = Fleet::shared_hub().await?.hub();
    let mut kubeconfig: Value = serde_saphyr::from_str(&std::fs::read_to_string(hub.kubeconfig())?)?;
    kubeconfig["users"][0]["user"] = json!({"token": "expired"});
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), kubeconfig.to_string())?;
    let path = file.path().to_str().context("the path is not UTF-8")?;
    for arguments in &COMMANDS[1..] {
        let fault = fault(
            &with_kubeconfig(arguments, hub.directory(), path),
            &format!("on the hub at {}: Unauthorized (401)", hub.url()),
        );
        ensure!(fault.is_none(), "{fault:?}");
    }
    Ok(())
}

/// A kubeconfig for a hub that does not run.
pub(crate) fn away(directory: &Path) -> PathBuf {
    let path = directory.join("away");
    std::fs::write(&path, kubeconfig("{CLUSTER, USER, CONTEXT}", closed_port())).unwrap();
    path
}

#[test]
fn port_in_use_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = away(directory.path());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (flag, other) in [
        ("--metrics-bind-address", "--health-probe-bind-address=0"),
        ("--health-probe-bind-address", "--metrics-bind-address=0"),
    ] {
        let arguments = ["controller", flag, &address, other];
        let ran = with_kubeconfig(&arguments, directory.path(), kubeconfig.to_str().unwrap());
        assert_eq!(fault(&ran, &format!("cannot listen on {address}: Address already in use")), None);
    }
}

/// The controller waits for a hub that does not run, and stops on a signal.
#[tokio::test]
async fn controller_without_a_hub_stops_on_a_signal() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let kubeconfig = away(directory.path());
    for signal in ["TERM", "INT"] {
        let log = directory.path().join(signal);
        let mut command = command(COMMANDS[0]);
        command.arg("--kubeconfig").arg(&kubeconfig).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.stderr(File::create(&log)?).spawn()?;
        let waits = wait::until("the controller waits for the hub", LIMIT, || async {
            ensure!(
                std::fs::read_to_string(&log)?.contains("cannot list or watch"),
                "no failed list or watch is logged"
            );
            Ok(())
        });
        let waits = waits.await;
        let pid = child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status()?;
        let ran = end(child);
        waits?;
        ensure!(sent.success() && (ran.code, ran.stdout.as_str()) == (0, ""), "{ran:?}");
    }
    Ok(())
}
