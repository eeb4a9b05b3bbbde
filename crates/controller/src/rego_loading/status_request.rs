//! Requests that write the status of carriers.

use http::Request;
use kube::api::PatchParams;
use kube::core::request;
use serde_json::json;

use super::key::CarrierKey;
use super::rows::{CarrierStatus, STATUS};
use policy_sync_hub::reconcile::{apply, of_kind};

/// A server-side apply of `status` to the carrier `key` with this uid.
///
/// # Errors
///
/// If the request cannot be built.
pub(super) fn status_request(
    manager: &str,
    key: &CarrierKey,
    uid: &str,
    status: &CarrierStatus,
) -> Result<Request<Vec<u8>>, request::Error> {
    let (api_version, kind) = key.type_meta();
    let mut metadata = json!({"name": key.0.name, "uid": uid});
    let params = PatchParams::apply(manager).force();
    let objects = of_kind(&key.gvr(), &key.0.namespace);
    if key.is_rego_policy() {
        let conditions = json!({"conditions": status.conditions});
        let body =
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "status": conditions});
        return objects.patch_subresource("status", &key.0.name, &params, &apply::body(&body)?);
    }
    metadata["namespace"] = (*key.0.namespace).into();
    if let Some(annotation) = &status.annotation {
        metadata["annotations"] = json!({STATUS: annotation});
    }
    let body = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    objects.patch(&key.0.name, &params, &apply::body(&body)?)
}
