//! Simulates the parts of a hub that the test environment lacks: a kubelet for the pods of the chart's
//! Deployment, and the placement controller of Open Cluster Management.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use policy_sync_testenv::apply::{apply_status, apply_with_status};
use policy_sync_testenv::{ControlPlane, fixtures};
use serde_json::json;

use crate::helm::{Release, Rendered};
use crate::rights;

const CLUSTER_SET: &str = "cluster.open-cluster-management.io/clusterset";

/// Runs the controller of each Deployment with its flags and ServiceAccount, and marks the Deployment as
/// rolled out once the controller leads. Returns if a controller does not start.
pub(crate) async fn pods(hub: &ControlPlane) -> Result<()> {
    let all: Api<Deployment> = Api::all(hub.client()?);
    let mut deployments =
        watcher(all, watcher::Config::default()).default_backoff().applied_objects().boxed();
    let mut running = Vec::new();
    let mut known = BTreeSet::new();
    while let Some(deployment) = deployments.next().await {
        let Ok(deployment) = deployment else { continue };
        let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
        if !known.insert((namespace.clone(), name.clone())) {
            continue;
        }
        let release = Release(&name, &namespace);
        let rendered = Rendered::live(hub, &deployment).await?;
        running.push(rights::controller(hub, release, &rendered).await?);
        let replicas = deployment.spec.replicas;
        let condition =
            |kind: &str, reason: &str| json!({ "type": kind, "status": "True", "reason": reason });
        let status = json!({ "status": {
            "observedGeneration": deployment.metadata.generation,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": replicas,
            "availableReplicas": replicas,
            "conditions": [
                condition("Available", "MinimumReplicasAvailable"),
                condition("Progressing", "NewReplicaSetAvailable"),
            ],
        } });
        let api: Api<Deployment> = Api::namespaced(hub.client()?, &namespace);
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    }
    bail!("the watch of Deployments has ended")
}

/// Decides each Placement: it selects the clusters of the cluster sets that are bound to the Placement's namespace.
pub(crate) async fn placements(hub: &ControlPlane) -> Result<()> {
    let client = hub.client()?;
    let placements = of(&client, "v1beta1", "Placement", "placements");
    let changes = |api: Api<DynamicObject>| {
        watcher(api, watcher::Config::default()).default_backoff().touched_objects()
    };
    let mut changes = futures::stream::select(
        changes(placements.clone()),
        changes(of(&client, "v1", "ManagedCluster", "managedclusters")),
    )
    .boxed();
    while let Some(change) = changes.next().await {
        if change.is_err() {
            continue;
        }
        for placement in placements.list(&ListParams::default()).await? {
            decide(&client, &placement).await?;
        }
    }
    bail!("the watch of Placements has ended")
}

async fn decide(client: &Client, placement: &DynamicObject) -> Result<()> {
    let (name, namespace) = (placement.name_any(), placement.namespace().unwrap_or_default());
    let bindings = of(client, "v1beta2", "ManagedClusterSetBinding", "managedclustersetbindings");
    let bound = bindings.list(&ListParams::default()).await?.into_iter();
    let bound: BTreeSet<String> = bound
        .filter(|binding| binding.namespace().as_ref() == Some(&namespace))
        .map(|binding| binding.name_any())
        .collect();
    let sets: Vec<String> = serde_json::from_value(placement.data["spec"]["clusterSets"].clone())
        .context("a Placement without clusterSets")?;
    let mut chosen = Vec::new();
    for cluster in of(client, "v1", "ManagedCluster", "managedclusters").list(&ListParams::default()).await? {
        let set = cluster.labels().get(CLUSTER_SET);
        if set.is_some_and(|set| sets.contains(set) && bound.contains(set)) {
            chosen.push(cluster.name_any());
        }
    }
    let chosen: Vec<&str> = chosen.iter().map(String::as_str).collect();
    apply_with_status(client, &fixtures::placement_decision(&namespace, &name, 1, &chosen)).await?;
    apply_status(client, &fixtures::placement(&namespace, &name, chosen.len())).await?;
    Ok(())
}

/// All objects of a kind of Open Cluster Management.
fn of(client: &Client, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let group = policy_sync_api::cluster::GROUP;
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    Api::all_with(client.clone(), &resource)
}
