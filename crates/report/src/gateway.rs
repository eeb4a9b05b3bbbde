//! The state of a Gateway: its own status and annotations on the hub, and the works with its copies.

mod cluster;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::policy::AnnotationValue;
pub use cluster::GatewayOnCluster;
use policy_sync_api::annotations::GATEWAY_CLUSTERS;
use policy_sync_api::gateway::{CONDITIONS, GatewaySpec, GatewayStatus};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ControllerName, GroupResource, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{ObjectRow, Row};
use policy_sync_sync::rows::work::Work;
use policy_sync_sync::status::gateway::lacks;

/// The fields of a Gateway that reports show.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayRow {
    /// The name of the GatewayClass.
    pub class: String,
    /// The creation time; `None` if the object has none, as in a file.
    pub created: Option<Timestamp>,
    /// The conditions that the controller set for the current generation, in the order of [`CONDITIONS`].
    conditions: [Option<Condition>; 2],
    /// The clusters in the Gateway's annotation.
    listed: AnnotationValue<BTreeSet<ClusterName>>,
    /// Addresses in the form `<cluster>/<address>`.
    pub addresses: Vec<String>,
    /// The annotations that cannot be parsed, with the reason.
    pub faults: Vec<String>,
}

impl Row for GatewayRow {}

impl ObjectRow for GatewayRow {
    fn prune(object: &HubObject, _controller: &ControllerName) -> Self {
        let metadata = &object.metadata;
        let status: GatewayStatus = object.status_as();
        let mut faults = Vec::new();
        let listed = match metadata.annotations.get(GATEWAY_CLUSTERS).map(|text| serde_json::from_str(text)) {
            None => AnnotationValue::Missing,
            Some(Ok(clusters)) => AnnotationValue::Value(clusters),
            Some(Err(error)) => {
                faults.push(format!("annotation {GATEWAY_CLUSTERS}: {error}"));
                AnnotationValue::Invalid
            }
        };
        let of_present = |name: &str| {
            let found = status.conditions.iter().find(|condition| condition.type_ == name);
            found.filter(|found| found.observed_generation == Some(metadata.generation)).cloned()
        };
        Self {
            class: object.spec_as::<GatewaySpec>().gateway_class_name,
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            conditions: CONDITIONS.map(of_present),
            listed,
            addresses: status.addresses.into_iter().map(|address| address.value).collect(),
            faults,
        }
    }
}

/// The copy of a Gateway on a cluster, as its work reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayCopy {
    /// Whether the agent has applied the work.
    pub applied: bool,
    /// Why the copy is not programmed; `None` if it is programmed.
    pub not_programmed: Option<String>,
    /// Since when the Placement no longer selects the cluster (RFC 3339).
    pub unplaced: Option<String>,
    /// Whether the work is being deleted.
    pub deleting: bool,
}

/// A work that contains a Gateway.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GatewayWork {
    /// The Gateway; `None` for a work of another controller.
    pub(super) gateway: Option<ObjectKey>,
    pub(super) copy: GatewayCopy,
}

impl Row for GatewayWork {}

impl ObjectRow for GatewayWork {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        let work = Work::new(object, controller);
        let gateway = work.purpose.gateway().cloned();
        let copy = GatewayCopy {
            applied: work.report.as_ref().is_some_and(|report| report.applied),
            not_programmed: lacks(&work),
            unplaced: work.unplaced.map(Moment::rfc3339),
            deleting: work.deleting.is_some(),
        };
        Self { gateway, copy }
    }
}

/// A Gateway with its copies.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayReport {
    /// The Gateway's namespace and name.
    pub key: ObjectKey,
    /// The state of the Gateway on the hub.
    pub row: GatewayRow,
    /// The copies by cluster; `None` if the user may not read works.
    pub copies: Option<BTreeMap<ClusterName, GatewayCopy>>,
}

impl GatewayReport {
    /// The condition `Accepted` of the current generation.
    #[must_use]
    pub fn accepted(&self) -> Option<&Condition> {
        self.row.conditions[0].as_ref()
    }

    /// The condition `Programmed` of the current generation.
    #[must_use]
    pub fn programmed(&self) -> Option<&Condition> {
        self.row.conditions[1].as_ref()
    }

    /// Whether all clusters have programmed the current Gateway.
    #[must_use]
    pub fn in_sync(&self) -> bool {
        let is_true = |condition: &Option<Condition>| {
            condition.as_ref().is_some_and(|condition| condition.status == "True")
        };
        self.row.conditions.iter().all(is_true) && self.row.faults.is_empty()
    }

    /// Whether the output needs works that the user may not read. `wide` output shows all copies.
    #[must_use]
    pub fn requires_works(&self, wide: bool) -> bool {
        let all = self.programmed().is_some_and(|condition| condition.status == "True");
        self.copies.is_none() && self.row.listed != AnnotationValue::Missing && (wide || !all)
    }

    /// The clusters that have the Gateway, including those in a grace period; `None` if unknown.
    #[must_use]
    pub fn clusters(&self) -> Option<BTreeSet<&ClusterName>> {
        let copies = self.copies.as_ref().map(|copies| {
            let present = copies.iter().filter(|(_, copy)| !copy.deleting);
            present.map(|(cluster, _)| cluster)
        });
        let listed = match &self.row.listed {
            // The controller has not reported on the Gateway yet.
            AnnotationValue::Missing if self.programmed().is_none() => Some(BTreeSet::new()),
            AnnotationValue::Missing | AnnotationValue::Invalid => None,
            AnnotationValue::Value(listed) => Some(listed.iter().collect()).filter(|_| !self.is_truncated()),
        };
        match (listed, copies) {
            (None, None) => None,
            (listed, copies) => {
                Some(listed.into_iter().flatten().chain(copies.into_iter().flatten()).collect())
            }
        }
    }

    /// Whether the annotation names only some of the clusters, because of its size limit.
    fn is_truncated(&self) -> bool {
        self.accepted().is_some_and(|condition| condition.message.contains(GATEWAY_CLUSTERS))
    }

    /// The number of clusters that have programmed the current Gateway; `None` if unknown.
    #[must_use]
    pub fn programmed_count(&self) -> Option<usize> {
        // A status of an earlier generation does not apply to the current generation.
        let all = self.programmed()?.status == "True";
        match &self.copies {
            Some(copies) => Some(copies.values().filter(|copy| copy.not_programmed.is_none()).count()),
            None if all => Some(self.clusters()?.len()),
            None => self.clusters().filter(BTreeSet::is_empty).map(|_| 0),
        }
    }

    /// The clusters that have not programmed the current Gateway; `None` if unknown.
    #[must_use]
    pub fn missing(&self) -> Option<Vec<&str>> {
        // A status of an earlier generation does not apply to the current generation.
        let all = self.programmed()?.status == "True";
        let Some(copies) = &self.copies else { return all.then(Vec::new) };
        let lacks =
            |cluster: &&ClusterName| copies.get(*cluster).is_none_or(|copy| copy.not_programmed.is_some());
        Some(self.clusters()?.into_iter().filter(lacks).map(|cluster| &*cluster.0).collect())
    }

    /// Since when the Gateway is not accepted or not programmed, according to the conditions of its current generation.
    #[must_use]
    pub fn not_synced_since(&self) -> Option<Timestamp> {
        self.failing_condition().map(|condition| condition.last_transition_time.0)
    }

    fn failing_condition(&self) -> Option<&Condition> {
        self.row.conditions.iter().flatten().find(|condition| condition.status != "True")
    }

    /// The reason why the Gateway is not accepted or not programmed, or a note that the controller has not reported
    /// yet.
    #[must_use]
    pub fn message(&self) -> Option<String> {
        let silent = || "the controller has not reported its current generation".to_owned();
        match self.failing_condition() {
            Some(condition) => Some(condition.message.clone()),
            None => self.row.conditions.iter().any(Option::is_none).then(silent),
        }
    }

    /// The report as JSON. Unknown values are null.
    #[must_use]
    pub fn json(&self) -> Value {
        let names = match &self.copies {
            None => self.clusters(),
            Some(copies) => {
                Some(self.clusters().unwrap_or_default().into_iter().chain(copies.keys()).collect())
            }
        };
        let clusters =
            names.map(|names| names.into_iter().map(|name| self.json_of(name)).collect::<Vec<_>>());
        json!({
            "namespace": self.key.namespace,
            "kind": "Gateway",
            "resource": GroupResource::gateways().to_string(),
            "name": self.key.name,
            "class": self.row.class,
            "created": self.row.created.map(|created| created.to_string()),
            "inSync": self.in_sync(),
            "accepted": self.accepted().map(condition),
            "programmed": self.programmed().map(condition),
            "clusters": clusters,
            "missing": self.missing(),
            "addresses": self.row.addresses,
            "faults": self.row.faults,
        })
    }

    fn json_of(&self, cluster: &ClusterName) -> Value {
        let copy = self.copies.as_ref().map(|copies| copies.get(cluster));
        let known = copy.flatten();
        json!({
            "cluster": cluster,
            "applied": copy.map(|copy| copy.is_some_and(|copy| copy.applied)),
            "programmed": copy.map(|copy| copy.is_some_and(|copy| copy.not_programmed.is_none())),
            "deleting": copy.map(|copy| copy.is_some_and(|copy| copy.deleting)),
            "displacedSince": known.and_then(|copy| copy.unplaced.as_deref()),
            "message": known.and_then(|copy| copy.not_programmed.as_deref()),
        })
    }
}

fn condition(condition: &Condition) -> Value {
    json!({"status": condition.status, "reason": condition.reason, "message": condition.message})
}
