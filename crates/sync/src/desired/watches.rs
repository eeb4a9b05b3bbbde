//! Plans the watches of all kinds except the [`NEEDED`](crate::kinds::NEEDED) kinds, which are always watched. The plan
//! contains the ConfigMaps of all classes of this controller, and every kind that these classes list, in the synced
//! version. A kind that is no longer listed is watched until this controller's annotations are removed from its
//! objects. The watches of a recently deleted class continue, because the class may be created again. Secrets and
//! ReferenceGrants are watched only while one of these classes copies TLS Secrets.

use std::collections::BTreeSet;

use super::eligibility::{synced_version, versions};
use crate::View;
use crate::kinds::{CONFIG_MAPS, GRANTS, SECRETS, config_map, objects, role_of};
use policy_sync_api::names::GroupVersionResource;
use policy_sync_api::params::{Role, TlsSecrets};
use policy_sync_mirror::WatchedSources;

/// Plans the watches. While the parameters of a class are invalid, the kinds in its last valid parameters are watched.
#[must_use]
pub fn plan(view: View<'_>) -> WatchedSources {
    let mut wanted = WatchedSources::new();
    let ours = view.our_classes().into_iter().map(|(name, class)| {
        let params = view.class_params(&name.name).and_then(|params| params.known().cloned());
        (class, params)
    });
    // Watches of classes that may be created again continue.
    let deleted_classes = view.deleted_classes().map(|(_, class, params)| (class, params.cloned()));
    for (class, params) in ours.chain(deleted_classes) {
        if let Ok(Some(key)) = class.config_map() {
            wanted.insert(config_map(&key), CONFIG_MAPS.gvr());
        }
        let Some(params) = params else { continue };
        if params.tls_secrets == TlsSecrets::Copy {
            wanted.extend([(SECRETS.all(), SECRETS.gvr()), (GRANTS.all(), GRANTS.gvr())]);
        }
        for kind in params.all_listed().map(|(_, gvr)| gvr.kind) {
            if let (Some(role), Some(gvr)) = (view.role(&kind), synced_version(view, &versions(view, &kind)))
            {
                wanted.insert(objects(role, &kind), gvr.clone());
            }
        }
    }
    for (gvr, info) in view.resolved_kinds() {
        let annotated = || view.policies_of(&gvr.kind).any(|(_, policy)| policy.fields.is_ours_to_remove());
        let source = view.source_of(&gvr.kind);
        if info.can_patch && !wanted.contains_key(&source) && annotated() {
            wanted.insert(source, gvr.clone());
        }
    }
    wanted
}

/// For each watched kind, the versions that classes list but that are not watched. Each version has the role of its
/// kind. Discovery checks whether these versions could be synced.
#[must_use]
pub fn others(view: View<'_>) -> BTreeSet<(Role, GroupVersionResource)> {
    let wanted = plan(view);
    let versions = wanted
        .keys()
        .filter_map(role_of)
        .flat_map(|(role, kind)| versions(view, kind).into_iter().map(move |(gvr, _)| (role, gvr)));
    versions.filter(|(_, gvr)| wanted.values().all(|watched| watched != gvr)).collect()
}
