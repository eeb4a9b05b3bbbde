//! Writes metadata and status of users' objects: policies, Gateways and GatewayClasses.

use std::collections::BTreeMap;

use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::PatchParams;
use kube::core::request;
use serde_json::{Value, json};
use tracing::info;

use super::WriteError;
use policy_sync_api::gateway::GatewayStatus;
use policy_sync_api::names::{GroupVersionResource, ObjectKey, Origin};
use policy_sync_hub::reconcile::{Requests, apply, of_kind};
use policy_sync_sync::kinds::{CLASSES, GATEWAYS};
use policy_sync_sync::status::gateway::Metadata;

/// The server-side apply request that sets exactly these annotations of `manager` on a policy.
///
/// # Errors
///
/// If the request cannot be built.
pub fn annotate_request(
    manager: &str,
    (gvr, kind): (&GroupVersionResource, &str),
    origin: &Origin,
    uid: &str,
    annotations: &BTreeMap<&'static str, String>,
) -> Result<Request<Vec<u8>>, request::Error> {
    let key = origin.object();
    let body = json!({
        "apiVersion": gvr.api_version(),
        "kind": kind,
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid, "annotations": annotations},
    });
    let params = PatchParams::apply(manager).force();
    of_kind(gvr, &key.namespace).patch(&key.name, &params, &apply::body(&body)?)
}

/// Sets the controller's annotations on a policy and returns the new resource version.
pub(super) async fn annotate(
    requests: &Requests,
    manager: &str,
    (gvr, kind): (&GroupVersionResource, &str),
    origin: &Origin,
    uid: &str,
    annotations: &BTreeMap<&'static str, String>,
) -> Result<u64, WriteError> {
    let request = annotate_request(manager, (gvr, kind), origin, uid, annotations);
    let written = apply::apply(requests, gvr, origin.object(), uid, request).await;
    let metadata = written.map_err(|source| WriteError::Request {
        verb: "annotate",
        object: origin.to_string(),
        source,
    })?;
    info!(object = %origin, action = "annotate", "wrote a policy's annotations");
    Ok(metadata.version())
}

/// The server-side apply request that sets exactly these labels and annotations of `manager` on a Gateway.
///
/// # Errors
///
/// If the request cannot be built.
pub fn label_request(
    manager: &str,
    gateway: &ObjectKey,
    uid: &str,
    metadata: &Metadata,
) -> Result<Request<Vec<u8>>, request::Error> {
    let mut body = gateway_body(gateway, uid);
    for (field, strings) in [("labels", &metadata.labels), ("annotations", &metadata.annotations)] {
        if !strings.is_empty() {
            body["metadata"][field] = json!(strings);
        }
    }
    let params = PatchParams::apply(manager).force();
    let gateways = of_kind(&GATEWAYS.gvr(), &gateway.namespace);
    gateways.patch(&gateway.name, &params, &apply::body(&body)?)
}

/// The server-side apply request that writes the controller's part of the status of a Gateway.
///
/// # Errors
///
/// If the request cannot be built.
pub fn gateway_status_request(
    manager: &str,
    gateway: &ObjectKey,
    uid: &str,
    status: &GatewayStatus,
) -> Result<Request<Vec<u8>>, request::Error> {
    let mut body = gateway_body(gateway, uid);
    body["status"] = json!(status);
    let params = PatchParams::apply(manager).force();
    let gateways = of_kind(&GATEWAYS.gvr(), &gateway.namespace);
    gateways.patch_subresource("status", &gateway.name, &params, &apply::body(&body)?)
}

/// The server-side apply request that reduces the controller's part of the status of a Gateway to `conditions`.
///
/// # Errors
///
/// If the request cannot be built.
pub fn clear_status_request(
    manager: &str,
    gateway: &ObjectKey,
    uid: &str,
    conditions: &[Condition],
) -> Result<Request<Vec<u8>>, request::Error> {
    apply::conditions(manager, (&GATEWAYS.gvr(), "Gateway"), gateway, uid, conditions)
}

fn gateway_body(gateway: &ObjectKey, uid: &str) -> Value {
    json!({
        "apiVersion": GATEWAYS.gvr().api_version(),
        "kind": "Gateway",
        "metadata": {"name": gateway.name, "namespace": gateway.namespace, "uid": uid},
    })
}

/// Sends a write to a Gateway and returns its new resource version. `action` names the write in logs and errors.
pub(super) async fn write_gateway(
    requests: &Requests,
    gateway: &ObjectKey,
    uid: &str,
    action: &'static str,
    request: Result<Request<Vec<u8>>, request::Error>,
) -> Result<u64, WriteError> {
    let object = format!("Gateway {gateway}");
    let written = apply::apply(requests, &GATEWAYS.gvr(), gateway, uid, request).await;
    let metadata =
        written.map_err(|source| WriteError::Request { verb: action, object: object.clone(), source })?;
    info!(object, action, "wrote to a Gateway");
    Ok(metadata.version())
}

/// Writes the controller's conditions of a GatewayClass and returns the new resource version.
pub(super) async fn class_status(
    requests: &Requests,
    manager: &str,
    class: &ObjectKey,
    uid: &str,
    conditions: &[Condition],
) -> Result<u64, WriteError> {
    let gvr = CLASSES.gvr();
    let request = apply::conditions(manager, (&gvr, "GatewayClass"), class, uid, conditions);
    let written = apply::apply(requests, &gvr, class, uid, request).await;
    let metadata = written.map_err(|source| WriteError::Request {
        verb: "update",
        object: format!("GatewayClass {class}"),
        source,
    })?;
    info!(object = %format!("GatewayClass {class}"), action = "status", "wrote a class's status");
    Ok(metadata.version())
}
