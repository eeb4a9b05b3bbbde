//! Decides what to watch: the kinds of routes that the hub serves, and the kinds that these routes refer to.

use super::index::View;
use super::kinds::{self, CONFIG_MAPS, GATEWAYS, SERVICES};
use policy_sync_api::names::{GroupVersionResource, ObjectKey};
use policy_sync_mirror::WatchedSources;
use policy_sync_topology::Needs;
use policy_sync_topology::rows::{BackendKind, RouteKind, SetKind};

/// The sources to watch if the graph has these `needs`; `stored` is the name of the ConfigMap.
pub(super) fn plan(view: View<'_>, needs: Needs, stored: &ObjectKey) -> WatchedSources {
    let config_map = (kinds::config_map(stored), CONFIG_MAPS.gvr());
    let mut wanted = WatchedSources::from([config_map, (GATEWAYS.all(), GATEWAYS.gvr())]);
    let mut served = RouteKind::ALL.map(kinds::source).to_vec();
    served.extend(SetKind::ALL.map(kinds::sets));
    let needed = |kind: BackendKind| needs.backends[kind as usize];
    let backends = BackendKind::ALL.into_iter().filter(|kind| needed(*kind));
    served.extend(backends.filter(|kind| *kind != BackendKind::Service).map(kinds::backends));
    if needs.grants {
        served.push(kinds::grants());
    }
    for source in served {
        let plural = source.resource().map(ToString::to_string).unwrap_or_default();
        if let Some(gvr) = view.served(&plural) {
            wanted.insert(source, gvr.clone());
        }
    }
    if needed(BackendKind::Service) {
        wanted.insert(SERVICES.all(), SERVICES.gvr());
    }
    if needs.namespaces {
        wanted.insert(kinds::namespaces(), GroupVersionResource::new("", "v1", "namespaces"));
    }
    wanted
}

/// Whether API discovery is complete and each of `wanted` is listed or known to be unavailable.
pub(super) fn is_settled(view: View<'_>, wanted: &WatchedSources) -> bool {
    kinds::plurals().all(|plural| view.is_looked_up(&plural))
        && wanted.keys().all(|source| view.is_settled(source))
}
