//! Hostile writes of a spoke's agents: the spec, metadata and status of the works in the cluster's namespace, and
//! the labels and status of its ManagedCluster. Agents cannot create or delete these objects.

use policy_sync_api::annotations::{
    CONTROLLER, GATEWAYS, MANAGED_BY, PARENT, REVISION, UNPLACED_SINCE, WORK_FOR,
};
use serde_json::{Value, json};

use super::{Hostile, REGION, strings};

/// Names of Gateways and policies that may exist.
const NAMES: [&str; 6] = ["web", "api", "limits", "auth", "one", "two"];
/// Objects that the annotation `kuadrant.io/parent` of a work may name.
const PARENTS: [&str; 5] = [
    "ratelimitpolicies.kuadrant.io/shop/one",
    "ratelimitpolicies.kuadrant.io/shop/limits",
    "gateways.gateway.networking.k8s.io/shop/web",
    "gateways.gateway.networking.k8s.io/nowhere/web",
    "namespaces./shop/",
];
/// Maximum length of text in a status: the API's limit for a message.
const MAX_TEXT_LENGTH: usize = 32_768;

impl Hostile {
    /// Changes the spec or metadata of a work.
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
                strings(work, "annotations").insert(UNPLACED_SINCE.to_owned(), moment.into());
            }
            4 => {
                let origin = if self.once_in(3) { self.text(300) } else { self.one(&PARENTS).to_owned() };
                strings(work, "annotations").insert(PARENT.to_owned(), origin.into());
            }
            5 => {
                let key = self.one(&[PARENT, GATEWAYS, UNPLACED_SINCE]);
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
        let requested: Vec<Value> = (0..self.below(120))
            .map(|number| json!({ "name": format!("asked-{number}"), "path": ".spec" }))
            .collect();
        let Some(spec) = work["spec"].as_object_mut() else { return };
        let configs = spec.get_mut("manifestConfigs").and_then(Value::as_array_mut);
        match (self.below(6), configs) {
            (0, Some(configs)) => drop(configs.pop()),
            (1, Some(configs)) if !configs.is_empty() => {
                let index = self.below(configs.len());
                configs[index]["feedbackRules"] = json!([{ "type": "JSONPaths", "jsonPaths": requested }]);
            }
            (2, _) => {
                let policy = self.one(&["Orphan", "Foreground"]);
                spec.insert("deleteOption".to_owned(), json!({ "propagationPolicy": policy }));
            }
            _ => {
                let manifests = spec.get_mut("workload").and_then(|workload| workload.get_mut("manifests"));
                if let Some(manifests) = manifests.and_then(Value::as_array_mut) {
                    self.manifests(manifests);
                }
            }
        }
    }

    fn manifests(&mut self, manifests: &mut Vec<Value>) {
        let index = self.below(manifests.len().max(1));
        match (self.below(5), manifests.get_mut(index)) {
            (0, Some(manifest)) => manifest["spec"] = json!({ "of-the-spoke": self.json(3) }),
            (1, Some(manifest)) => {
                manifest["rules"] = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
            }
            (2, Some(manifest)) => {
                let revision = self.text(60);
                strings(manifest, "annotations").insert(REVISION.to_owned(), revision.into());
            }
            (3, _) => drop(manifests.pop()),
            _ => manifests.push(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "of-the-spoke", "namespace": "default"}, "data": {"text": self.text(20_000)},
            })),
        }
    }

    /// Changes the status of a work. Usually, the status has all values that the work's feedback rules request, with
    /// random content.
    pub fn respond(&mut self, work: &mut Value) {
        let (spec, generation) = (work["spec"].clone(), work["metadata"]["generation"].as_i64().unwrap_or(1));
        match self.below(8) {
            0 => work["status"] = json!({}),
            1 => work["status"]["resourceStatus"] = json!({ "manifests": [] }),
            _ => {
                let longest = if self.once_in(8) { MAX_TEXT_LENGTH } else { 300 };
                let configs = spec["manifestConfigs"].as_array().cloned().unwrap_or_default();
                let manifests = configs.iter().enumerate().map(|(ordinal, config)| {
                    let copy = &spec["workload"]["manifests"][ordinal];
                    self.manifest(&config["resourceIdentifier"], config, copy, generation, longest)
                });
                let manifests: Vec<Value> = manifests.collect();
                work["status"]["resourceStatus"] = json!({ "manifests": manifests });
                if self.once_in(2) {
                    let applied = self.condition("Applied", generation, 300);
                    let made_up = self.condition("Made-up", generation, 300);
                    work["status"]["conditions"] = json!([applied, made_up]);
                }
            }
        }
    }

    fn condition(&mut self, kind: &str, generation: i64, longest: usize) -> Value {
        json!({
            "type": kind,
            "status": self.one(&["True", "True", "False", "Unknown"]),
            "reason": self.one(&["AppliedManifestComplete", "ConditionRuleEvaluated", "MadeUp"]),
            "message": self.text(longest),
            "observedGeneration": self.one(&[generation, generation, generation, 0, i64::MAX, i64::MIN]),
            "lastTransitionTime": self.time(),
        })
    }

    /// The status of one manifest.
    fn manifest(
        &mut self,
        identifier: &Value,
        config: &Value,
        copy: &Value,
        generation: i64,
        longest: usize,
    ) -> Value {
        let of = |field: &str| identifier[field].as_str().unwrap_or_default().to_owned();
        let (group, resource) = if self.once_in(8) {
            ("made.up".to_owned(), self.name(&["gateways", "ratelimitpolicies"]))
        } else {
            (of("group"), of("resource"))
        };
        let revision = copy["metadata"]["annotations"][REVISION].as_str().unwrap_or_default();
        let rules = config["feedbackRules"].as_array().into_iter().flatten();
        let paths = rules.flat_map(|rule| rule["jsonPaths"].as_array().into_iter().flatten());
        let mut names: Vec<&str> = paths.filter_map(|path| path["name"].as_str()).collect();
        names.push("never-asked");
        let mut values = Vec::new();
        for name in names {
            if !self.once_in(5) {
                values.push(self.value(name, revision, longest));
            }
        }
        let mut applied = self.condition("Applied", generation, longest);
        if self.once_in(2) {
            applied["status"] = json!("True");
        }
        let mut ancestors = self.condition("PolicySyncAncestors", generation, longest);
        ancestors["message"] = self.ancestors(revision).into();
        json!({
            "resourceMeta": {
                "ordinal": 0, "group": group, "version": "v1", "kind": copy["kind"].as_str().unwrap_or_default(),
                "resource": resource, "name": of("name"), "namespace": of("namespace"),
            },
            "conditions": [applied, ancestors],
            "statusFeedback": { "values": values },
        })
    }

    fn value(&mut self, name: &str, revision: &str, longest: usize) -> Value {
        let value = match (self.below(8), name) {
            (0, _) => json!({"type": "Integer", "integer": self.one(&[0, 1, 2, i64::MAX, i64::MIN])}),
            (1, _) => json!({"type": "Boolean", "boolean": self.once_in(2)}),
            (2, _) => json!({"type": "JsonRaw", "jsonRaw": self.json_text()}),
            (_, "_revision") => json!({"type": "String", "string": revision}),
            (_, "_generation" | "_observedGeneration") => json!({"type": "Integer", "integer": 1}),
            (3, _) => json!({"type": "String", "string": self.one(&["True", "False", "Overridden"])}),
            _ => json!({"type": "String", "string": self.text(longest)}),
        };
        json!({ "name": name, "fieldValue": value })
    }

    /// The message of the condition for a copy's ancestors: valid, truncated or forged. The length of each text
    /// precedes the text.
    fn ancestors(&mut self, revision: &str) -> String {
        let sized = |text: &str| format!("{}:{text}", text.chars().count());
        let mut ancestors = String::new();
        let mut words = String::new();
        for _ in 0..self.below(20) {
            let status = self.one(&["True", "False", "Unknown", "Perhaps"]);
            let texts =
                [self.one(&["Accepted", "Enforced", "Other"]), status, "1", "Reason"].map(sized).concat();
            let parts = [sized(&self.name(&NAMES)), sized(""), sized(&self.text(300)), sized(&sized(&texts))];
            ancestors.push_str(&sized(&parts.concat()));
            words.push_str(&sized(&self.text(2_000)));
        }
        let mut text =
            format!("policy-sync/1 {}{}{}{}", sized(revision), sized("1"), sized(&ancestors), sized(&words));
        if self.once_in(3) {
            let end = text.floor_char_boundary(self.below(text.len() + 1));
            text.truncate(end);
        }
        text
    }

    /// Successive values of the label [`REGION`], alternating between two values.
    pub fn flips(&mut self) -> Vec<&'static str> {
        let regions = self.one(&[["eu", "us"], ["us", "eu"], ["eu", ""]]);
        regions.into_iter().cycle().take(2 + self.below(6)).collect()
    }

    /// Changes the labels or status of a ManagedCluster.
    pub fn cluster(&mut self, cluster: &mut Value) {
        match self.below(4) {
            0 => {
                let region = self.one(&["eu", "us", "", "elsewhere"]);
                strings(cluster, "labels").insert(REGION.to_owned(), region.into());
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
                    "clusterClaims": claims, "conditions": [self.condition("ManagedClusterConditionAvailable", 0, 1_000)],
                    "version": {"kubernetes": self.text(30)},
                });
            }
        }
    }
}
