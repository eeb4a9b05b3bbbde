//! Plans and builds the writes of the topology ConfigMap.

use std::time::Duration;

use http::Request;
use kube::api::{PatchParams, PostParams};
use kube::core::request;
use serde_json::{Value, json};

use super::kinds::CONFIG_MAPS;
use super::rows::StoredConfigMap;
use super::text::{DotText, KEY};
use policy_sync_api::annotations::{CONTROLLER, MANAGED_BY, MANAGED_BY_US, TOPOLOGY, TOPOLOGY_DETAIL};
use policy_sync_api::json::Hash;
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_hub::reconcile::{apply, of_kind};

/// The minimum time between two writes of the ConfigMap.
pub(super) const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(10);

/// The next action on the ConfigMap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigMapAction<'s> {
    /// Nothing to do: the ConfigMap is up to date.
    Nothing,
    /// Nothing to do: the ConfigMap with this uid belongs to another controller or user.
    Foreign(&'s str),
    /// Write the ConfigMap after this time.
    Wait(Duration),
    /// Create the ConfigMap.
    Create,
    /// Apply the text to the ConfigMap with this uid.
    Apply(&'s str),
}

/// The next action that makes the ConfigMap `current` contain `text`, whose hash is `digest`. `since` is the time since
/// the last write.
#[must_use]
pub fn next<'s>(
    current: Option<&'s StoredConfigMap>,
    text: &DotText,
    digest: Hash,
    since: Option<Duration>,
) -> ConfigMapAction<'s> {
    if let Some(current) = current {
        if !current.is_ours {
            return ConfigMapAction::Foreign(&current.uid);
        }
        if current.text == digest && current.detail == text.detail.to_string() {
            return ConfigMapAction::Nothing;
        }
    }
    let wait = since.map(|since| MIN_WRITE_INTERVAL.saturating_sub(since)).filter(|wait| !wait.is_zero());
    match (wait, current) {
        (Some(wait), _) => ConfigMapAction::Wait(wait),
        (None, Some(current)) => ConfigMapAction::Apply(&current.uid),
        (None, None) => ConfigMapAction::Create,
    }
}

/// A request that creates the ConfigMap `key`.
///
/// # Errors
///
/// If the request cannot be built.
pub fn create_request(
    controller: &ControllerName,
    key: &ObjectKey,
    text: &DotText,
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
pub fn apply_request(
    controller: &ControllerName,
    key: &ObjectKey,
    uid: &str,
    text: &DotText,
) -> Result<Request<Vec<u8>>, request::Error> {
    let mut body = body(controller, key, text);
    body["metadata"]["uid"] = uid.into();
    let parameters = PatchParams::apply(&controller.hub_field_manager()).force();
    of_kind(&CONFIG_MAPS.gvr(), &key.namespace).patch(&key.name, &parameters, &apply::body(&body)?)
}

fn body(controller: &ControllerName, key: &ObjectKey, text: &DotText) -> Value {
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
