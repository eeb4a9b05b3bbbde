//! Collects the parts of web pages that have changed, until a page takes them.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

use policy_sync_api::names::{ClusterName, GroupResource, ObjectKey};

/// A part of the web pages that changes separately.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangedPart {
    /// All parts of all pages. For example, the kinds, the missing rights, or whether the hub is reachable have changed.
    Everything,
    /// A policy.
    Policy(GroupResource, ObjectKey),
    /// A cluster, or the state of a policy on it.
    Cluster(ClusterName),
    /// The routes and policies of a Gateway.
    Gateway(ObjectKey),
    /// The set of effective rules.
    EffectivePolicies,
}

/// The maximum number of separate parts. If there are more, [`ChangedPart::Everything`] replaces them.
const PARTS_LIMIT: usize = 1_000;

/// Changes that were not taken yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    changed_parts: Mutex<BTreeSet<ChangedPart>>,
    arrived: Notify,
}

impl Inbox {
    /// Takes all changes; empty if there are none.
    pub(super) fn take(&self) -> BTreeSet<ChangedPart> {
        std::mem::take(&mut *self.changed_parts.lock())
    }

    /// Waits until changes were added since the last call.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Returns taken changes to the inbox, without a notification.
    pub(super) fn put_back(&self, changed_parts: BTreeSet<ChangedPart>) {
        self.changed_parts.lock().extend(changed_parts);
    }

    /// Adds changes.
    pub(super) fn put(&self, changed: impl IntoIterator<Item = ChangedPart>) {
        let mut changed_parts = self.changed_parts.lock();
        for part in changed {
            // `Everything` includes all other parts.
            if part == ChangedPart::Everything || changed_parts.len() >= PARTS_LIMIT {
                *changed_parts = BTreeSet::from([ChangedPart::Everything]);
            }
            if changed_parts.first() == Some(&ChangedPart::Everything) {
                break;
            }
            changed_parts.insert(part);
        }
        if !changed_parts.is_empty() {
            self.arrived.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policies(count: usize) -> impl Iterator<Item = ChangedPart> {
        let kind = GroupResource::new("kuadrant.io", "ratelimitpolicies");
        (0..count)
            .map(move |n| ChangedPart::Policy(kind.clone(), ObjectKey::new("shop", &format!("limits-{n}"))))
    }

    #[test]
    fn too_many_places_become_everything() {
        let inbox = Inbox::default();
        inbox.put(policies(PARTS_LIMIT));
        assert_eq!(inbox.take(), policies(PARTS_LIMIT).collect());
        inbox.put(policies(2 * PARTS_LIMIT + 1));
        assert_eq!(inbox.take(), BTreeSet::from([ChangedPart::Everything]));
        inbox.put(policies(1));
        inbox.put([ChangedPart::Everything]);
        inbox.put(policies(2));
        assert_eq!(inbox.take(), BTreeSet::from([ChangedPart::Everything]));
        inbox.put(policies(2));
        assert_eq!(inbox.take(), policies(2).collect());
    }
}
