//! The hub's reaction to creates, edits and deletes of one object, by a request or a user.

use std::sync::Arc;

use http::{Method, Request};
use policy_sync_api::annotations::POLICY_ANNOTATIONS;
use policy_sync_api::names::ControllerName;
use policy_sync_mirror::Source;
use policy_sync_sync::kinds::GATEWAYS;
use policy_sync_sync::rows::gateway_fields::GatewayFields;
use serde_json::{Map, Value, json};

use crate::controller::CONTROLLER;
use crate::hub::{Content, Contents, category, key_of};

const APPLY: &str = "application/apply-patch+yaml";

/// The effect of a request or an agent on an object.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Put(Arc<Content>),
    Remove,
    Nothing,
    Refused(u16),
}

/// The effect of `request` on the existing object `stored`. `made` counts earlier objects with the same name.
pub(crate) fn served(
    contents: &mut Contents,
    source: &Source,
    request: &Request<Vec<u8>>,
    stored: Option<&Content>,
    made: u32,
) -> Effect {
    let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
    let content = request.headers().get("content-type").and_then(|value| value.to_str().ok());
    let other = |uid: &Value, stored: &Content| !uid.is_null() && *uid != stored.metadata.uid;
    match (request.method(), content, stored) {
        (&Method::POST, _, Some(_)) => Effect::Refused(409),
        (&Method::POST, _, None) => created(contents, source, body, made),
        // An apply with a uid refers to an object that no longer exists.
        (&Method::PATCH, Some(APPLY), None) => Effect::Refused(409),
        (_, _, None) => Effect::Refused(404),
        (&Method::DELETE, _, Some(stored)) if other(&body["preconditions"]["uid"], stored) => {
            Effect::Refused(409)
        }
        (&Method::DELETE, _, Some(stored)) => deleted(contents, &stored.json),
        (&Method::PATCH, Some(APPLY), Some(stored)) if other(&body["metadata"]["uid"], stored) => {
            Effect::Refused(409)
        }
        (&Method::PATCH, Some(APPLY), Some(stored)) if *source == GATEWAYS.all() => {
            let in_status = request.uri().path().ends_with("/status");
            edited(contents, &stored.json, |json| {
                if in_status { apply_status(json, &body) } else { label(json, &body) }
            })
        }
        // On policies, the controller applies only annotations.
        (&Method::PATCH, Some(APPLY), Some(stored)) => edited(contents, &stored.json, |json| {
            let ours = body["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            let mut annotations = json["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            annotations.retain(|key, _| !POLICY_ANNOTATIONS.contains(&key.as_str()));
            annotations.extend(ours);
            json["metadata"]["annotations"] = annotations.into();
        }),
        (&Method::PATCH, Some("application/json-patch+json"), Some(stored)) => {
            let patch: json_patch::Patch = serde_json::from_value(body).unwrap();
            let mut new = stored.json.clone();
            match json_patch::patch(&mut new, &patch) {
                Ok(()) => edited(contents, &stored.json, |json| *json = new),
                Err(_) => Effect::Refused(422),
            }
        }
        (method, content, _) => panic!("unexpected request: {method} {content:?}"),
    }
}

/// Applies the controller's labels and annotations to a Gateway.
fn label(json: &mut Value, body: &Value) {
    let mut owned = json!({});
    for field in ["labels", "annotations"] {
        let ours = body["metadata"][field].as_object().cloned().unwrap_or_default();
        let mut strings = json["metadata"][field].as_object().cloned().unwrap_or_default();
        strings.retain(|key, _| !GatewayFields::is_ours(key));
        owned[format!("f:{field}")] =
            ours.keys().map(|key| (format!("f:{key}"), json!({}))).collect::<Map<_, _>>().into();
        strings.extend(ours);
        json["metadata"][field] = strings.into();
    }
    let manager = ControllerName::new(CONTROLLER).hub_field_manager();
    json["metadata"]["managedFields"] =
        json!([{"manager": manager, "operation": "Apply", "fieldsV1": {"f:metadata": owned}}]);
}

/// Applies the controller's status to a Gateway. Agents report no listeners here, so no list has foreign
/// items.
fn apply_status(json: &mut Value, body: &Value) {
    json["status"] = body["status"].clone();
}

pub(crate) fn created(contents: &mut Contents, source: &Source, mut json: Value, made: u32) -> Effect {
    json["metadata"]["uid"] = json!(format!("{}-{}-{made}", category(source), key_of(&json)));
    json["metadata"]["generation"] = json!(1);
    json["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    Effect::Put(contents.of(json))
}

pub(crate) fn edited(contents: &mut Contents, before: &Value, edit: impl FnOnce(&mut Value)) -> Effect {
    let mut json = before.clone();
    edit(&mut json);
    if json == *before {
        return Effect::Nothing;
    }
    if json["spec"] != before["spec"] || json["data"] != before["data"] {
        json["metadata"]["generation"] = json!(before["metadata"]["generation"].as_i64().unwrap() + 1);
    }
    if !json["metadata"]["deletionTimestamp"].is_null() && no_finalizers(&json) {
        return Effect::Remove;
    }
    Effect::Put(contents.of(json))
}

pub(crate) fn deleted(contents: &mut Contents, before: &Value) -> Effect {
    if no_finalizers(before) {
        return Effect::Remove;
    }
    edited(contents, before, |json| json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"))
}

fn no_finalizers(json: &Value) -> bool {
    json["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
}
