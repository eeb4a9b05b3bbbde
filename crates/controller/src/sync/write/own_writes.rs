//! Tracks the writes that the mirror does not show yet, so that no key acts on outdated state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use policy_sync_api::names::{ClusterName, GroupResource, Origin};
use policy_sync_hub::reconcile::{Expected, LastWrite};
use policy_sync_sync::diff::WorkAction;
use policy_sync_sync::kinds::{CLASSES, GATEWAYS, WORKS};
use policy_sync_sync::{Key, View, WorkKey};

/// A write of a work that the watch has not delivered yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Written {
    /// The object was created or patched and has this resource version.
    At(u64),
    /// The object of this uid was deleted.
    Deleted(Arc<str>),
}

/// Whether a write creates or deletes a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Passage {
    Comes,
    Goes,
}

impl Passage {
    /// The direction of `action`, `None` for a patch.
    pub(super) fn by(action: &WorkAction) -> Option<Self> {
        match action {
            WorkAction::Create { .. } => Some(Self::Comes),
            WorkAction::Delete { .. } => Some(Self::Goes),
            WorkAction::Update { .. } | WorkAction::Mark { .. } => None,
        }
    }
}

/// The writes of one key that the watch has not delivered yet, and its creates and deletes in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnWrites {
    works: BTreeMap<WorkKey, Written>,
    sending: BTreeMap<WorkKey, Passage>,
    object: LastWrite,
}

impl OwnWrites {
    /// Filters `actions` to those on works for which the mirror shows the key's last write.
    #[must_use]
    pub fn visible(&mut self, view: View<'_>, actions: Vec<WorkAction>) -> Vec<WorkAction> {
        self.works.retain(|(name, cluster), write| match write {
            Written::At(version) => view.version(&WORKS.all()) < *version,
            Written::Deleted(uid) => {
                view.work(name, cluster).is_some_and(|work| work.uid == *uid && work.deleting.is_none())
            }
        });
        let visible = |action: &WorkAction| {
            !self.works.contains_key(&(action.name().clone(), action.cluster().clone()))
        };
        actions.into_iter().filter(visible).collect()
    }

    /// Records creates and deletes about to be sent, until [`OwnWrites::sent`].
    pub fn sends<'a>(&mut self, actions: impl IntoIterator<Item = &'a WorkAction>) {
        let key = |action: &WorkAction| (action.name().clone(), action.cluster().clone());
        let passing = actions.into_iter().filter_map(|action| Some((key(action), Passage::by(action)?)));
        self.sending.extend(passing);
    }

    /// Records that nothing is in flight any more.
    pub fn sent(&mut self) {
        self.sending.clear();
    }

    /// The clusters with a create (or delete) that is in flight or not in the mirror yet.
    fn passing(&self, view: View<'_>, passage: Passage) -> BTreeSet<ClusterName> {
        let sending = self.sending.iter().filter(|(_, found)| **found == passage).map(|(key, _)| key);
        let own = self.works.iter().filter(|((name, cluster), written)| {
            let work = view.work(name, cluster);
            match (written, passage) {
                (Written::At(version), Passage::Comes) => {
                    work.is_none() && view.version(&WORKS.all()) < *version
                }
                (Written::Deleted(uid), Passage::Goes) => {
                    work.is_some_and(|work| work.uid == *uid && work.deleting.is_none())
                }
                _ => false,
            }
        });
        sending.chain(own.map(|(key, _)| key)).map(|(_, cluster)| cluster.clone()).collect()
    }

    /// Records a completed write of a work.
    pub fn wrote(&mut self, work: WorkKey, written: Written) {
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

impl Expected for OwnWrites {
    fn is_met(&self) -> bool {
        self.works.is_empty() && self.sending.is_empty() && self.object.is_met()
    }
}

/// The clusters where the pending writes of the key `other` block a write of `origin`. The create of a Gateway waits for
/// deletes of policies in its namespace, and the delete of a policy waits for creates of Gateways in its namespace.
#[must_use]
pub fn crossed(view: View<'_>, origin: &Origin, other: &Key, own: &OwnWrites) -> BTreeSet<ClusterName> {
    let passage = match (origin, other) {
        (Origin::Gateway(_), Key::Works(Origin::Object(..))) => Passage::Goes,
        (Origin::Object(..), Key::Works(Origin::Gateway(_))) => Passage::Comes,
        _ => return BTreeSet::new(),
    };
    let beside = matches!(other, Key::Works(other) if other.object().namespace == origin.object().namespace);
    if beside { own.passing(view, passage) } else { BTreeSet::new() }
}

/// The highest resource version seen of policies of `kind`. For an unwatched kind the maximum, as no event will follow.
pub(super) fn seen_of(view: View<'_>, kind: &GroupResource) -> u64 {
    let source = view.source_of(kind);
    view.synced(&source).map_or(u64::MAX, |_| view.version(&source))
}

/// Whether `key` wrote annotations of a policy of `kind` that the watch has not delivered yet.
pub(super) fn annotated(view: View<'_>, kind: &GroupResource, key: &Key, own: &OwnWrites) -> bool {
    let of_kind = matches!(key, Key::Fold(origin) if origin.kind() == kind);
    of_kind && !own.object.is_visible_at(view.version(&view.source_of(kind)))
}

impl OwnWrites {
    /// Forgets the writes of `key` that the mirror shows.
    pub(super) fn forget_visible(&mut self, view: View<'_>, key: &Key) {
        let seen = match key {
            Key::Fold(Origin::Gateway(_)) => view.version(&GATEWAYS.all()),
            Key::Fold(Origin::Object(kind, _)) => seen_of(view, kind),
            _ => view.version(&CLASSES.all()),
        };
        let _ = (self.visible(view, Vec::new()), self.is_visible(seen));
    }
}

#[cfg(test)]
mod tests;
