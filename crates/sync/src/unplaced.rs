//! Records since when the clusters of Gateways' works are no longer selected, as this process has observed it.
//!
//! The start of a grace period is stored in an annotation of the work, so that it survives restarts. The spoke's agent
//! can change or remove this annotation at any time. Therefore a record keeps the earliest start that the annotation
//! has contained since the cluster left the Placement. It also keeps the time at which this process saw the cluster
//! leave. The record is cleared if the cluster is selected again or the work is deleted.

use std::collections::HashMap;

use super::key::WorkKey;
use policy_sync_api::moment::Moment;
use policy_sync_api::shrink::shrink_if_sparse;

/// The record of a Gateway's work in a cluster that is not selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnplacedRecord {
    /// Since when this process has known that the cluster is not selected.
    pub since: Option<Moment>,
    /// The earliest moment that the annotation of the work has contained while the cluster was not selected. A moment
    /// in the future counts as the time at which it was read.
    pub earliest_mark: Option<Moment>,
    /// When the annotation of the work was last observed to change to the correct value.
    pub corrected: Option<Moment>,
}

/// The records of all works of Gateways in clusters that are not selected.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnplacedWorks(HashMap<WorkKey, UnplacedRecord>);

impl UnplacedWorks {
    pub(crate) fn get(&self, key: &WorkKey) -> UnplacedRecord {
        self.0.get(key).copied().unwrap_or_default()
    }

    pub(crate) fn set(&mut self, key: &WorkKey, record: UnplacedRecord) {
        if record == UnplacedRecord::default() {
            self.0.remove(key);
        } else {
            self.0.insert(key.clone(), record);
        }
    }

    /// Removes the record of a work that was deleted or replaced.
    pub(crate) fn forget(&mut self, key: &WorkKey) {
        self.0.remove(key);
        shrink_if_sparse(&mut self.0);
    }
}

impl UnplacedRecord {
    /// Updates whether the cluster is selected. If this changes, a new record starts.
    pub(crate) fn decided(self, is_selected: bool, now: Moment) -> Self {
        match (is_selected, self.since) {
            (true, Some(_)) => Self::default(),
            (false, None) => Self { since: Some(now), ..Self::default() },
            _ => self,
        }
    }

    /// Records that the annotation of the work has changed to `moment`.
    pub(crate) fn written(mut self, moment: Option<Moment>, now: Moment) -> Self {
        let moment = moment.map(|moment| moment.min(now));
        let right = if self.since.is_some() {
            self.earliest_mark = Moment::earliest(self.earliest_mark, moment);
            moment.is_some() && moment == self.earliest_mark
        } else {
            moment.is_none()
        };
        Self { corrected: if right { Some(now) } else { self.corrected }, ..self }
    }
}
