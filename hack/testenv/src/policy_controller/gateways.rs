//! Accepts and programs the Gateways of a spoke in their statuses, without serving traffic.

use futures::StreamExt;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, core::ApiResource};
use policy_sync_api::gateway::{CONDITIONS, GROUP, LISTENER_CONDITIONS};
use policy_sync_api::names::GroupVersionResource;
use serde_json::{Value, json};

use super::{Retry, resource};

/// Writes the statuses of all Gateways while the returned future is polled.
pub(super) async fn control(client: Client) {
    let kind: ApiResource = resource(&GroupVersionResource::new(GROUP, "v1", "gateways"));
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let gateways = watcher(all, watcher::Config::default()).backoff(Retry::default()).applied_objects();
    let mut gateways = gateways.boxed();
    while let Some(gateway) = gateways.next().await {
        let Ok(gateway) = gateway else { continue };
        let Some(status) = due(&gateway) else { continue };
        let namespace = gateway.namespace().unwrap_or_default();
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &kind);
        // The resource version guards against newer objects, for which the watch sends another event.
        let patch =
            json!({"metadata": {"resourceVersion": gateway.metadata.resource_version}, "status": status});
        let patch = Patch::Merge(patch);
        if let Err(error) = api.patch_status(&gateway.name_any(), &PatchParams::default(), &patch).await {
            tracing::debug!(gateway = gateway.name_any(), %error, "writing a Gateway's status failed");
        }
    }
}

/// The status of a Gateway, or `None` if the status is up to date or the Gateway is being deleted.
fn due(gateway: &DynamicObject) -> Option<Value> {
    let generation = gateway.metadata.generation;
    let mut found = gateway.data["status"]["conditions"].as_array().into_iter().flatten();
    let written = found.any(|condition| {
        condition["type"] == "Programmed" && condition["observedGeneration"].as_i64() == generation
    });
    if written || gateway.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |name: &&str| {
        let (status, reason) = match *name {
            "Conflicted" => ("False", "NoConflicts"),
            name => ("True", name),
        };
        json!({"type": name, "status": status, "reason": reason, "message": "",
            "observedGeneration": generation, "lastTransitionTime": now})
    };
    let listener = |listener: &Value| {
        let kinds = ["GRPCRoute", "HTTPRoute"].map(|kind| json!({"group": GROUP, "kind": kind}));
        let conditions: Vec<Value> = LISTENER_CONDITIONS.iter().map(condition).collect();
        json!({"name": listener["name"], "attachedRoutes": 0, "supportedKinds": kinds, "conditions": conditions})
    };
    let listeners = gateway.data["spec"]["listeners"].as_array().into_iter().flatten();
    let host = format!("{}.{}.example.com", gateway.name_any(), gateway.namespace().unwrap_or_default());
    Some(json!({
        "conditions": CONDITIONS.iter().map(condition).collect::<Vec<_>>(),
        "addresses": [
            {"type": "IPAddress", "value": "192.0.2.1"},
            {"type": "Hostname", "value": host},
        ],
        "listeners": listeners.map(listener).collect::<Vec<_>>(),
    }))
}
