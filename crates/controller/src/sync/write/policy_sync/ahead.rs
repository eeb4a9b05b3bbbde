//! Builds expensive parts of a plan before the plan locks the mirror, so that watches and other plans are not blocked.

use std::time::Duration;

use super::PolicySync;
use policy_sync_api::names::Origin;
use policy_sync_hub::reconcile::Slot;
use policy_sync_sync::desired::ahead;

/// The number of attempts to build the parts if the inputs keep changing.
const MAX_TRIES: usize = 3;
/// The delay before a retry after all attempts failed.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(1);

impl PolicySync {
    /// Builds the expensive parts of a plan of `origin` without holding the mirror, and releases `slot` meanwhile. Returns
    /// whether the plan can be made now.
    pub(super) async fn build_ahead(&self, origin: &Origin, slot: &mut Option<Slot>) -> bool {
        let unmade = || {
            let guard = self.mirror.read();
            ahead::unbuilt_copies(
                guard.view(self.clock.now()).with_shares(&self.shares),
                &self.settings,
                origin,
            )
        };
        for _ in 0..MAX_TRIES {
            if unmade().is_empty() {
                return true;
            }
            drop(slot.take());
            let _turn = self.large_works.turn().await;
            // The previous holder of the turn may have built the same parts.
            if self.large_works.make(unmade()).await.is_err() {
                return true;
            }
        }
        unmade().is_empty()
    }
}
