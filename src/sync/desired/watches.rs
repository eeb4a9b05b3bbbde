//! What to watch beside the needed kinds: the ConfigMaps of all classes of ours, and every kind that one of them
//! lists, in the one version that is synced. A kind that is listed no more is watched on until our annotations are gone from it.
//! So are the kinds of a class that went a moment ago, as it may return.
//! Secrets and ReferenceGrants only while one of these classes copies TLS Secrets.

use std::collections::BTreeSet;

use super::eligibility::{held, versions};
use crate::api::names::GroupVersionResource;
use crate::api::params::TlsSecrets;
use crate::hub::Wanted;
use crate::sync::View;
use crate::sync::kinds::{CONFIG_MAPS, GRANTS, POLICIES, SECRETS, config_map, policies};

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
        if let Ok(Some(key)) = class.config_map() {
            wanted.insert(config_map(&key), CONFIG_MAPS.gvr());
        }
        let Some(params) = params else { continue };
        if params.tls_secrets == TlsSecrets::Copy {
            wanted.extend([(SECRETS.all(), SECRETS.gvr()), (GRANTS.all(), GRANTS.gvr())]);
        }
        for kind in params.policies_to_sync.iter().map(|policy| policy.gvr().kind) {
            if let Some(gvr) = held(view, &versions(view, &kind)) {
                wanted.insert(policies(&kind), gvr.clone());
            }
        }
    }
    for (gvr, info) in view.resolved_kinds() {
        let annotated = || view.policies_of(&gvr.kind).any(|(_, policy)| policy.fields.is_ours_to_remove());
        let source = policies(&gvr.kind);
        if info.can_patch && !wanted.contains_key(&source) && annotated() {
            wanted.insert(source, gvr.clone());
        }
    }
    wanted
}

/// The versions in which classes list kinds that are watched in another one: whether they could be is to be found out.
#[must_use]
pub fn others(view: View<'_>) -> BTreeSet<GroupVersionResource> {
    let wanted = plan(view);
    let kinds = wanted.keys().filter_map(|source| POLICIES.resource_of(source));
    let listed: BTreeSet<_> = kinds.flat_map(|kind| versions(view, kind)).map(|(gvr, _)| gvr).collect();
    listed.into_iter().filter(|gvr| wanted.values().all(|watched| watched != gvr)).collect()
}
