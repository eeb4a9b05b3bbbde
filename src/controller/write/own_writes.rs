//! What was written and is not in the mirror yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use policy_sync_api::names::{ClusterName, GroupResource, Origin};
use policy_sync_hub::reconcile::{Expected, LastWrite};
use policy_sync_sync::diff::WorkAction;
use policy_sync_sync::kinds::{CLASSES, GATEWAYS, WORKS};
use policy_sync_sync::{Key, View, WorkKey};

/// A write of a work that the watch has not brought yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Written {
    /// The object is now at this resource version.
    At(u64),
    /// The object of this uid was asked to go.
    Deleted(Arc<str>),
}

/// Whether a work is made or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Passage {
    Comes,
    Goes,
}

impl Passage {
    /// Which way `action` goes, where it goes any.
    pub(super) fn by(action: &WorkAction) -> Option<Self> {
        match action {
            WorkAction::Create { .. } => Some(Self::Comes),
            WorkAction::Delete { .. } => Some(Self::Goes),
            WorkAction::Update { .. } | WorkAction::Mark { .. } => None,
        }
    }
}

/// The writes of one key that the watch has not brought yet, and those that are under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnWrites {
    works: BTreeMap<WorkKey, Written>,
    sending: BTreeMap<WorkKey, Passage>,
    object: LastWrite,
}

impl OwnWrites {
    /// Those of `actions` whose work the mirror shows as the key's last write left it.
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

    /// Notes what is about to be sent, until [`OwnWrites::sent`].
    pub fn sends<'a>(&mut self, actions: impl IntoIterator<Item = &'a WorkAction>) {
        let key = |action: &WorkAction| (action.name().clone(), action.cluster().clone());
        let passing = actions.into_iter().filter_map(|action| Some((key(action), Passage::by(action)?)));
        self.sending.extend(passing);
    }

    /// Notes that nothing is under way any more.
    pub fn sent(&mut self) {
        self.sending.clear();
    }

    /// The clusters where a work is being made, or deleted, that the mirror does not show as made, or deleted.
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

    /// Notes a write of a work.
    pub fn wrote(&mut self, work: WorkKey, written: Written) {
        self.works.insert(work, written);
    }

    /// Whether the mirror, which has seen `version`, shows the key's own object as our last write left it.
    #[must_use]
    pub fn is_visible(&mut self, version: u64) -> bool {
        self.object.is_visible(version)
    }

    /// Notes a write of the key's own object, which is now at `version`.
    pub fn wrote_object(&mut self, version: u64) {
        self.object.wrote(version);
    }
}

impl Expected for OwnWrites {
    fn is_met(&self) -> bool {
        self.works.is_empty() && self.sending.is_empty() && self.object.is_met()
    }
}

/// The clusters where `origin` may not come or go for now, because what must be there with it is just passing the other
/// way, by what the key `other` has written: for a Gateway, those where a policy of its namespace is being deleted; for a
/// policy, those where a Gateway is being made.
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

/// The highest version that was seen of policies of `kind`. What is no longer watched brings nothing to wait for.
pub(super) fn seen_of(view: View<'_>, kind: &GroupResource) -> u64 {
    let source = view.source_of(kind);
    view.synced(&source).map_or(u64::MAX, |_| view.version(&source))
}

/// Whether annotations of a policy of `kind` were written that the watch has not brought yet, by what `key` has written.
pub(super) fn annotated(view: View<'_>, kind: &GroupResource, key: &Key, own: &OwnWrites) -> bool {
    let of_kind = matches!(key, Key::Fold(origin) if origin.kind() == kind);
    of_kind && !own.object.is_visible_at(view.version(&view.source_of(kind)))
}

impl OwnWrites {
    /// Forgets what the mirror shows of the writes of `key`.
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
