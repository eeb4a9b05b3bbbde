//! Documents for Rego policies: pods of 1.2 KB, Ingresses and clusters, in memory or on a hub.

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::{DeleteParams, ListParams};
use kube::core::request::Request as Requests;
use kube::core::{ObjectList, PartialObjectMeta};
use serde_json::{Map, Value, json};

use super::hub::LIMIT;
use super::raw;
use super::report::progress;
use super::scene::create_all;
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::{fixtures, wait};

/// Number of clusters for placement.
pub(super) const CLUSTERS: usize = 100;
/// One in this many documents is an Ingress.
pub(super) const INGRESSES: usize = 20;
/// Glob for the names of namespaces with documents.
pub(super) const PATTERN: &str = "documents-*";
/// Number of namespaces with pods.
const NAMESPACES: usize = 100;
/// Number of pods with the same template in [`Variety::Alike`].
const REPLICAS: usize = 20;
/// Multiplier that makes the templates' digests differ.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The kind Pod.
pub(super) const PODS: Kind = Kind { group: "", version: "/api/v1", plural: "pods" };
/// The kind Deployment.
pub(super) const DEPLOYMENTS: Kind = Kind { group: "apps", version: "/apis/apps/v1", plural: "deployments" };

/// A namespaced kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
}

impl Kind {
    /// The path of all objects of the kind.
    pub(super) fn everywhere(self) -> String {
        format!("{}/{}", self.version, self.plural)
    }

    /// Group and plural name.
    pub(super) fn parts(self) -> (&'static str, &'static str) {
        (self.group, self.plural)
    }

    /// The path of a namespace's objects.
    pub(super) fn within(self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.version, self.plural)
    }
}

/// How similar pods are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variety {
    /// Each pod has a different template.
    Different,
    /// Twenty pods have the same template.
    Alike,
}

impl Variety {
    /// A short description for the table.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Different => "all different",
            Self::Alike => "20 of a kind",
        }
    }

    /// The number of a pod's template.
    fn template(self, index: usize) -> usize {
        match self {
            Self::Different => index,
            Self::Alike => index / REPLICAS,
        }
    }
}

/// The namespace of a pod.
pub(super) fn namespace(index: usize) -> String {
    PATTERN.replace('*', &format!("{:02}", index % NAMESPACES))
}

/// A pod with the fields that an API server sets, except for the resource version.
pub(super) fn pod(index: usize, variety: Variety) -> Value {
    let template = variety.template(index);
    let digest = |salt: u32| format!("{:016x}", (template as u64 + 1).wrapping_mul(ODD.rotate_left(salt)));
    let tolerations = ["not-ready", "unreachable"].map(|what| {
        json!({"key": format!("node.kubernetes.io/{what}"), "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 300})
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("app-{template:05}-{index:05}"),
            "namespace": namespace(index),
            "uid": format!("{:08x}-aaaa-4bbb-8ccc-{index:012x}", index * 7),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
            "labels": {"app": format!("app-{template:05}"), "tier": format!("tier-{template:05}"),
                "pod-template-hash": digest(1)},
            "annotations": {"checksum/config": format!("{}{}", digest(2), digest(3))},
        },
        "spec": {
            "containers": [{
                "name": "main",
                "image": format!("registry.example/team-{template:05}/app:1.{template}"),
                "imagePullPolicy": "IfNotPresent",
                "env": [{"name": "ENDPOINT", "value": format!("https://app-{template:05}.example/v1")}],
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": format!("{}m", template + 1)}},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
            "tolerations": tolerations,
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    })
}

/// An Ingress with a unique host.
pub(super) fn ingress(index: usize) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": format!("ingress-{index:05}"), "namespace": namespace(index)},
        "spec": {"rules": [{"host": format!("app-{index:05}.example")}]},
    })
}

/// A certified cluster. Every other cluster is in a zone where the published placement policy places apps.
pub(super) fn cluster(index: usize) -> Value {
    cluster_of(index, true)
}

/// A cluster, with or without certification.
pub(super) fn cluster_of(index: usize, is_certified: bool) -> Value {
    let zone = if index.is_multiple_of(2) { "eu" } else { "us" };
    let pci = if is_certified { "certified" } else { "lapsed" };
    let labels = [("zone".to_owned(), zone.to_owned()), ("pci".to_owned(), pci.to_owned())];
    fixtures::managed_cluster(&format!("documents-{index:03}"), &labels.into_iter().collect())
}

/// The content of `data` for Rego modules, with this total number of documents.
pub(super) fn data(documents: usize) -> Value {
    let (mut clusters, mut pods, mut ingresses) = (Map::new(), Map::new(), Map::new());
    for cluster in (0..CLUSTERS).map(cluster) {
        clusters.insert(name(&cluster, "name"), cluster);
    }
    let of_ingresses = documents / INGRESSES;
    let of_pods = documents.saturating_sub(CLUSTERS + of_ingresses);
    let all = (0..of_pods).map(|index| (true, pod(index, Variety::Different)));
    for (is_pod, object) in all.chain((0..of_ingresses).map(|index| (false, ingress(index)))) {
        let kind = if is_pod { &mut pods } else { &mut ingresses };
        let within = kind.entry(name(&object, "namespace")).or_insert_with(|| json!({}));
        let at = name(&object, "name");
        within[at] = object;
    }
    json!({"kubernetes": {"clusters": clusters, "pods": pods, "ingresses": ingresses}})
}

fn name(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}

/// Creates pods on the hub.
pub(super) async fn fill(hub: &Client, count: usize, variety: Variety) -> Result<()> {
    progress(&format!("{count} pods, {}", variety.words()));
    create(hub, PODS, (0..count).map(|index| pod(index, variety))).await
}

/// Creates objects of a kind on the hub, in the namespaces of documents.
pub(super) async fn create(
    hub: &Client,
    kind: Kind,
    objects: impl ExactSizeIterator<Item = Value>,
) -> Result<()> {
    for index in 0..objects.len().min(NAMESPACES) {
        apply(hub, &fixtures::namespace(&namespace(index))).await?;
    }
    create_all(hub, objects.map(|object| (kind.within(&name(&object, "namespace")), object))).await
}

/// Deletes all objects of the kind in these namespaces, and waits until they are gone.
pub(super) async fn clear(hub: &Client, kind: Kind, namespaces: impl Iterator<Item = String>) -> Result<()> {
    for namespace in namespaces {
        let objects = Requests::new(kind.within(&namespace));
        let delete = objects.delete_collection(&DeleteParams::background(), &ListParams::default());
        raw::send(hub, vec![delete.context("building a delete request")?], 1)
            .await
            .context("deleting objects")?;
        wait::until("the objects are deleted", LIMIT, || async {
            let list =
                objects.list_metadata(&ListParams::default().limit(1)).context("building a list request")?;
            let left: ObjectList<PartialObjectMeta> = hub.request(list).await?;
            ensure!(left.items.is_empty(), "objects exist in {namespace}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// The namespaces of documents.
pub(super) fn namespaces() -> impl Iterator<Item = String> {
    (0..NAMESPACES).map(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_the_requested_number_and_size() {
        let data = data(1_000);
        let count = |kind: &str| {
            let namespaces = data["kubernetes"][kind].as_object().unwrap().values();
            namespaces.map(|objects| objects.as_object().unwrap().len()).sum::<usize>()
        };
        assert_eq!(data["kubernetes"]["clusters"].as_object().unwrap().len(), CLUSTERS);
        assert_eq!((count("pods"), count("ingresses")), (850, 50));
        let bytes = pod(9_999, Variety::Different).to_string().len();
        assert!((1_150..1_250).contains(&bytes), "{bytes}");
    }

    #[test]
    fn alike_pods_share_a_template_in_groups_of_twenty() {
        let spec = |index, variety| pod(index, variety)["spec"].clone();
        assert_eq!(spec(0, Variety::Alike), spec(19, Variety::Alike));
        assert_ne!(spec(19, Variety::Alike), spec(20, Variety::Alike));
        assert_ne!(spec(0, Variety::Different), spec(1, Variety::Different));
    }
}
