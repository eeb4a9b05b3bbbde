//! Open Cluster Management's CRDs, from the types of this project.

use anyhow::{Context, Result};
use kube::CustomResourceExt;
use policy_sync::api::cluster::{ManagedCluster, Placement, PlacementDecision};
use policy_sync::api::work::ManifestWork;
use serde_json::Value;

use super::Crd;
use crate::api::{AppliedManifestWork, ManagedClusterSet, ManagedClusterSetBinding};

pub(super) fn hub() -> Result<Vec<Crd>> {
    Ok(vec![
        generate::<ManifestWork>()?,
        generate::<ManagedCluster>()?,
        generate::<ManagedClusterSet>()?,
        generate::<ManagedClusterSetBinding>()?,
        generate::<Placement>()?,
        generate::<PlacementDecision>()?,
    ])
}

pub(super) fn spoke() -> Result<Vec<Crd>> {
    Ok(vec![generate::<AppliedManifestWork>()?])
}

fn generate<K: CustomResourceExt>() -> Result<Crd> {
    let name = K::crd_name();
    let mut value = serde_json::to_value(K::crd()).with_context(|| format!("writing the CRD {name}"))?;
    let versions = value["spec"]["versions"]
        .as_array_mut()
        .with_context(|| format!("the CRD {name} has no versions"))?;
    for version in versions {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        // kube's derive asks for a spec, also where a kind, like PlacementDecision, has none.
        if let Some(root) = schema.as_object_mut() {
            root.remove("required");
        }
        without_null(schema);
    }
    Crd::new(value)
}

/// schemars says of an `Option` that it may be `null`. Types made in Go never say so, and then a server drops the `null`
/// of a field that has a default and refuses any other.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, value| !(name == "nullable" && *value == Value::Bool(true)));
            fields.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}
