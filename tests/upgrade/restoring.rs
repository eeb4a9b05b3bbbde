//! Restores a recorded state on a real hub.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams, PostParams};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::{ControlPlane, Fleet, FleetOptions, fixtures};
use serde_json::{Value, json};

use crate::recording::{Recording, objects, place};

/// A restored hub without agents.
pub(crate) struct Restored {
    fleet: Fleet,
}

/// The works by `<namespace>/<name>`, without managed fields.
#[derive(Debug, PartialEq)]
pub(crate) struct Works(BTreeMap<String, Value>);

impl Works {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn uids(&self) -> BTreeMap<&str, &Value> {
        self.0.iter().map(|(place, work)| (place.as_str(), &work["metadata"]["uid"])).collect()
    }

    pub(crate) fn specs(&self) -> impl Iterator<Item = (String, &Value)> {
        self.0.iter().map(|(place, work)| (place.clone(), &work["spec"]))
    }

    pub(crate) fn deleting(&self) -> usize {
        self.0.values().filter(|work| !work["metadata"]["deletionTimestamp"].is_null()).count()
    }
}

impl Restored {
    /// Creates all recorded objects with their statuses and managed fields.
    pub(crate) async fn new(recording: &Recording) -> Result<Self> {
        let options = FleetOptions::spokes([]);
        let fleet = Fleet::start(options).await?;
        let client = fleet.hub().client()?;
        let namespaces: BTreeSet<&str> =
            recording.objects.iter().filter_map(|object| object["metadata"]["namespace"].as_str()).collect();
        for namespace in namespaces {
            apply(&client, &fixtures::namespace(namespace)).await?;
        }
        for object in &recording.objects {
            restore(fleet.hub(), object).await.with_context(|| place(object))?;
        }
        Ok(Self { fleet })
    }

    pub(crate) fn control_plane(&self) -> &ControlPlane {
        self.fleet.hub()
    }

    /// The objects of a kind, as returned by [`objects`].
    pub(crate) async fn objects(&self, api_version: &str, kind: &str) -> Result<Vec<Value>> {
        objects(self.fleet.hub(), api_version, kind).await
    }

    pub(crate) async fn works(&self) -> Result<Works> {
        let works = self.objects("work.open-cluster-management.io/v1", "ManifestWork").await?;
        let keyed = works.into_iter().map(|mut work| {
            // Managed fields change even with a patch that changes nothing else.
            if let Some(metadata) = work["metadata"].as_object_mut() {
                metadata.remove("managedFields");
            }
            (place(&work), work)
        });
        Ok(Works(keyed.collect()))
    }
}

async fn restore(hub: &ControlPlane, recorded: &Value) -> Result<()> {
    let client = hub.client()?;
    let (api, name) = api_for(&client, recorded).await?;
    let mut object = recorded.clone();
    let generation = recorded["metadata"]["generation"].clone();
    let metadata = object["metadata"].as_object_mut().context("no metadata")?;
    let owners = metadata.remove("managedFields");
    metadata.remove("generation");
    let status = object.as_object_mut().and_then(|object| object.remove("status"));
    let made = api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let parameters = PatchParams::default();
    if let Some(mut status) = status {
        // The restored object has another generation than the recorded object.
        observed(&mut status, &generation, &json!(made.metadata.generation));
        api.patch_status(&name, &parameters, &Patch::Merge(json!({ "status": status }))).await?;
    }
    if let Some(owners) = owners {
        let patch = json!({ "metadata": { "managedFields": owners } });
        api.patch(&name, &parameters, &Patch::Merge(patch)).await?;
    }
    let restored = serde_json::to_value(api.get(&name).await?)?;
    for part in ["spec", "data"] {
        // The published definitions of clusters and Placements have fields that the generated definitions may
        // lack.
        let group = recorded["apiVersion"].as_str().unwrap_or_default();
        let is_cut = group.starts_with("cluster.open-cluster-management.io/");
        ensure!(is_cut || restored[part] == recorded[part], "{part} became {}", restored[part]);
    }
    Ok(())
}

/// Replaces each observed generation `old` by `new`.
fn observed(value: &mut Value, old: &Value, new: &Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match key.as_str() {
                    "observedGeneration" if value == old => *value = new.clone(),
                    // Feedback refers to generations of the copy, not of this object.
                    "statusFeedback" => {}
                    _ => observed(value, old, new),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| observed(item, old, new)),
        _ => {}
    }
}
