//! Since when the clusters of Gateways' works are not chosen, as this process has seen it.
//!
//! When a grace began stands on the work, for a restart to know. But the spoke's agent may write there, and take it away,
//! as often as it likes. So the earliest moment that was seen since the cluster left counts, and it is known without the
//! annotation when the cluster left. All of it is forgotten where the cluster is chosen again, or the work is gone.

use std::collections::HashMap;

use super::key::WorkKey;
use policy_sync_api::moment::Moment;
use policy_sync_api::shrink::give_back;

/// What is known of a Gateway's work in a cluster that is not chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnplacedSince {
    /// Since when this process has known that no decision names the cluster.
    pub left: Option<Moment>,
    /// The earliest moment that the work has had since then, none of them later than when it was seen.
    pub began: Option<Moment>,
    /// When the moment on the work was last seen to become what it should be.
    pub put_right: Option<Moment>,
}

/// What is known of such works.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnplacedWorks(HashMap<WorkKey, UnplacedSince>);

impl UnplacedWorks {
    pub(crate) fn get(&self, key: &WorkKey) -> UnplacedSince {
        self.0.get(key).copied().unwrap_or_default()
    }

    pub(crate) fn set(&mut self, key: &WorkKey, displacement: UnplacedSince) {
        if displacement == UnplacedSince::default() {
            self.0.remove(key);
        } else {
            self.0.insert(key.clone(), displacement);
        }
    }

    /// The work is gone, or is another one now.
    pub(crate) fn forget(&mut self, key: &WorkKey) {
        self.0.remove(key);
        give_back(&mut self.0);
    }
}

impl UnplacedSince {
    /// Whether the decisions name the cluster is known anew: one that comes or goes begins anew.
    pub(crate) fn decided(self, chosen: bool, now: Moment) -> Self {
        match (chosen, self.left) {
            (true, Some(_)) => Self::default(),
            (false, None) => Self { left: Some(now), ..Self::default() },
            _ => self,
        }
    }

    /// The work has `moment` now, which it had not before.
    pub(crate) fn written(mut self, moment: Option<Moment>, now: Moment) -> Self {
        let moment = moment.map(|moment| moment.min(now));
        let right = if self.left.is_some() {
            self.began = Moment::earliest(self.began, moment);
            moment.is_some() && moment == self.began
        } else {
            moment.is_none()
        };
        Self { put_right: if right { Some(now) } else { self.put_right }, ..self }
    }
}
