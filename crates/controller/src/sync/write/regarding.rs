//! Determines the object that the Events of a key refer to.

use k8s_openapi::api::core::v1::ObjectReference;

use policy_sync_api::names::Origin;
use policy_sync_api::{cluster, gateway};
use policy_sync_sync::{Key, View};

/// The policy, Gateway, GatewayClass or ManagedCluster that `key` concerns; `None` if the object does not exist.
pub(super) fn object_reference(view: View<'_>, key: &Key) -> Option<ObjectReference> {
    let origin = match key {
        Key::Works(origin) | Key::Fold(origin) => origin,
        Key::Class(class) => {
            let uid = &view.class(class)?.uid;
            return Some(cluster_scoped(
                format!("{}/v1", gateway::GROUP),
                "GatewayClass",
                &class.name,
                Some(uid),
            ));
        }
        // The administrators of the cluster can fix a rejected access work.
        Key::Access(name) => {
            view.cluster(name)?;
            return Some(cluster_scoped(format!("{}/v1", cluster::GROUP), "ManagedCluster", &name.0, None));
        }
        Key::Watches => return None,
    };
    let (api_version, kind, uid) = match origin {
        Origin::Gateway(key) => {
            (format!("{}/v1", gateway::GROUP), "Gateway".to_owned(), view.gateway(key)?.uid.to_string())
        }
        Origin::Object(kind, _) => {
            let (gvr, info) = view.resolved_kinds().find(|(gvr, _)| gvr.kind == *kind)?;
            (gvr.api_version(), info.kind.to_string(), view.policy(origin)?.uid.to_string())
        }
    };
    Some(ObjectReference {
        api_version: Some(api_version),
        kind: Some(kind),
        namespace: Some(origin.object().namespace.to_string()),
        name: Some(origin.object().name.to_string()),
        uid: Some(uid),
        ..ObjectReference::default()
    })
}

fn cluster_scoped(api_version: String, kind: &str, name: &str, uid: Option<&str>) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version),
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        uid: uid.map(str::to_owned),
        ..ObjectReference::default()
    }
}
