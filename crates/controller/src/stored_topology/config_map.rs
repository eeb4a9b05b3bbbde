//! Plans and builds the writes of the topology ConfigMap.

use std::time::Duration;

use http::Request;
use kube::api::{PatchParams, PostParams};
use kube::core::request;
use serde_json::{Value, json};

use super::kinds::CONFIG_MAPS;
use super::rows::StoredText;
use super::text::{KEY, Text};
use policy_sync_api::annotations::{CONTROLLER, MANAGED_BY, MANAGED_BY_US, TOPOLOGY, TOPOLOGY_DETAIL};
use policy_sync_api::json::Hash;
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_hub::reconcile::{apply, of_kind};

/// The minimum time between two writes.
pub(super) const AT_MOST_EVERY: Duration = Duration::from_secs(10);

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'s> {
    /// None; the ConfigMap is up to date.
    Nothing,
    /// None; the ConfigMap with this uid belongs to another controller or user.
    Foreign(&'s str),
    /// Write after this time.
    Wait(Duration),
    /// Create the ConfigMap.
    Create,
    /// Apply to the ConfigMap with this uid.
    Apply(&'s str),
}

/// The next action so that the ConfigMap `there` has `text` with this `digest`. `since` is the time since the
/// last write.
#[must_use]
pub fn next<'s>(
    there: Option<&'s StoredText>,
    text: &Text,
    digest: Hash,
    since: Option<Duration>,
) -> Next<'s> {
    if let Some(there) = there {
        if !there.is_ours {
            return Next::Foreign(&there.uid);
        }
        if there.text == digest && there.detail == text.detail.to_string() {
            return Next::Nothing;
        }
    }
    let wait = since.map(|since| AT_MOST_EVERY.saturating_sub(since)).filter(|wait| !wait.is_zero());
    match (wait, there) {
        (Some(wait), _) => Next::Wait(wait),
        (None, Some(there)) => Next::Apply(&there.uid),
        (None, None) => Next::Create,
    }
}

/// A request that creates the ConfigMap `key`.
///
/// # Errors
///
/// If the request cannot be built.
pub fn creating(
    controller: &ControllerName,
    key: &ObjectKey,
    text: &Text,
) -> Result<Request<Vec<u8>>, request::Error> {
    let parameters =
        PostParams { field_manager: Some(controller.hub_field_manager()), ..PostParams::default() };
    let body = serde_json::to_vec(&body(controller, key, text)).map_err(request::Error::SerializeBody)?;
    of_kind(&CONFIG_MAPS.gvr(), &key.namespace).create(&parameters, body)
}

/// A request that applies `text` to the ConfigMap with this `uid`.
///
/// # Errors
///
/// If the request cannot be built.
pub fn applying(
    controller: &ControllerName,
    key: &ObjectKey,
    uid: &str,
    text: &Text,
) -> Result<Request<Vec<u8>>, request::Error> {
    let mut body = body(controller, key, text);
    body["metadata"]["uid"] = uid.into();
    let parameters = PatchParams::apply(&controller.hub_field_manager()).force();
    of_kind(&CONFIG_MAPS.gvr(), &key.namespace).patch(&key.name, &parameters, &apply::body(&body)?)
}

fn body(controller: &ControllerName, key: &ObjectKey, text: &Text) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {
                TOPOLOGY: "true",
                MANAGED_BY: MANAGED_BY_US,
                CONTROLLER: controller.hash(),
            },
            "annotations": {TOPOLOGY_DETAIL: text.detail.to_string()},
        },
        "data": {KEY: text.dot},
    })
}
