//! A control plane starts in time, survives crashes of its API server, and leaves no processes or files.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::{await_condition, conditions::is_deleted};
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::{ControlPlane, ControlPlaneOptions, binaries};

/// A hub alone on a machine takes 4 s. Here, other tests run at the same time.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Time limit for everything else on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

async fn start(name: &str) -> ControlPlane {
    ControlPlane::start(ControlPlaneOptions::named(name)).await.unwrap()
}

/// Whether a process is running; zombies are not.
fn runs(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

async fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is() {
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn starts_in_time_and_stops_without_leftovers() {
    binaries::ensure().await.unwrap();
    let started = Instant::now();
    let plane = start("trace").await;
    assert!(started.elapsed() < READY_WITHIN, "ready only after {:?}", started.elapsed());
    let version = plane.client().unwrap().apiserver_version().await.unwrap();
    assert!(version.git_version.starts_with("v1."), "{}", version.git_version);

    let (pids, directory) = (plane.pids(), plane.directory().to_owned());
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|pid| runs(*pid)));
    drop(plane);
    assert!(!pids.iter().any(|pid| runs(*pid)), "a server outlived its control plane");
    assert!(!directory.exists());
}

#[tokio::test]
async fn stops_with_a_panic() {
    let plane = start("panic").await;
    let pids = plane.pids();
    let panicked = tokio::spawn(async move {
        let _plane = plane;
        panic!("on purpose");
    });
    assert!(panicked.await.is_err());
    assert!(!pids.iter().any(|pid| runs(*pid)));
}

/// Only `SIGKILL` prevents all cleanup in the process.
#[tokio::test]
async fn stops_when_its_process_is_killed() {
    binaries::ensure().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut up = Command::new(env!("CARGO_BIN_EXE_testenv"))
        .args(["up", "--spokes", "0", "--dir"])
        .arg(directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let hub = directory.path().join("hub");
    eventually("the controller manager writes a log", || {
        assert!(up.try_wait().unwrap().is_none(), "the process ended");
        hub.join("kube-controller-manager.log").exists()
    })
    .await;
    let pids = children(up.id());
    assert!(pids.len() >= 3, "found {pids:?}");
    up.kill().unwrap();
    up.wait().unwrap();
    eventually("no server runs", || !pids.iter().any(|pid| runs(*pid))).await;
    assert!(hub.join("etcd.log").exists(), "a directory given as an argument is kept");
}

fn children(parent: u32) -> Vec<u32> {
    let tasks = Path::new("/proc").join(parent.to_string()).join("task");
    std::fs::read_dir(tasks)
        .unwrap()
        .flat_map(|task| {
            let children = std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
            children.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()
        })
        .collect()
}

#[tokio::test]
async fn api_server_restarts_with_its_address_and_data() {
    let plane = start("comeback").await;
    let maps: Api<ConfigMap> = Api::default_namespaced(plane.client().unwrap());
    let map = ConfigMap {
        metadata: kube::core::ObjectMeta { name: Some("kept".into()), ..Default::default() },
        ..Default::default()
    };
    maps.create(&PostParams::default(), &map).await.unwrap();

    plane.stop_api_server();
    assert!(maps.get("kept").await.is_err());
    plane.start_api_server().await.unwrap();
    maps.get("kept").await.unwrap();
}

#[tokio::test]
async fn deleted_namespace_is_removed() {
    let plane = start("namespace").await;
    let client = plane.client().unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let shop = Namespace {
        metadata: kube::core::ObjectMeta { name: Some("shop".into()), ..Default::default() },
        ..Default::default()
    };
    let created = namespaces.create(&PostParams::default(), &shop).await.unwrap();
    let uid = created.metadata.uid.unwrap();
    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    let gone = await_condition(namespaces, "shop", is_deleted(&uid));
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap().unwrap();
}

#[tokio::test]
async fn user_has_only_the_rights_of_its_roles() {
    let plane = start("rights").await;
    let nobody = User::new("nobody").in_group("nobodies");
    let maps: Api<ConfigMap> = Api::default_namespaced(plane.client_for(&nobody).await.unwrap());
    let error = maps.list(&Default::default()).await.unwrap_err();
    assert!(error.to_string().contains(r#"User "nobody" cannot list"#), "{error}");
}

/// The kubeconfig of one control plane must not work with another control plane.
#[tokio::test]
async fn trusts_only_its_own_authority() {
    let (ours, theirs) = tokio::join!(start("ours"), start("theirs"));
    let mut config = ours.client_config();
    config.cluster_url = theirs.client_config().cluster_url;
    let client = kube::Client::try_from(config).unwrap();
    let error = format!("{:?}", client.apiserver_version().await.unwrap_err());
    assert!(error.contains("UnknownIssuer") || error.contains("BadSignature"), "{error}");
}

#[tokio::test]
async fn a_failed_start_quotes_the_log() {
    let directory = tempfile::tempdir().unwrap();
    // A file blocks etcd's data directory.
    std::fs::write(directory.path().join("etcd"), "").unwrap();
    let options = ControlPlaneOptions {
        directory: Some(directory.path().to_owned()),
        ..ControlPlaneOptions::named("broken")
    };
    let error = format!("{:#}", ControlPlane::start(options).await.unwrap_err());
    assert!(error.contains("starting the control plane broken: etcd ended"), "{error}");
    assert!(error.contains("etcd.log"), "{error}");
}
