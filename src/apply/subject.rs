//! The object that Events about a key are for.

use k8s_openapi::api::core::v1::ObjectReference;

use crate::mirror::{Key, View};

/// The policy or Gateway that `key` is about, where it is there.
pub(super) fn of(view: View<'_>, key: &Key) -> Option<ObjectReference> {
    let (Key::Works(parent) | Key::Fold(parent)) = key else { return None };
    let (api_version, kind, uid) = if parent.is_gateway() {
        let gateway = view.gateway(&parent.object)?;
        (format!("{}/v1", parent.kind.group), "Gateway".to_owned(), gateway.uid.to_string())
    } else {
        let (gvr, info) = view.resolved_kinds().find(|(gvr, _)| gvr.kind == parent.kind)?;
        (gvr.api_version(), info.kind.to_string(), view.policy(parent)?.uid.to_string())
    };
    Some(ObjectReference {
        api_version: Some(api_version),
        kind: Some(kind),
        namespace: Some(parent.object.namespace.to_string()),
        name: Some(parent.object.name.to_string()),
        uid: Some(uid),
        ..ObjectReference::default()
    })
}
