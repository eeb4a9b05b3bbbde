//! From what it is known how an object is on clusters: from its works, or from what annotations of a policy say of them.

use serde_json::Value;

use super::Explainer;
use crate::api::annotations::{POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, Synced};
use crate::api::names::ClusterName;
use crate::sync::rows::Strings;

/// From what it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// From works.
    Works,
    /// From annotations.
    Annotations {
        /// Whether they name all clusters, and say of each how it fares.
        all: bool,
    },
}

/// What the annotations of a policy say of clusters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// What each says.
    pub(super) entries: Vec<Synced>,
    /// Whether these are all of them.
    pub(super) all: bool,
}

impl Said {
    /// What `annotations` say. An entry that cannot be read says nothing.
    #[must_use]
    pub fn read(annotations: &Strings) -> Self {
        let entries: Vec<Value> = annotations
            .get(POLICIES_SYNCED)
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let detail = annotations.get(POLICIES_SYNCED_DETAIL).map(String::as_str);
        match detail {
            // Of each cluster only its name.
            None | Some("keys") => Self::default(),
            Some(detail) => {
                let found = entries.len();
                let entries: Vec<Synced> =
                    entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect();
                Self { all: matches!(detail, "full" | "minimal") && entries.len() == found, entries }
            }
        }
    }
}

impl Explainer<'_> {
    /// Whether there is a work for it on `cluster`.
    pub(super) fn has_work(&self, cluster: &ClusterName) -> bool {
        match self.heard {
            Heard::Works => self.works.contains_key(cluster),
            Heard::Annotations { .. } => self.entries.contains_key(cluster),
        }
    }

    /// Whether a copy of it is on `cluster`, as far as anybody says so.
    pub(super) fn has_copy(&self, cluster: &ClusterName) -> bool {
        match self.heard {
            Heard::Works => self.works.get(cluster).is_some_and(|work| {
                work.deleting.is_some() || work.answer.as_ref().is_some_and(|answer| answer.applied)
            }),
            // Where nothing is to be, an entry says that a work is still there.
            Heard::Annotations { .. } => self.entries.get(cluster).is_some_and(|entry| {
                entry.applied || entry.deleting || !self.plan.outcomes.contains_key(cluster)
            }),
        }
    }
}
