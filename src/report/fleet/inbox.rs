//! What has changed, until it is told.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

use policy_sync_api::names::{ClusterName, GroupResource, ObjectKey};

/// Something that is shown in a place of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// What is true of all: the kinds, what may not be read, whether the hub answers.
    Everything,
    /// A policy.
    Policy(GroupResource, ObjectKey),
    /// A cluster, or how something is on it.
    Cluster(ClusterName),
    /// What is attached to a Gateway.
    Gateway(ObjectKey),
    /// Which rules are in force.
    InForce,
}

/// The most places that are named one by one: more is everything.
const PLACES: usize = 1_000;

/// What has changed, and was not told yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    places: Mutex<BTreeSet<Place>>,
    arrived: Notify,
}

impl Inbox {
    /// Takes what is in it, which may be nothing.
    pub(super) fn take(&self) -> BTreeSet<Place> {
        std::mem::take(&mut *self.places.lock())
    }

    /// Waits until something was put in since it was last waited for.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Puts something in again that was taken, which nobody is told of.
    pub(super) fn put_back(&self, places: BTreeSet<Place>) {
        self.places.lock().extend(places);
    }

    /// Puts in what has changed.
    pub(super) fn put(&self, changed: impl IntoIterator<Item = Place>) {
        let mut places = self.places.lock();
        for place in changed {
            // Of everything, nothing is named beside it.
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
    fn more_than_can_be_named_is_everything_and_nothing_beside_it() {
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
