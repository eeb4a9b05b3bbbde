//! CRDs of Open Cluster Management, generated from this project's types.

use anyhow::{Context, Result};
use kube::CustomResourceExt;
use policy_sync_api::cluster::{AVAILABLE, ManagedCluster, Placement, PlacementDecision};
use policy_sync_api::work::ManifestWork;
use serde_json::{Value, json};

use super::Crd;
use crate::api::{AppliedManifestWork, ManagedClusterSet, ManagedClusterSetBinding};

pub(super) fn hub() -> Result<Vec<Crd>> {
    Ok(vec![
        generate::<ManifestWork>()?,
        with_available(generate::<ManagedCluster>()?)?,
        generate::<ManagedClusterSet>()?,
        generate::<ManagedClusterSetBinding>()?,
        generate::<Placement>()?,
        generate::<PlacementDecision>()?,
    ])
}

pub(super) fn spoke() -> Result<Vec<Crd>> {
    Ok(vec![generate::<AppliedManifestWork>()?])
}

/// Adds the column `Available` to `kubectl get managedclusters`, as in the published CRD.
fn with_available(crd: Crd) -> Result<Crd> {
    let mut value = crd.value().clone();
    value["spec"]["versions"][0]["additionalPrinterColumns"] = json!([{
        "name": "Available",
        "type": "string",
        "jsonPath": format!(".status.conditions[?(@.type==\"{AVAILABLE}\")].status"),
    }]);
    Crd::new(value)
}

fn generate<K: CustomResourceExt>() -> Result<Crd> {
    let name = K::crd_name();
    let mut value = serde_json::to_value(K::crd()).with_context(|| format!("serializing the CRD {name}"))?;
    let versions = value["spec"]["versions"]
        .as_array_mut()
        .with_context(|| format!("the CRD {name} has no versions"))?;
    for version in versions {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        // kube's derive requires a spec, even for kinds without one, such as PlacementDecision.
        if let Some(root) = schema.as_object_mut() {
            root.remove("required");
        }
        as_controller_gen_would(schema);
    }
    Crd::new(value)
}

/// Aligns a schema of schemars with a schema of controller-gen. Removes `nullable` of `Option` fields, which the
/// published CRDs lack. With the published CRDs, a server drops `null` from fields with a default, and rejects `null`
/// in other fields.
fn as_controller_gen_would(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, value| !(name == "nullable" && *value == Value::Bool(true)));
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                if properties.contains_key("lastTransitionTime") && properties.contains_key("status") {
                    properties["status"]["enum"] = json!(["True", "False", "Unknown"]);
                }
                if let Some(expressions) = properties.get_mut("matchExpressions") {
                    expressions["x-kubernetes-list-type"] = json!("atomic");
                    expressions["items"]["properties"]["values"]["x-kubernetes-list-type"] = json!("atomic");
                }
            }
            fields.values_mut().for_each(as_controller_gen_would);
        }
        Value::Array(items) => items.iter_mut().for_each(as_controller_gen_would),
        _ => {}
    }
}
