//! Server-side apply for users' objects. Only the project's own fields are applied. Each apply contains the observed
//! uid, because without a uid, an apply would recreate an object that was deleted in the meantime.

use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{GetParams, Patch, PatchParams};
use kube::core::request;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{RequestError, Requests, of_kind};
use policy_sync_api::names::{GroupVersionResource, ObjectKey};
use policy_sync_api::object::Metadata;

/// Sends an apply for the object `key`. If the object no longer has `uid`, the error is [`RequestError::Stale`].
pub async fn apply(
    requests: &Requests,
    gvr: &GroupVersionResource,
    key: &ObjectKey,
    uid: &str,
    request: Result<Request<Vec<u8>>, request::Error>,
) -> Result<Metadata, RequestError> {
    let get = of_kind(gvr, &key.namespace).get(&key.name, &GetParams::default());
    requests.write_guarded(request, get, |found| found.uid != *uid).await
}

/// The request that applies `conditions` to the status of the object `key`. Conditions that `manager` applied before
/// and that are not in the list are removed.
///
/// # Errors
///
/// If the request cannot be serialized.
pub fn conditions(
    manager: &str,
    (gvr, kind): (&GroupVersionResource, &str),
    key: &ObjectKey,
    uid: &str,
    conditions: &[Condition],
) -> Result<Request<Vec<u8>>, request::Error> {
    let mut value = json!({
        "apiVersion": gvr.api_version(),
        "kind": kind,
        "metadata": {"name": key.name, "uid": uid},
    });
    if !key.namespace.is_empty() {
        value["metadata"]["namespace"] = (*key.namespace).into();
    }
    // Even an empty status would make `manager` the owner of the status.
    if !conditions.is_empty() {
        value["status"] = json!({"conditions": conditions});
    }
    let parameters = PatchParams::apply(manager).force();
    of_kind(gvr, &key.namespace).patch_subresource("status", &key.name, &parameters, &body(&value)?)
}

/// Serializes `value` as the body of an apply. The server parses it as YAML, which allows fewer characters than JSON.
/// One such character, for example in a spoke's message, would make the server reject the whole apply.
pub fn body(value: &Value) -> Result<Patch<Box<RawValue>>, request::Error> {
    let breaks_yaml = |c: char| {
        matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    let mut text = String::new();
    for c in value.to_string().chars() {
        if breaks_yaml(c) {
            // These characters occur only in strings, where the escape is equivalent.
            text.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            text.push(c);
        }
    }
    RawValue::from_string(text).map(Patch::Apply).map_err(request::Error::SerializeBody)
}
