//! Records the state of a hub: its objects with status and managed fields.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::discovery::pinned_kind;
use policy_sync::cli::output::yaml_documents;
use policy_sync_testenv::fixtures::{auth_policy, rate_limit_policy, timeout_policy};
use policy_sync_testenv::{ControlPlane, Fleet, FleetOptions, Tenant};
use serde_json::{Value, json};

use crate::BINARY;

/// The tenant whose objects are recorded, and its controller.
const TENANT: &str = "upgrade";
pub(crate) const CONTROLLER: &str = "example.com/upgrade";

/// The recorded kinds, in the order of their restoration.
const KINDS: [(&str, &str); 11] = [
    ("cluster.open-cluster-management.io/v1", "ManagedCluster"),
    ("cluster.open-cluster-management.io/v1beta1", "Placement"),
    ("cluster.open-cluster-management.io/v1beta1", "PlacementDecision"),
    ("v1", "ConfigMap"),
    ("gateway.networking.k8s.io/v1", "GatewayClass"),
    ("gateway.networking.k8s.io/v1", "Gateway"),
    ("kuadrant.io/v1", "RateLimitPolicy"),
    ("kuadrant.io/v1", "AuthPolicy"),
    ("policies.example.com/v1alpha1", "TimeoutPolicy"),
    ("work.open-cluster-management.io/v1", "ManifestWork"),
    ("coordination.k8s.io/v1", "Lease"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrade")
}

/// The recorded state of a hub under a version.
pub(crate) struct Recording {
    pub(crate) version: String,
    pub(crate) objects: Vec<Value>,
}

impl Recording {
    /// The recordings of all versions.
    pub(crate) fn all() -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(folder())? {
            let path = entry?.path();
            if path.is_dir() {
                let version = path.file_name().context("no name")?.to_string_lossy().into_owned();
                all.push(Self::of(&version)?);
            }
        }
        Ok(all)
    }

    /// The recording of the present version.
    pub(crate) fn present() -> Result<Self> {
        Self::of(env!("CARGO_PKG_VERSION"))
    }

    fn of(version: &str) -> Result<Self> {
        let path = folder().join(version).join("hub.yaml");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(Self { version: version.to_owned(), objects: serde_saphyr::from_multiple(&text)? })
    }

    /// The objects of a kind.
    pub(crate) fn of_kind(&mut self, kind: &str) -> impl Iterator<Item = &mut Value> {
        self.objects.iter_mut().filter(move |object| object["kind"] == kind)
    }

    /// The specs of the works.
    pub(crate) fn specs(&self) -> BTreeMap<String, Value> {
        let works = self.objects.iter().filter(|object| object["kind"] == "ManifestWork");
        works.map(|work| (place(work), work["spec"].clone())).collect()
    }
}

/// `<namespace>/<name>`
pub(crate) fn place(object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}

/// The objects of a kind that are cluster-scoped or in the tenant's namespace; ManifestWorks of all
/// namespaces.
pub(crate) async fn objects(hub: &ControlPlane, api_version: &str, kind: &str) -> Result<Vec<Value>> {
    let client = hub.client()?;
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let (resource, _) = pinned_kind(&client, &GroupVersionKind::gvk(group, version, kind)).await?;
    let all: Api<DynamicObject> = Api::all_with(client, &resource);
    let is_theirs = |object: &DynamicObject| match (kind, object.namespace()) {
        (_, None) | ("ManifestWork", _) => true,
        // A controller outside of a pod has its Lease in this namespace.
        ("Lease", Some(namespace)) => namespace == "default",
        (_, Some(namespace)) => namespace == TENANT,
    };
    let mut found = Vec::new();
    for object in all.list(&ListParams::default()).await?.items.into_iter().filter(is_theirs) {
        if object.name_any() == "kube-root-ca.crt" {
            continue;
        }
        let mut object = serde_json::to_value(object)?;
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        found.push(object);
    }
    Ok(found)
}

/// Creates a hub whose policies and Gateway have reported statuses, and returns its objects.
async fn record() -> Result<Vec<Value>> {
    let fleet = Fleet::start(FleetOptions::spokes(["eu-1", "us-1"])).await?;
    let hub = fleet.hub();
    let tenant = Tenant::new(hub, BINARY.as_ref(), TENANT, &["eu-1", "us-1"]).await?;
    ensure!(tenant.controller_name() == CONTROLLER, "the tenant has another controller name");
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(TENANT, "limits", "web");
    let mut auth = auth_policy(TENANT, "auth", "web");
    auth["metadata"]["annotations"] = json!({ "kuadrant.io/cluster-selector": "region=us" });
    let mut timeouts = timeout_policy(TENANT, "timeouts", &["web"]);
    let overrides = json!([{ "clusterSelector": "region=eu", "patch": { "timeout": "5s" } }]);
    timeouts["metadata"]["annotations"] = json!({ "kuadrant.io/cluster-overrides": overrides.to_string() });
    for policy in [&limits, &auth, &timeouts] {
        tenant.apply(policy).await?;
    }
    for policy in [&limits, &auth, &timeouts] {
        tenant.until_folded(policy, |_, summary| summary.synced && summary.pending == 0).await?;
    }
    controller.settled(hub).await?;
    controller.terminate().await?;
    let mut recorded = Vec::new();
    for (api_version, kind) in KINDS {
        let mut found = objects(hub, api_version, kind).await?;
        ensure!(!found.is_empty(), "no {kind}");
        found.sort_by_key(place);
        for object in &mut found {
            let metadata = object["metadata"].as_object_mut().context("no metadata")?;
            // `generation` is kept, because observed generations refer to it.
            metadata
                .retain(|key, _| !matches!(key.as_str(), "uid" | "resourceVersion" | "creationTimestamp"));
        }
        recorded.extend(found);
    }
    Ok(recorded)
}

/// With `POLICY_SYNC_UPDATE=1`, writes the recording first. Otherwise only checks that the recording is complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_present_version_is_recorded() -> Result<()> {
    if std::env::var_os("POLICY_SYNC_UPDATE").is_some() {
        let folder = folder().join(env!("CARGO_PKG_VERSION"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("hub.yaml"), yaml_documents(&record().await?)?)?;
    }
    let kinds: Vec<Value> =
        Recording::present()?.objects.into_iter().map(|object| object["kind"].clone()).collect();
    for (_, kind) in KINDS {
        ensure!(kinds.iter().any(|recorded| recorded == kind), "no {kind} in the recording");
    }
    Ok(())
}
