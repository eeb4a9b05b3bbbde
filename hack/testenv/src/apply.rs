//! Objects of any kind, written as a user with `kubectl` would.

use anyhow::{Context, Result};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, ValidationDirective};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, ResourceExt};
use serde_json::Value;

/// The field manager of what tests write.
pub const FIELD_MANAGER: &str = "testenv";

/// Server-side apply of `object`. An unknown field is an error, so that a fixture with a typing mistake is found.
pub async fn apply(client: &Client, object: &Value) -> Result<DynamicObject> {
    let (api, name) = api_for(client, object).await?;
    api.patch(&name, &parameters(), &Patch::Apply(object))
        .await
        .with_context(|| format!("applying {}", describe(object)))
}

/// [`apply`] of each, in this order.
pub async fn apply_all<'a>(client: &Client, objects: impl IntoIterator<Item = &'a Value>) -> Result<()> {
    for object in objects {
        apply(client, object).await?;
    }
    Ok(())
}

/// Server-side apply of the `status` of `object`, which has to exist.
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

/// Server-side apply of `object`, then of its `status`: what a user writes, and what a controller adds to it.
pub async fn apply_with_status(client: &Client, object: &Value) -> Result<DynamicObject> {
    let mut without = object.clone();
    if let Some(fields) = without.as_object_mut() {
        fields.remove("status");
    }
    apply(client, &without).await?;
    apply_status(client, object).await
}

/// Deletes the object of the kind, the namespace and the name of `object`, which has to exist.
pub async fn delete(client: &Client, object: &Value) -> Result<()> {
    let (api, name) = api_for(client, object).await?;
    let deleted = api.delete(&name, &DeleteParams::default()).await;
    deleted.map(drop).with_context(|| format!("deleting {}", describe(object)))
}

/// An API for objects of the kind and in the namespace of `object`, and its name.
pub async fn api_for(client: &Client, object: &Value) -> Result<(Api<DynamicObject>, String)> {
    let object: DynamicObject =
        serde_json::from_value(object.clone()).context("reading an object to apply")?;
    let types = object.types.as_ref().context("an object without apiVersion and kind")?;
    let gvk = GroupVersionKind::try_from(types).context("reading an apiVersion")?;
    let (resource, scope): (ApiResource, _) = {
        let (resource, capabilities) = pinned_kind(client, &gvk)
            .await
            .with_context(|| format!("looking for {}/{}", gvk.api_version(), gvk.kind))?;
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
