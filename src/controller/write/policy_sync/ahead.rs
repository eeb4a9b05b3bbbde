//! What a plan takes long for is made before the mirror is looked at for it: watches write there, and other plans look.

use std::time::Duration;

use super::PolicySync;
use policy_sync_api::names::Origin;
use policy_sync_hub::reconcile::Slot;
use policy_sync_sync::desired::ahead;

/// How often what a plan needs is made ahead of it, where it is another every time.
const TRIES: usize = 3;
/// When to plan again what has changed every time.
pub(super) const CHANGES: Duration = Duration::from_secs(1);

impl PolicySync {
    /// Makes what a plan of `origin` takes long for before the mirror is looked at for that, and leaves its slot to others
    /// meanwhile. Returns whether the plan can be made now.
    pub(super) async fn made_ahead(&self, origin: &Origin, slot: &mut Option<Slot>) -> bool {
        let unmade = || {
            let guard = self.mirror.read();
            ahead::unmade(guard.view(self.clock.now()).sharing(&self.shares), &self.settings, origin)
        };
        for _ in 0..TRIES {
            if unmade().is_empty() {
                return true;
            }
            drop(slot.take());
            let _turn = self.bodies.turn().await;
            // Whoever had it before may have made the same.
            if self.bodies.make(unmade()).await.is_err() {
                return true;
            }
        }
        unmade().is_empty()
    }
}
