//! What the annotations of a policy say. They are the controller's output, but a user may edit them: what cannot be
//! read is a fault to show, never one of this program.

mod cluster;
mod detail;

use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::annotations::{
    CLUSTER_OVERRIDES, POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, POLICIES_SYNCED_SUMMARY, POLICY_SYNC_MESSAGE,
    Summary, Synced, SyncedCondition,
};
use crate::api::object::Metadata;
use crate::cli::kinds::PolicyKind;
use crate::plan::overrides::Overrides;
pub(super) use cluster::OnCluster;
pub(super) use detail::Detail;

/// What an annotation says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reading<T> {
    /// It is not there.
    Missing,
    /// It is not what the controller writes.
    Unreadable,
    /// This.
    Said(T),
}

impl<T> Reading<T> {
    pub(super) fn said(&self) -> Option<&T> {
        match self {
            Self::Said(value) => Some(value),
            Self::Missing | Self::Unreadable => None,
        }
    }
}

/// What a policy's annotations say.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) namespace: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) created: Option<Timestamp>,
    pub(super) summary: Reading<Summary>,
    pub(super) clusters: Reading<Vec<Synced>>,
    pub(super) detail: Detail,
    /// What its owner should know.
    pub(super) message: Option<String>,
    /// What cannot be read, and why.
    pub(super) faults: Vec<String>,
    /// How its spec differs from cluster to cluster, where it does: `None` where that cannot be read.
    pub(super) overrides: Option<Option<Overrides>>,
    /// `<resource>.<group>`.
    pub(super) resource: String,
    detail_text: Option<String>,
    raw_clusters: Value,
}

impl Report {
    /// Reads the annotations of a policy of `kind`.
    pub(super) fn new(kind: &PolicyKind, metadata: &Metadata) -> Self {
        let text = |key: &str| metadata.annotations.get(key).cloned();
        let mut faults = Vec::new();
        let summary: Reading<Summary> = read(metadata, POLICIES_SYNCED_SUMMARY, &mut faults);
        let clusters: Reading<Vec<Synced>> = read(metadata, POLICIES_SYNCED, &mut faults);
        if summary == Reading::Missing && clusters != Reading::Missing {
            faults.push(format!("annotation {POLICIES_SYNCED_SUMMARY} is missing"));
        }
        if clusters == Reading::Missing && summary != Reading::Missing {
            faults.push(format!("annotation {POLICIES_SYNCED} is missing"));
        }
        let detail_text = text(POLICIES_SYNCED_DETAIL);
        let detail = Detail::read(detail_text.as_deref());
        if let (Detail::Other, Some(text)) = (detail, &detail_text) {
            faults.push(format!("annotation {POLICIES_SYNCED_DETAIL}: {text:?} is no level of detail"));
        }
        if let (Reading::Said(clusters), Reading::Said(summary)) = (&clusters, &summary)
            && detail.names(summary.clusters) != Some(clusters.len())
            && detail != Detail::Other
        {
            faults.push(format!(
                "annotation {POLICIES_SYNCED} names {} clusters, which is not what the summary and the detail say",
                clusters.len()
            ));
        }
        let raw_clusters = match &clusters {
            Reading::Said(_) => text(POLICIES_SYNCED).and_then(|text| serde_json::from_str(&text).ok()),
            Reading::Missing | Reading::Unreadable => None,
        };
        Self {
            namespace: metadata.namespace.clone(),
            kind: kind.kind.clone(),
            name: metadata.name.clone(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            summary,
            clusters,
            detail,
            message: text(POLICY_SYNC_MESSAGE),
            faults,
            overrides: text(CLUSTER_OVERRIDES).map(|text| Overrides::parse(&text).ok()),
            resource: kind.gvr.kind.to_string(),
            detail_text,
            raw_clusters: raw_clusters.unwrap_or_default(),
        }
    }

    /// Whether every placed cluster holds the policy as it is, and nothing keeps it from being planned.
    pub(super) fn in_sync(&self) -> bool {
        let synced = self.summary.said().is_none_or(|summary| summary.synced);
        synced && self.message.is_none() && self.faults.is_empty()
    }

    /// The clusters where a policy of their own wins; `None` where the list does not say.
    pub(super) fn overridden(&self) -> Option<Vec<&str>> {
        if !self.detail.shows_states() {
            return None;
        }
        let overridden = |entry: &&Synced| entry.conditions.iter().any(SyncedCondition::is_overridden);
        let clusters = self.clusters.said()?;
        Some(clusters.iter().filter(overridden).map(|entry| &*entry.cluster.0).collect())
    }

    /// What there is to know: the policy's message, or that of the first cluster that does not hold it.
    pub(super) fn first_message(&self) -> Option<String> {
        let clusters = self.clusters.said().filter(|_| self.detail.shows_states());
        let failing = || {
            clusters.into_iter().flatten().filter(|entry| !entry.applied).find_map(|entry| {
                entry.message.as_ref().map(|message| format!("{}: {message}", entry.cluster))
            })
        };
        self.message.clone().or_else(failing)
    }

    /// The report for programs. Clusters are as the annotation has them: what it leaves out is not made up.
    pub(super) fn json(&self) -> Value {
        json!({
            "namespace": self.namespace,
            "kind": self.kind,
            "resource": self.resource,
            "name": self.name,
            "created": self.created.map(|created| created.to_string()),
            "inSync": self.in_sync(),
            "summary": self.summary.said(),
            "detail": self.detail_text,
            "message": self.message,
            "clusters": self.raw_clusters,
            "faults": self.faults,
        })
    }
}

fn read<T: DeserializeOwned>(metadata: &Metadata, key: &str, faults: &mut Vec<String>) -> Reading<T> {
    let Some(text) = metadata.annotations.get(key) else { return Reading::Missing };
    match serde_json::from_str(text) {
        Ok(value) => Reading::Said(value),
        Err(error) => {
            faults.push(format!("annotation {key}: {error}"));
            Reading::Unreadable
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
