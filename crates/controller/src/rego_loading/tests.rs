//! A mirror of a simulated hub for the tests of this module.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::index::Index;
use super::kinds::{config_maps, documents};
use super::settings::Settings;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, GroupVersionResource};
use policy_sync_api::object::{HubObject, WithText};
use policy_sync_mirror::plurals::{ResolvedPlural, resolution};
use policy_sync_mirror::{Mirror, Source};

/// The namespace whose ConfigMaps carry Rego policies.
pub(super) const POLICIES: &str = "policies";

/// The current time of the tests.
pub(super) const NOW: Moment = Moment(1_000_000);

pub(super) fn settings() -> Settings {
    Settings {
        namespaces: BTreeSet::from([POLICIES.to_owned()]),
        replicate: BTreeSet::new(),
        aliases: BTreeMap::new(),
        packages: Default::default(),
        evaluator: Default::default(),
        limit: 100,
        bytes: 128 << 20,
    }
}

pub(super) struct Hub(pub(super) Mirror<Index>);

impl Hub {
    /// A hub that serves Pods and Nodes, but no RegoPolicies.
    pub(super) fn new() -> Self {
        Self::with_budget(usize::MAX, usize::MAX)
    }

    /// Like [`Self::new`], with limits for the bytes and for the number of namespaced documents.
    pub(super) fn with_budget(bytes: usize, count: usize) -> Self {
        let hub = Self(Mirror::with_index(Index::new(ControllerName::new("c"), bytes, count)));
        hub.serves("pods", ResolvedPlural::Resource(GroupVersionResource::new("", "v1", "pods")));
        hub.serves("nodes", ResolvedPlural::Resource(GroupVersionResource::new("", "v1", "nodes")));
        hub.serves("regopolicies.policysync.kuadrant.io", ResolvedPlural::NotServed);
        hub
    }

    pub(super) fn serves(&self, plural: &str, served: ResolvedPlural) {
        self.0.change(resolution(plural, served), NOW);
    }

    pub(super) fn list(&self, source: &Source, objects: &[Value]) {
        let objects: Vec<HubObject> = objects
            .iter()
            .map(|object| serde_json::from_str::<WithText>(&object.to_string()).unwrap().into())
            .collect();
        self.0.list(source, &objects, &ControllerName::new("c"), NOW);
    }

    pub(super) fn config_maps(&self, objects: &[Value]) {
        self.list(&config_maps(POLICIES), objects);
    }

    pub(super) fn documents(&self, plural: &str, objects: &[Value]) {
        self.list(&documents(&GroupVersionResource::new("", "v1", plural).kind), objects);
    }
}

/// A ConfigMap with this creation time and these keys.
pub(super) fn policy(name: &str, created: &str, data: &[(&str, &str)]) -> Value {
    let data: BTreeMap<&str, &str> = data.iter().copied().collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": name, "namespace": POLICIES, "uid": name, "creationTimestamp": created},
    })
}

pub(super) fn object(kind: &str, namespace: Option<&str>, name: &str) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}
