//! Collects the parts of web pages that have changed, until a page takes them.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

use policy_sync_api::names::{ClusterName, GroupResource, ObjectKey};

/// A part of the web pages that changes separately.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Everything: the kinds, missing rights, and whether the hub is reachable.
    Everything,
    /// A policy.
    Policy(GroupResource, ObjectKey),
    /// A cluster, or the state of a policy on it.
    Cluster(ClusterName),
    /// The routes and policies of a Gateway.
    Gateway(ObjectKey),
    /// The set of effective rules.
    InForce,
}

/// The maximum number of separate places. Above it, they are replaced by [`Place::Everything`].
const PLACES: usize = 1_000;

/// Changes that were not taken yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    places: Mutex<BTreeSet<Place>>,
    arrived: Notify,
}

impl Inbox {
    /// Takes all changes; empty if there are none.
    pub(super) fn take(&self) -> BTreeSet<Place> {
        std::mem::take(&mut *self.places.lock())
    }

    /// Waits until a change was put in since the last call.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Returns changes that were taken, without a notification.
    pub(super) fn put_back(&self, places: BTreeSet<Place>) {
        self.places.lock().extend(places);
    }

    /// Adds changes.
    pub(super) fn put(&self, changed: impl IntoIterator<Item = Place>) {
        let mut places = self.places.lock();
        for place in changed {
            // `Everything` includes all other places.
            if place == Place::Everything || places.len() >= PLACES {
                *places = BTreeSet::from([Place::Everything]);
            }
            if places.first() == Some(&Place::Everything) {
                break;
            }
            places.insert(place);
        }
        if !places.is_empty() {
            self.arrived.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policies(count: usize) -> impl Iterator<Item = Place> {
        let kind = GroupResource::new("kuadrant.io", "ratelimitpolicies");
        (0..count).map(move |n| Place::Policy(kind.clone(), ObjectKey::new("shop", &format!("limits-{n}"))))
    }

    #[test]
    fn too_many_places_become_everything() {
        let inbox = Inbox::default();
        inbox.put(policies(PLACES));
        assert_eq!(inbox.take(), policies(PLACES).collect());
        inbox.put(policies(2 * PLACES + 1));
        assert_eq!(inbox.take(), BTreeSet::from([Place::Everything]));
        inbox.put(policies(1));
        inbox.put([Place::Everything]);
        inbox.put(policies(2));
        assert_eq!(inbox.take(), BTreeSet::from([Place::Everything]));
        inbox.put(policies(2));
        assert_eq!(inbox.take(), policies(2).collect());
    }
}
