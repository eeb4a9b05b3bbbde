//! What to watch beside the fixed kinds: the ConfigMaps of all classes of ours, and every kind that one of them
//! lists, in one version each. A kind that is listed no more is watched on until our annotations are gone from it.
//! So are the kinds of a class that went a moment ago, as it may return.
//! Secrets and ReferenceGrants only while one of these classes copies TLS Secrets.

use std::collections::BTreeMap;

use crate::api::gateway;
use crate::api::names::GroupVersionResource;
use crate::api::params::TlsSecrets;
use crate::mirror::{Source, View};

/// The sources to watch, and the kind of each.
pub type Wanted = BTreeMap<Source, GroupVersionResource>;

/// Plans the watches. A kind that only invalid parameters used to list is watched on.
#[must_use]
pub fn plan(view: View<'_>) -> Wanted {
    let mut wanted = Wanted::new();
    let ours = view.our_classes().into_iter().map(|(name, class)| {
        let params = view.class_params(&name.name).and_then(|params| params.known().cloned());
        (class, params)
    });
    // One that may return finds everything as it was.
    let departed = view.departed().map(|(_, class, params)| (class, params.cloned()));
    for (class, params) in ours.chain(departed) {
        if let Ok(Some(config_map)) = class.config_map() {
            wanted.insert(Source::ConfigMap(config_map), GroupVersionResource::new("", "v1", "configmaps"));
        }
        let Some(params) = params else { continue };
        if params.tls_secrets == TlsSecrets::Copy {
            wanted.insert(Source::Secrets, GroupVersionResource::new("", "v1", "secrets"));
            wanted.insert(
                Source::Grants,
                GroupVersionResource::new(gateway::GROUP, "v1beta1", "referencegrants"),
            );
        }
        for policy in &params.policies_to_sync {
            let gvr = policy.gvr();
            let version = wanted.entry(Source::Policies(gvr.kind.clone())).or_insert_with(|| gvr.clone());
            // Where classes disagree, the choice must not depend on their order.
            if gvr < *version {
                *version = gvr;
            }
        }
    }
    for (gvr, info) in view.resolved_kinds() {
        let annotated = || view.policies_of(&gvr.kind).any(|(_, policy)| policy.folded.is_ours_to_remove());
        let source = Source::Policies(gvr.kind.clone());
        if info.can_patch && !wanted.contains_key(&source) && annotated() {
            wanted.insert(source, gvr.clone());
        }
    }
    wanted
}
