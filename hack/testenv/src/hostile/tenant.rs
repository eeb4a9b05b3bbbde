//! Objects in the namespace of a hostile tenant: policies, Gateways, routes, Placements, Secrets and ConfigMaps.

use policy_sync_api::annotations::{
    CLUSTER_ATTRIBUTES, CLUSTER_LABELS, CLUSTER_OVERRIDES, CLUSTER_SELECTOR, GATEWAY_CLUSTERS, GRACE_TIMEOUT,
    PAUSED, POLICY_ANNOTATIONS, POLICY_SYNCED, REMEDIATE,
};
use serde_json::{Map, Value, json};

use super::costly::{EXPRESSIONS, rules_of_expressions};
use super::{Hostile, strings};
use crate::fixtures::{self, topology};

/// A write operation of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Writes this object, with its status if it has one.
    Write(Value),
    /// Deletes this object if it exists.
    Delete(Value),
}

/// Names of the tenant's objects of every kind. Other tenants use the same names.
const NAMES: [&str; 6] = ["web", "api", "all", "edge", "limits", "one"];
/// Valid and invalid cluster selectors.
const SELECTORS: [&str; 7] =
    ["region=eu", "region!=us", "", "region in (eu", "region in (eu,us),tier", "=", "kuadrant.io/a1"];
/// Classes of the tenant's Gateways; the first class is shared with other tenants.
const CLASSES: [&str; 3] = ["shop", "nobody", "istio"];
/// A finalizer that only the tenant removes.
const FINALIZER: &str = "example.com/never";
/// The longest text of a large object, in bytes: above the limit of a work, below that of etcd.
const LARGE: usize = 600_000;
/// Maximum number of keys of a large object.
const KEYS: usize = 4_000;

impl Hostile {
    /// A random operation in `namespace`. Placement decisions select from `clusters`.
    pub fn operation(&mut self, namespace: &str, clusters: &[&str]) -> Operation {
        let name = self.name(&NAMES);
        let object = match self.below(10) {
            0..=2 => self.policy(namespace, &name),
            3 | 4 => self.gateway(namespace, &name),
            5 => self.secret(namespace, &name),
            6 => fixtures::reference_grant(namespace, &name, &self.name(&["shop"]), &self.name(&NAMES)),
            7 => {
                let mut placement = fixtures::placement(namespace, &name, self.below(6));
                if self.once_in(6) {
                    placement["status"]["numberOfSelectedClusters"] =
                        self.one(&[-1, i64::from(i32::MAX)]).into();
                }
                strings(&mut placement, "annotations")
                    .insert("example.com/touched".to_owned(), self.text(100).into());
                placement
            }
            _ => {
                let chosen: Vec<&str> = clusters
                    .iter()
                    .chain(clusters)
                    .copied()
                    .chain(["nowhere", "", "../x"])
                    .filter(|_| self.once_in(2))
                    .collect();
                let slice = self.below(2);
                fixtures::placement_decision(namespace, &name, slice, &chosen)
            }
        };
        if self.once_in(4) { Operation::Delete(object) } else { Operation::Write(object) }
    }

    /// Operations of the tenant `namespace`, in order. The objects are large, expensive to read or terminating, or have
    /// an annotation that disables remediation.
    pub fn operations(&mut self, namespace: &str) -> Vec<Operation> {
        let name = self.name(&NAMES);
        let mut object = match self.below(8) {
            0..=2 => self.route(namespace, &name),
            3 => self.config_map(namespace, &name),
            4 | 5 => {
                let mut policy = self.policy(namespace, &name);
                self.enlarge(&mut policy, "spec");
                policy
            }
            6 => self.gateway(namespace, &name),
            _ => self.secret(namespace, &name),
        };
        self.claim(&mut object);
        if self.once_in(3) {
            self.keep(&mut object);
        }
        match self.below(6) {
            0 => vec![Operation::Delete(object)],
            1 => self.terminate(object),
            _ => vec![Operation::Write(object)],
        }
    }

    /// Creates `object` with a finalizer, deletes it, and changes it while it is terminating.
    fn terminate(&mut self, mut object: Value) -> Vec<Operation> {
        object["metadata"]["finalizers"] = json!([FINALIZER]);
        let mut changed = object.clone();
        strings(&mut changed, "labels").insert("example.com/touched".to_owned(), "late".into());
        match changed["kind"].as_str().unwrap_or_default() {
            "ConfigMap" => self.enlarge(&mut changed, "data"),
            kind if kind.ends_with("Policy") => self.enlarge(&mut changed, "spec"),
            _ => {}
        }
        vec![Operation::Write(object.clone()), Operation::Delete(object), Operation::Write(changed)]
    }

    /// A policy with a random value in every field that a user can write.
    pub fn policy(&mut self, namespace: &str, name: &str) -> Value {
        let gateway = self.name(&NAMES);
        let mut policy = match self.below(3) {
            0 => fixtures::rate_limit_policy(namespace, name, &gateway),
            1 => fixtures::auth_policy(namespace, name, &gateway),
            _ => {
                let gateways: Vec<String> = (0..self.below(20)).map(|_| self.name(&NAMES)).collect();
                let gateways: Vec<&str> = gateways.iter().map(String::as_str).collect();
                fixtures::timeout_policy(namespace, name, &gateways)
            }
        };
        if self.once_in(4) {
            let (key, value) = match self.below(4) {
                0 => ("kind", "HTTPRoute".to_owned()),
                1 => ("group", self.text(30)),
                2 => ("sectionName", self.text(60)),
                _ => ("namespace", self.name(&["shop"])),
            };
            policy["spec"]["targetRef"][key] = value.into();
        }
        if self.once_in(4) {
            policy["spec"]["limits"] = json!({ self.text(20): self.json(4) });
        }
        if self.once_in(6) {
            policy["spec"]["large"] = "x".repeat(self.below(100_000)).into();
        }
        if self.once_in(2) {
            let overrides = self.overrides();
            strings(&mut policy, "annotations").insert(CLUSTER_OVERRIDES.to_owned(), overrides.into());
        }
        if self.once_in(2) {
            let selector = if self.once_in(4) { self.text(2_000) } else { self.one(&SELECTORS).to_owned() };
            strings(&mut policy, "annotations").insert(CLUSTER_SELECTOR.to_owned(), selector.into());
        }
        self.claim(&mut policy);
        policy
    }

    /// Adds one long text or many keys to `field` of `object`.
    pub fn enlarge(&mut self, object: &mut Value, field: &str) {
        if self.once_in(2) {
            object[field]["large"] = "x".repeat(self.below(LARGE)).into();
            return;
        }
        let keys = (0..self.below(KEYS)).map(|number| (format!("key-{number}"), Value::from("v")));
        let keys: Map<String, Value> = keys.collect();
        if field == "data" { object[field] = keys.into() } else { object[field]["keys"] = keys.into() }
    }

    /// Annotates `object` with `kuadrant.io/remediate: manual`.
    pub fn keep(&mut self, object: &mut Value) {
        strings(object, "annotations").insert(REMEDIATE.to_owned(), "manual".into());
    }

    /// A ConfigMap, usually a large one.
    pub fn config_map(&mut self, namespace: &str, name: &str) -> Value {
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace}, "data": {"text": self.text(1_000)}});
        if !self.once_in(3) {
            self.enlarge(&mut map, "data");
        }
        map
    }

    /// An HTTPRoute with up to 1,024 expensive regular expressions, attached to Gateways of its namespace or of
    /// `shop`.
    pub fn route(&mut self, namespace: &str, name: &str) -> Value {
        let rules = if self.once_in(8) { 4 } else { self.below(3) };
        let parents: Vec<Value> = (0..=self.below(3))
            .map(|_| {
                let mut parent = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": self.name(&NAMES),
                    "namespace": self.one(&["shop", namespace])});
                if self.once_in(2) {
                    parent["sectionName"] = self.one(&["http", "l0", "none"]).into();
                }
                parent
            })
            .collect();
        let rules = rules_of_expressions(rules, self.one(&EXPRESSIONS));
        topology::object("HTTPRoute", (namespace, name), json!({"parentRefs": parents, "rules": rules}))
    }

    fn overrides(&mut self) -> String {
        let overrides: Vec<Value> = (0..self.below(10))
            .map(|_| {
                let patch = match self.below(4) {
                    0 => json!({ "targetRef": { "name": self.name(&NAMES) } }),
                    1 => json!({ "limits": { "all": { "rates": [{ "limit": self.below(100), "window": "10s" }] } } }),
                    _ => json!({ "limits": self.json(3) }),
                };
                if self.once_in(3) {
                    let operations: Vec<Value> = (0..self.below(4)).map(|_| self.operation_of_patch()).collect();
                    return json!({ "clusterSelector": self.one(&SELECTORS), "jsonPatch": operations });
                }
                json!({ "clusterSelector": self.one(&SELECTORS), "patch": patch })
            })
            .collect();
        if self.once_in(4) { self.json_text() } else { json!(overrides).to_string() }
    }

    /// An operation of a JSON patch, often invalid.
    fn operation_of_patch(&mut self) -> Value {
        let op = self.one(&["add", "replace", "remove", "test", "copy"]);
        let path =
            self.one(&["/limits", "/limits/all/rates/0/limit", "/limits/all/rates/-", "/targetRef/name", ""]);
        json!({ "op": op, "path": path, "value": self.json(2) })
    }

    /// Writes fields that only the controller or the API server should write.
    fn claim(&mut self, object: &mut Value) {
        if self.once_in(3) {
            let key = if self.once_in(2) {
                self.one(&POLICY_ANNOTATIONS)
            } else {
                self.one(&[POLICY_SYNCED, GATEWAY_CLUSTERS])
            };
            let text = self.json_text();
            strings(object, "annotations").insert(key.to_owned(), text.into());
        }
        if self.once_in(6) {
            let key = self.one(&[CLUSTER_LABELS, CLUSTER_ATTRIBUTES]).to_owned() + "controller";
            strings(object, "labels").insert(key, "whatever".into());
        }
        if self.once_in(6) {
            Self::forge_deletion(object);
        }
        if self.once_in(6) {
            let value =
                if self.once_in(4) { self.text(100) } else { self.one(&["true", "false", ""]).to_owned() };
            strings(object, "annotations").insert(PAUSED.to_owned(), value.into());
        }
    }

    /// Adds a finalizer and a deletion timestamp to `object`. Server-side apply accepts both fields when it creates an
    /// object.
    pub fn forge_deletion(object: &mut Value) {
        object["metadata"]["finalizers"] = json!([FINALIZER]);
        object["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
    }

    fn gateway(&mut self, namespace: &str, name: &str) -> Value {
        let placement = if self.once_in(4) { None } else { Some(self.name(&NAMES)) };
        let class = self.one(&[CLASSES[0], CLASSES[0], CLASSES[0], CLASSES[1], CLASSES[2]]);
        let mut gateway = fixtures::gateway(namespace, name, class, placement.as_deref());
        let listeners: Vec<Value> = (0..self.below(20))
            .map(|number| {
                let secret = json!({ "name": self.name(&NAMES), "namespace": self.name(&["shop", namespace]) });
                json!({
                    "name": format!("l{number}"), "port": 1 + self.below(65_535), "protocol": self.one(&["HTTP", "HTTPS"]),
                    "tls": { "certificateRefs": [secret] },
                })
            })
            .collect();
        if self.once_in(2) {
            gateway["spec"]["listeners"] = listeners.into();
        }
        let grace = if self.once_in(4) {
            self.text(100)
        } else {
            self.one(&["0", "1", "600", "-1", "86400"]).to_owned()
        };
        strings(&mut gateway, "annotations").insert(GRACE_TIMEOUT.to_owned(), grace.into());
        self.claim(&mut gateway);
        gateway
    }

    fn secret(&mut self, namespace: &str, name: &str) -> Value {
        let key = self.text(5_000);
        fixtures::tls_secret(namespace, name, &key)
    }
}
