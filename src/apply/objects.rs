//! Writes users' objects: by server-side apply, our fields alone, and always with the uid that was seen, because
//! without it an object that was deleted in between would be created anew, empty.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tracing::info;

use super::ApplyError;
use super::requests::{Requests, of_kind};
use crate::api::gateway::GROUP;
use crate::api::names::{GroupVersionResource, ObjectKey, Parent};

/// Writes our annotations of a policy, all of them; returns its new resource version.
pub(super) async fn annotate(
    requests: &Requests,
    manager: &str,
    (gvr, kind): (&GroupVersionResource, &str),
    parent: &Parent,
    uid: &str,
    annotations: &BTreeMap<&'static str, String>,
) -> Result<u64, ApplyError> {
    let key = &parent.object;
    let body = json!({
        "apiVersion": gvr.api_version(),
        "kind": kind,
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid, "annotations": annotations},
    });
    let params = PatchParams::apply(manager).force();
    let request = of_kind(gvr, &key.namespace).patch(&key.name, &params, &Patch::Apply(body));
    let written = requests.write(&gvr.kind.resource, request).await;
    let metadata = written.map_err(|source| ApplyError::Request {
        verb: "annotate",
        object: parent.to_string(),
        source,
    })?;
    info!(object = %parent, action = "annotate", "wrote a policy's annotations");
    Ok(metadata.version())
}

/// Writes our conditions of a GatewayClass; returns its new resource version.
pub(super) async fn class_status(
    requests: &Requests,
    manager: &str,
    class: &ObjectKey,
    uid: &str,
    conditions: &[Condition],
) -> Result<u64, ApplyError> {
    let gvr = GroupVersionResource::new(GROUP, "v1", "gatewayclasses");
    let body = json!({
        "apiVersion": gvr.api_version(),
        "kind": "GatewayClass",
        "metadata": {"name": class.name, "uid": uid},
        "status": {"conditions": conditions},
    });
    let params = PatchParams::apply(manager).force();
    let request = of_kind(&gvr, "").patch_subresource("status", &class.name, &params, &Patch::Apply(body));
    let written = requests.write(&gvr.kind.resource, request).await;
    let metadata = written.map_err(|source| ApplyError::Request {
        verb: "update",
        object: format!("GatewayClass {class}"),
        source,
    })?;
    info!(object = %format!("GatewayClass {class}"), action = "status", "wrote a class's status");
    Ok(metadata.version())
}
