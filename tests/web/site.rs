//! The hub of these tests, and `policy-sync web` for this hub.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use kube::Client;
use kube::api::{Patch, PatchParams};
use policy_sync_api::annotations::{
    POLICIES_SYNCED, POLICIES_SYNCED_SUMMARY, POLICY_ANNOTATIONS, Summary, Synced,
};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::crds::{self, ClusterType};
use policy_sync_testenv::http::Response;
use policy_sync_testenv::tenant::LIMIT;
use policy_sync_testenv::web::Pages;
use policy_sync_testenv::{ControlPlane, ControlPlaneOptions, Tenant, binaries, fixtures, wait};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_policy-sync");

/// A running `policy-sync web`.
pub(crate) struct Site(Pages);

impl Deref for Site {
    type Target = Pages;

    fn deref(&self) -> &Pages {
        &self.0
    }
}

impl DerefMut for Site {
    fn deref_mut(&mut self) -> &mut Pages {
        &mut self.0
    }
}

impl Site {
    /// Starts a server with these arguments on a free port.
    pub(crate) async fn start(kubeconfig: &Path, arguments: &[&str]) -> Self {
        Self::start_on("0", kubeconfig, arguments).await
    }

    /// Starts a server for the objects of a tenant on a free port.
    pub(crate) async fn of(tenant: &Tenant<'_>) -> Self {
        Self::on("0", tenant).await
    }

    /// Starts a server for the objects of a tenant on this port.
    pub(crate) async fn on(port: &str, tenant: &Tenant<'_>) -> Self {
        let controller = tenant.controller_name();
        let arguments = ["--controller-name", &*controller, "-n", tenant.name()];
        Self::start_on(port, tenant.hub().kubeconfig(), &arguments).await
    }

    /// Starts a server with these arguments on this port.
    async fn start_on(port: &str, kubeconfig: &Path, arguments: &[&str]) -> Self {
        Self(Pages::start(command(kubeconfig, &[&["web", "--port", port], arguments].concat())).await)
    }

    /// Requests a page.
    pub(crate) async fn get(&self, path: &str) -> Response {
        self.0.get(path).await.unwrap()
    }

    /// Waits until `holds` accepts the page, and returns it.
    pub(crate) async fn until(&self, path: &str, holds: impl Fn(&str) -> bool) -> String {
        let shown = wait::until("the page has the expected content", LIMIT, || async {
            let page = self.get(path).await;
            ensure!(holds(&page.body), "{page:?}");
            Ok(page.body)
        });
        shown.await.unwrap()
    }
}

/// A command of the program for this hub.
pub(crate) fn command(kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(arguments).arg("--kubeconfig").arg(kubeconfig);
    command.env_remove("KUBECONFIG").env("HOME", "/nonexistent");
    command
}

/// The hub of these tests, with two clusters and without a controller. The tests write the controller's
/// annotations.
pub(crate) async fn hub() -> &'static ControlPlane {
    static HUB: OnceCell<ControlPlane> = OnceCell::const_new();
    HUB.get_or_try_init(|| start_hub("web", &["eu-1", "us-1"])).await.unwrap()
}

/// A hub with these clusters and without a controller. The name of a cluster begins with its region.
pub(crate) async fn start_hub(name: &str, clusters: &[&str]) -> Result<ControlPlane> {
    let crds = crds::for_cluster_type(ClusterType::Hub, &binaries::ensure().await?)?;
    let hub = ControlPlane::start(ControlPlaneOptions { crds, ..ControlPlaneOptions::named(name) }).await?;
    for cluster in clusters {
        let region = cluster.split('-').next().unwrap_or_default();
        let labels = BTreeMap::from([("region".to_owned(), region.to_owned())]);
        apply(&hub.client()?, &fixtures::managed_cluster(cluster, &labels)).await?;
        apply(&hub.client()?, &fixtures::namespace(cluster)).await?;
    }
    Ok(hub)
}

/// A tenant of the shared hub.
pub(crate) async fn tenant(name: &str) -> Tenant<'static> {
    Tenant::new(hub().await, Path::new(BINARY), name, &[]).await.unwrap()
}

/// Checks that `page` has all rules in `printed`, the output of `effective -o json`, with their values. Returns the
/// number of rules.
pub(crate) fn has_rules(page: &str, printed: &[u8]) -> usize {
    let printed: Value = serde_json::from_slice(printed).unwrap();
    let answers = printed["answers"].as_array().unwrap();
    assert!(!answers.is_empty(), "{printed}");
    let of_answers = answers.iter().flat_map(|answer| answer["effective"].as_object().unwrap().values());
    let rules = of_answers.flat_map(|of| of["rules"].as_object().unwrap());
    let shown = rules.inspect(|(key, rule)| {
        let value = rule["value"].to_string().replace('"', "&quot;");
        assert!(page.contains(&format!(">{key}</th>")) && page.contains(&value), "{key} {value}: {page}");
    });
    shown.count()
}

/// A route for the path `/<name>`.
pub(crate) fn route(namespace: &str, name: &str, parent: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"parentRefs": [{"name": parent}], "hostnames": ["shop.example.com"],
            "rules": [{"matches": [{"path": {"type": "PathPrefix", "value": format!("/{name}")}}]}]},
    })
}

/// The report of a cluster about a policy.
pub(crate) fn entry(cluster: &str, applied: bool, conditions: &[(&str, &str, &str)]) -> Synced {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(name, status, reason)| json!({"type": name, "status": status, "reason": reason}))
        .collect();
    let entry = json!({
        "cluster": cluster, "name": "limits", "namespace": "kuadrant-shop", "applied": applied, "conditions": conditions,
    });
    serde_json::from_value(entry).unwrap()
}

/// The annotations of a policy with these reports.
pub(crate) fn annotations(entries: &[Synced]) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        (POLICIES_SYNCED, json!(entries).to_string()),
        (POLICIES_SYNCED_SUMMARY, json!(Summary::new(entries, |_| true)).to_string()),
    ])
}

/// Writes `policy` with these annotations of the controller, and removes all other annotations of the controller.
pub(crate) async fn annotated(client: &Client, policy: &Value, annotations: BTreeMap<&str, String>) {
    apply(client, policy).await.unwrap();
    let all = POLICY_ANNOTATIONS.map(|key| (key, annotations.get(key)));
    let (policies, name) = api_for(client, policy).await.unwrap();
    let patch = json!({"metadata": {"annotations": BTreeMap::from(all)}});
    policies.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}
