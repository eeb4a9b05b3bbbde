//! Hashes that identify mirrors.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;
use policy_sync_sync::Mirror;
use policy_sync_sync::kinds::{PLACEMENTS, WORKS};

use crate::controller::Listings;
use crate::hub::Objects;
use crate::step::START;

/// Returns the shape, an exact hash, and a time for each object. The shape is a hash of all that affects decisions,
/// except times. From the time of an object on, decisions about the object no longer depend on time.
///
/// Indexes are hashed as well as rows, so that a mirror with a wrong index is not confused with a correct mirror.
pub(crate) fn fingerprint(
    mirror: &Mirror,
    shown: &Objects,
    listing: &Listings,
) -> (u64, u64, BTreeMap<ObjectKey, Moment>) {
    let guard = mirror.read();
    let view = guard.view(Moment::default());
    let mut shape = DefaultHasher::new();
    listing.hash(&mut shape);
    for source in listing.keys() {
        view.synced(source).is_some().hash(&mut shape);
    }
    let mut exact = DefaultHasher::new();
    for ((source, key), entry) in shown {
        (source, key, entry.content.id).hash(&mut shape);
        entry.version.hash(if *source == WORKS.all() { &mut exact } else { &mut shape });
    }
    let mut works: Vec<_> =
        view.works().map(|(name, cluster, work)| (cluster, name, &work.purpose, &work.uid)).collect();
    works.sort_by_key(|(cluster, name, ..)| (cluster.clone(), name.clone()));
    works.hash(&mut shape);
    let origins: BTreeSet<_> =
        view.works().filter_map(|(.., work)| work.origin().map(|origin| (**origin).clone())).collect();
    for origin in &origins {
        let mut of: Vec<_> = view.works_of(origin).map(|(name, cluster, _)| (name, cluster)).collect();
        of.sort();
        (origin, of).hash(&mut shape);
    }
    for (_, cluster, _) in
        &view.works().map(|(name, cluster, _)| (name, cluster, ())).collect::<BTreeSet<_>>()
    {
        (cluster, view.kinds_in_works(cluster)).hash(&mut shape);
    }
    for (name, class) in view.our_classes() {
        let known = view.class_params(&name.name).map(|params| format!("{:?}", params.known()));
        (name, class.generation, known).hash(&mut shape);
    }
    let kinds: BTreeSet<_> = view.resolved_kinds().map(|(gvr, _)| gvr).collect();
    kinds.hash(&mut shape);
    let mut settles: BTreeMap<ObjectKey, Moment> = shown
        .keys()
        .filter(|(source, _)| *source == PLACEMENTS.all())
        .filter_map(|(_, key)| Some((key.clone(), view.placement_settles(key)?)))
        .collect();
    // The time of a class is when its Gateways and policies stop waiting for each other.
    settles.extend(view.our_classes().into_keys().filter_map(|class| {
        let wait = view.class_params(&class.name)?.known()?.policy_wait_seconds;
        Some((class.clone(), START.after(Duration::from_secs(wait.into()))))
    }));
    let shape = shape.finish();
    shape.hash(&mut exact);
    settles.hash(&mut exact);
    for source in listing.keys() {
        view.version(source).hash(&mut exact);
    }
    (shape, exact.finish(), settles)
}
