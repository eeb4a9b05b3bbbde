//! Records since when the clusters of Gateways' works are no longer chosen, as observed by this process.
//!
//! The start of a grace period is stored on the work, so that it survives restarts. The spoke's agent may also write
//! or remove this annotation at any time. Therefore the earliest moment seen since the cluster left counts, and the
//! moment of leaving is known without the annotation. The record is cleared if the cluster is chosen again or the
//! work is deleted.

use std::collections::HashMap;

use super::key::WorkKey;
use policy_sync_api::moment::Moment;
use policy_sync_api::shrink::give_back;

/// The record of a Gateway's work in a cluster that is not chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnplacedSince {
    /// Since when this process has known that no decision names the cluster.
    pub left: Option<Moment>,
    /// The earliest moment that the work has carried since then. A moment in the future counts as the time at which
    /// it was seen.
    pub began: Option<Moment>,
    /// When the moment on the work was last observed to become the expected one.
    pub put_right: Option<Moment>,
}

/// The records of all such works.
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

    /// Removes the record of a work that was deleted or replaced.
    pub(crate) fn forget(&mut self, key: &WorkKey) {
        self.0.remove(key);
        give_back(&mut self.0);
    }
}

impl UnplacedSince {
    /// Updates whether the decisions name the cluster. A change of this starts a new record.
    pub(crate) fn decided(self, chosen: bool, now: Moment) -> Self {
        match (chosen, self.left) {
            (true, Some(_)) => Self::default(),
            (false, None) => Self { left: Some(now), ..Self::default() },
            _ => self,
        }
    }

    /// Records that the work now carries `moment` instead of another value.
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
