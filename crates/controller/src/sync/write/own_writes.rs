//! Tracks writes that the mirror does not show yet, so that no key acts on outdated state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use policy_sync_api::names::{ClusterName, GroupResource, Origin};
use policy_sync_hub::reconcile::{Expectation, LastWrite};
use policy_sync_sync::diff::WorkAction;
use policy_sync_sync::kinds::{CLASSES, GATEWAYS, WORKS};
use policy_sync_sync::{Key, View, WorkKey};

/// A write of a work that the watch has not delivered yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UndeliveredWrite {
    /// The work was created or patched, and now has this resource version.
    At(u64),
    /// The work with this uid was deleted.
    Deleted(Arc<str>),
}

/// Whether a write creates or deletes a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Transition {
    Creating,
    Deleting,
}

impl Transition {
    /// The transition that `action` causes; `None` for a patch.
    pub(super) fn by(action: &WorkAction) -> Option<Self> {
        match action {
            WorkAction::Create { .. } => Some(Self::Creating),
            WorkAction::Delete { .. } => Some(Self::Deleting),
            WorkAction::Update { .. } | WorkAction::Mark { .. } => None,
        }
    }
}

/// The writes of one key that the watch has not delivered yet, and the creates and deletes of that key in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnWrites {
    works: BTreeMap<WorkKey, UndeliveredWrite>,
    in_flight: BTreeMap<WorkKey, Transition>,
    object: LastWrite,
}

impl OwnWrites {
    /// Omits each of `actions` if the mirror does not yet show the key's last write of the action's work.
    #[must_use]
    pub fn visible(&mut self, view: View<'_>, actions: Vec<WorkAction>) -> Vec<WorkAction> {
        self.works.retain(|(name, cluster), write| match write {
            UndeliveredWrite::At(version) => view.version(&WORKS.all()) < *version,
            UndeliveredWrite::Deleted(uid) => {
                view.work(name, cluster).is_some_and(|work| work.uid == *uid && work.deleting.is_none())
            }
        });
        let visible = |action: &WorkAction| {
            !self.works.contains_key(&(action.name().clone(), action.cluster().clone()))
        };
        actions.into_iter().filter(visible).collect()
    }

    /// Records creates and deletes that are about to be sent. They stay recorded until [`OwnWrites::clear_in_flight`].
    pub fn record_in_flight<'a>(&mut self, actions: impl IntoIterator<Item = &'a WorkAction>) {
        let key = |action: &WorkAction| (action.name().clone(), action.cluster().clone());
        let in_transition =
            actions.into_iter().filter_map(|action| Some((key(action), Transition::by(action)?)));
        self.in_flight.extend(in_transition);
    }

    /// Records that no create or delete is in flight any more.
    pub fn clear_in_flight(&mut self) {
        self.in_flight.clear();
    }

    /// The clusters with a `transition` that is in flight or not in the mirror yet.
    fn in_transition(&self, view: View<'_>, transition: Transition) -> BTreeSet<ClusterName> {
        let in_flight = self.in_flight.iter().filter(|(_, found)| **found == transition).map(|(key, _)| key);
        let own = self.works.iter().filter(|((name, cluster), written)| {
            let work = view.work(name, cluster);
            match (written, transition) {
                (UndeliveredWrite::At(version), Transition::Creating) => {
                    work.is_none() && view.version(&WORKS.all()) < *version
                }
                (UndeliveredWrite::Deleted(uid), Transition::Deleting) => {
                    work.is_some_and(|work| work.uid == *uid && work.deleting.is_none())
                }
                _ => false,
            }
        });
        in_flight.chain(own.map(|(key, _)| key)).map(|(_, cluster)| cluster.clone()).collect()
    }

    /// Records a completed write of a work.
    pub fn wrote(&mut self, work: WorkKey, written: UndeliveredWrite) {
        self.works.insert(work, written);
    }

    /// Whether the mirror, at resource version `version`, shows the last write to the key's own object.
    #[must_use]
    pub fn is_visible(&mut self, version: u64) -> bool {
        self.object.is_visible(version)
    }

    /// Records a write of the key's own object, now at resource version `version`.
    pub fn wrote_object(&mut self, version: u64) {
        self.object.wrote(version);
    }
}

impl Expectation for OwnWrites {
    fn is_met(&self) -> bool {
        self.works.is_empty() && self.in_flight.is_empty() && self.object.is_met()
    }
}

/// The clusters on which pending writes of the key `other` block a write of `origin`. The create of a Gateway's work
/// waits for deletes of policies' works in the same namespace. The delete of a policy's work waits for creates of
/// Gateways' works in the same namespace.
#[must_use]
pub fn conflicting_clusters(
    view: View<'_>,
    origin: &Origin,
    other: &Key,
    own: &OwnWrites,
) -> BTreeSet<ClusterName> {
    let transition = match (origin, other) {
        (Origin::Gateway(_), Key::Works(Origin::Object(..))) => Transition::Deleting,
        (Origin::Object(..), Key::Works(Origin::Gateway(_))) => Transition::Creating,
        _ => return BTreeSet::new(),
    };
    let beside = matches!(other, Key::Works(other) if other.object().namespace == origin.object().namespace);
    if beside { own.in_transition(view, transition) } else { BTreeSet::new() }
}

/// The highest resource version that the watch of policies of `kind` has delivered. For a kind that is not watched, the
/// maximum, because no watch event will follow.
pub(super) fn observed_version(view: View<'_>, kind: &GroupResource) -> u64 {
    let source = view.source_of(kind);
    view.synced(&source).map_or(u64::MAX, |_| view.version(&source))
}

/// Whether `key` wrote annotations of a policy of `kind`, and the watch has not delivered this write yet.
pub(super) fn annotated(view: View<'_>, kind: &GroupResource, key: &Key, own: &OwnWrites) -> bool {
    let of_kind = matches!(key, Key::Fold(origin) if origin.kind() == kind);
    of_kind && !own.object.is_visible_at(view.version(&view.source_of(kind)))
}

impl OwnWrites {
    /// Forgets the writes of `key` that the mirror shows.
    pub(super) fn forget_visible(&mut self, view: View<'_>, key: &Key) {
        let seen = match key {
            Key::Fold(Origin::Gateway(_)) => view.version(&GATEWAYS.all()),
            Key::Fold(Origin::Object(kind, _)) => observed_version(view, kind),
            _ => view.version(&CLASSES.all()),
        };
        let _ = (self.visible(view, Vec::new()), self.is_visible(seen));
    }
}

#[cfg(test)]
mod tests;
