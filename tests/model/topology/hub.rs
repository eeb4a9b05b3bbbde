//! The hub's reaction to requests of the stored topology.

use http::{Method, Request};
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_controller::stored_topology::kinds;
use policy_sync_mirror::Source;
use policy_sync_topology::rows::RouteKind;
use serde_json::{Value, json};

use crate::controller::CONTROLLER;
use crate::effect::{Effect, created, edited};
use crate::hub::{Contents, Hub, key_of};

/// Executes the request, and returns the object's new version or a status code.
pub(super) fn serve(hub: &mut Hub, contents: &mut Contents, request: &Request<Vec<u8>>) -> Result<u64, u16> {
    let body: Value = serde_json::from_slice(request.body()).unwrap();
    let (source, key) = addressed(request, &body);
    let stored = hub.objects.get(&(source.clone(), key.clone())).cloned();
    let content = request.headers().get("content-type").and_then(|value| value.to_str().ok());
    let effect = match (request.method(), content, &stored) {
        (&Method::POST, _, None) => {
            let made = hub.made(&source, &key);
            created(contents, &source, body, made)
        }
        (&Method::POST, _, Some(_)) => Effect::Refused(409),
        (&Method::PATCH, Some("application/apply-patch+yaml"), stored) => match stored {
            Some(stored) if body["metadata"]["uid"] == *stored.content.metadata.uid => {
                edited(contents, &stored.content.json, |json| apply(json, &body))
            }
            // An apply with a uid refers to an object that no longer exists; an apply of a status cannot create an
            // object.
            None if request.uri().path().ends_with("/status") => Effect::Refused(404),
            _ => Effect::Refused(409),
        },
        (_, _, None) => Effect::Refused(404),
        (&Method::PATCH, Some("application/merge-patch+json"), Some(stored)) => {
            if body["metadata"]["resourceVersion"].as_str() == Some(&*stored.version.to_string()) {
                let set = |json: &mut Value| json["status"]["parents"] = body["status"]["parents"].clone();
                edited(contents, &stored.content.json, set)
            } else {
                Effect::Refused(409)
            }
        }
        (method, content, _) => panic!("unexpected request: {method} {content:?}"),
    };
    match effect {
        Effect::Refused(code) => return Err(code),
        effect => hub.apply_effect(&source, &key, effect),
    }
    Ok(hub.objects[&(source, key)].version)
}

/// Applies the conditions of a Gateway's status, or the whole ConfigMap.
fn apply(json: &mut Value, body: &Value) {
    if body["kind"] == "ConfigMap" {
        json["data"] = body["data"].clone();
        for field in ["labels", "annotations"] {
            for (key, value) in body["metadata"][field].as_object().unwrap() {
                json["metadata"][field][key] = value.clone();
            }
        }
        return;
    }
    let manager = ControllerName::new(CONTROLLER).topology_field_manager();
    let key = |condition: &Value| format!(r#"k:{{"type":{}}}"#, condition["type"]);
    let managed = &json["metadata"]["managedFields"][0]["fieldsV1"]["f:status"]["f:conditions"];
    let ours: Vec<String> =
        managed.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
    let mut conditions = json["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let applied = body["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| !ours.contains(&key(condition)));
    conditions.retain(|condition| applied.iter().all(|applied| applied["type"] != condition["type"]));
    let fields: serde_json::Map<String, Value> =
        applied.iter().map(|condition| (key(condition), json!({"f:message": {}}))).collect();
    conditions.extend(applied);
    json["status"]["conditions"] = conditions.into();
    json["metadata"]["managedFields"] = if fields.is_empty() {
        json!([])
    } else {
        json!([{"manager": manager, "operation": "Apply", "subresource": "status",
            "fieldsV1": {"f:status": {"f:conditions": fields}}}])
    };
}

fn addressed(request: &Request<Vec<u8>>, body: &Value) -> (Source, ObjectKey) {
    let path = request.uri().path();
    let steps: Vec<&str> =
        path.trim_matches('/').split('/').skip_while(|step| *step != "namespaces").collect();
    let ["namespaces", namespace, resource, name @ ..] = steps.as_slice() else {
        panic!("unexpected path: {path}");
    };
    let key = match name {
        [name] | [name, "status"] => ObjectKey::new(namespace, name),
        _ => key_of(body),
    };
    let source = match *resource {
        "gateways" => kinds::GATEWAYS.all(),
        "httproutes" => kinds::source(RouteKind::Http),
        "configmaps" => kinds::config_map(&key),
        _ => panic!("unexpected path: {path}"),
    };
    (source, key)
}
