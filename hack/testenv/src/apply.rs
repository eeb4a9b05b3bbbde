//! Creates, updates and deletes objects of any kind, as `kubectl` does.

use anyhow::{Context, Result};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, ValidationDirective};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, ResourceExt};
use serde_json::Value;

/// The field manager of the tests.
pub const FIELD_MANAGER: &str = "testenv";

/// Applies `object` with server-side apply. Unknown fields are errors, so that typing mistakes in fixtures are
/// found.
pub async fn apply(client: &Client, object: &Value) -> Result<DynamicObject> {
    let (api, name) = api_for(client, object).await?;
    api.patch(&name, &parameters(), &Patch::Apply(object))
        .await
        .with_context(|| format!("applying {}", describe(object)))
}

/// Applies each object in order.
pub async fn apply_all<'a>(client: &Client, objects: impl IntoIterator<Item = &'a Value>) -> Result<()> {
    for object in objects {
        apply(client, object).await?;
    }
    Ok(())
}

/// Applies the `status` of an existing object with server-side apply.
pub async fn apply_status(client: &Client, object: &Value) -> Result<DynamicObject> {
    let (api, name) = api_for(client, object).await?;
    let status = serde_json::json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "metadata": { "name": name },
        "status": object["status"],
    });
    api.patch_status(&name, &parameters(), &Patch::Apply(&status))
        .await
        .with_context(|| format!("applying the status of {}", describe(object)))
}

/// Applies `object` as a user does, then its `status` as a controller does.
pub async fn apply_with_status(client: &Client, object: &Value) -> Result<DynamicObject> {
    let mut without = object.clone();
    if let Some(fields) = without.as_object_mut() {
        fields.remove("status");
    }
    apply(client, &without).await?;
    apply_status(client, object).await
}

/// Deletes the object with the kind, namespace and name of `object`. Fails if the object does not exist.
pub async fn delete(client: &Client, object: &Value) -> Result<()> {
    let (api, name) = api_for(client, object).await?;
    let deleted = api.delete(&name, &DeleteParams::default()).await;
    deleted.map(drop).with_context(|| format!("deleting {}", describe(object)))
}

/// The API for the kind and namespace of `object`, and the object's name.
pub async fn api_for(client: &Client, object: &Value) -> Result<(Api<DynamicObject>, String)> {
    let object: DynamicObject = serde_json::from_value(object.clone()).context("parsing the object")?;
    let types = object.types.as_ref().context("no apiVersion or kind")?;
    let gvk = GroupVersionKind::try_from(types).context("parsing the apiVersion")?;
    let (resource, scope): (ApiResource, _) = {
        let (resource, capabilities) = pinned_kind(client, &gvk)
            .await
            .with_context(|| format!("discovering {}/{}", gvk.api_version(), gvk.kind))?;
        (resource, capabilities.scope)
    };
    let api = match (&scope, object.namespace()) {
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), &namespace, &resource),
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
    };
    Ok((api, object.name_any()))
}

fn parameters() -> PatchParams {
    PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply(FIELD_MANAGER).force()
    }
}

fn describe(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = text(&object["metadata"]["namespace"]);
    let separator = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{separator}{}", text(&object["kind"]), text(&object["metadata"]["name"]))
}
