//! What the agents of a cluster may write: the spec, metadata and status of the works in its namespace, and its
//! ManagedCluster's labels and status. They may make and delete none of these.

use policy_sync::api::annotations::{
    CONTROLLER, DISPLACED_SINCE, GATEWAYS, MANAGED_BY, PARENT, REVISION, WORK_FOR,
};
use serde_json::{Value, json};

use super::{Hostile, strings};

/// Gateways and policies that may be there.
const NAMES: [&str; 6] = ["web", "api", "limits", "auth", "one", "two"];
/// Parents that a work may name.
const PARENTS: [&str; 5] = [
    "ratelimitpolicies.kuadrant.io/shop/one",
    "ratelimitpolicies.kuadrant.io/shop/limits",
    "gateways.gateway.networking.k8s.io/shop/web",
    "gateways.gateway.networking.k8s.io/nowhere/web",
    "namespaces./shop/",
];
/// Values that feedback rules ask for, and the beginnings of some.
const ASKED: [&str; 14] = [
    "_revision",
    "_generation",
    "_observedGeneration",
    "_Accepted_status",
    "_Enforced_status",
    "_Enforced_reason",
    "_Enforced_message",
    "_Programmed_status",
    "_Ready_observedGeneration",
    "_address_0",
    "_address_15",
    "_listener_http_attachedRoutes",
    "_listener_http_Programmed_status",
    "generation",
];
/// The longest text in a status: the API's limit for a message.
const LONGEST: usize = 32_768;

impl Hostile {
    /// Writes something else into the spec or the metadata of a work.
    pub fn work(&mut self, work: &mut Value) {
        match self.below(9) {
            0 => self.spec(work),
            1 => {
                let names: Vec<String> = (0..self.below(60)).map(|_| self.name(&NAMES)).collect();
                let text = if self.once_in(4) { self.json_text() } else { json!(names).to_string() };
                strings(work, "annotations").insert(GATEWAYS.to_owned(), text.into());
            }
            2 | 3 => {
                let moment = self.moment();
                strings(work, "annotations").insert(DISPLACED_SINCE.to_owned(), moment.into());
            }
            4 => {
                let parent = if self.once_in(3) { self.text(300) } else { self.one(&PARENTS).to_owned() };
                strings(work, "annotations").insert(PARENT.to_owned(), parent.into());
            }
            5 => {
                let key = self.one(&[PARENT, GATEWAYS, DISPLACED_SINCE, REVISION]);
                strings(work, "annotations").remove(key);
            }
            6 => {
                let key = self.one(&[CONTROLLER, WORK_FOR, MANAGED_BY, "example.com/of-the-spoke"]);
                let value = self.one(&["policy", "gateway", "access", "policy-sync", "whatever", ""]);
                strings(work, "labels").insert(key.to_owned(), value.into());
            }
            7 => {
                let key = self.one(&[CONTROLLER, WORK_FOR, MANAGED_BY]);
                strings(work, "labels").remove(key);
            }
            _ => {
                let finalizers =
                    ["example.com/never", "cluster.open-cluster-management.io/manifest-work-cleanup"];
                work["metadata"]["finalizers"] = finalizers.into_iter().filter(|_| self.once_in(2)).collect();
            }
        }
    }

    fn spec(&mut self, work: &mut Value) {
        let manifests = &mut work["spec"]["workload"]["manifests"];
        match (self.below(5), manifests.as_array_mut()) {
            (0, Some(manifests)) if !manifests.is_empty() => {
                let index = self.below(manifests.len());
                manifests[index]["spec"] = json!({ "of-the-spoke": self.json(3) });
            }
            (1, Some(manifests)) => manifests.push(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "of-the-spoke", "namespace": "default"}, "data": {"text": self.text(20_000)},
            })),
            (2, Some(manifests)) => drop(manifests.pop()),
            (3, _) => work["spec"]["manifestConfigs"] = json!([]),
            _ => work["spec"]["deleteOption"] = json!({"propagationPolicy": self.one(&["Orphan", "Foreground"])}),
        }
    }

    /// Writes something else into the status of a work.
    pub fn answer(&mut self, work: &mut Value) {
        match self.below(6) {
            0 => work["status"] = json!({}),
            1 => work["status"]["conditions"] = self.conditions(8),
            2 => work["status"]["resourceStatus"] = json!({ "manifests": [] }),
            _ => {
                let longest = if self.once_in(8) { LONGEST } else { 300 };
                let manifests: Vec<Value> = (0..self.below(4)).map(|_| self.manifest(longest)).collect();
                work["status"]["resourceStatus"] = json!({ "manifests": manifests });
                if self.once_in(2) {
                    work["status"]["conditions"] = self.conditions(2);
                }
            }
        }
    }

    fn conditions(&mut self, most: usize) -> Value {
        (0..self.below(most + 1)).map(|_| self.condition(300)).collect()
    }

    fn condition(&mut self, longest: usize) -> Value {
        json!({
            "type": self.one(&["Applied", "Available", "PolicySyncAncestors", "StatusFeedbackSynced", "Made-up"]),
            "status": self.one(&["True", "False", "Unknown"]),
            "reason": self.one(&["AppliedManifestComplete", "ConditionRuleEvaluated", "MadeUp"]),
            "message": self.text(longest),
            "observedGeneration": self.one(&[0, 1, 2, 3, i64::MAX, i64::MIN]),
            "lastTransitionTime": self.present(),
        })
    }

    /// What a status says of one manifest.
    fn manifest(&mut self, longest: usize) -> Value {
        let values: Vec<Value> = (0..self.below(100)).map(|_| self.value(longest)).collect();
        json!({
            "resourceMeta": {
                "ordinal": self.one(&[0, 1, 2, 1_000]), "group": self.one(&["", "kuadrant.io", "made.up"]),
                "version": "v1", "kind": self.name(&["Gateway", "RateLimitPolicy"]),
                "resource": self.name(&["gateways", "ratelimitpolicies"]), "name": self.name(&NAMES),
                "namespace": self.name(&["kuadrant-shop"]),
            },
            "conditions": (0..self.below(4)).map(|_| self.condition(longest)).collect::<Vec<_>>(),
            "statusFeedback": { "values": values },
        })
    }

    fn value(&mut self, longest: usize) -> Value {
        let name = if self.once_in(4) { self.name(&[]) } else { self.one(&ASKED).to_owned() };
        let value = match self.below(4) {
            0 => json!({"type": "Integer", "integer": self.one(&[0, 1, 2, i64::MAX, i64::MIN])}),
            1 => json!({"type": "Boolean", "boolean": self.once_in(2)}),
            2 => json!({"type": "JsonRaw", "jsonRaw": self.json_text()}),
            _ => json!({"type": "String", "string": self.text(longest)}),
        };
        json!({ "name": name, "fieldValue": value })
    }

    /// Writes something else into the labels or the status of a ManagedCluster.
    pub fn cluster(&mut self, cluster: &mut Value) {
        match self.below(4) {
            0 => {
                let region = self.one(&["eu", "us", "", "elsewhere"]);
                strings(cluster, "labels").insert("region".to_owned(), region.into());
            }
            1 => {
                let labels = (0..self.below(300)).map(|number| {
                    (format!("kuadrant.io/a{number}"), Value::from("x".repeat(self.below(64))))
                });
                let labels: Vec<(String, Value)> = labels.collect();
                strings(cluster, "labels").extend(labels);
            }
            2 => strings(cluster, "labels").retain(|key, _| !key.starts_with("kuadrant.io/")),
            _ => {
                let claims: Vec<Value> = (0..self.below(40))
                    .map(|number| json!({"name": format!("c{number}"), "value": self.text(300)}))
                    .collect();
                cluster["status"] = json!({
                    "clusterClaims": claims, "conditions": [self.condition(1_000)],
                    "version": {"kubernetes": self.text(30)},
                });
            }
        }
    }
}
