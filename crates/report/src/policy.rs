//! Reads the state of a policy from its annotations. The controller writes these annotations, but users may edit them.
//! So an annotation that cannot be parsed becomes a fault in the report, not an error of this program.

mod cluster;
mod detail;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::fleet::Cell;
use super::served::ServedKind;
pub use cluster::PolicyOnCluster;
pub use detail::Detail;
use policy_sync_api::annotations::{
    CLUSTER_OVERRIDES, ENFORCED, POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, POLICIES_SYNCED_SUMMARY,
    POLICY_SYNC_MESSAGE, Summary, Synced, SyncedCondition,
};
use policy_sync_api::names::{ClusterName, ControllerName, GroupResource, ObjectKey, Origin};
use policy_sync_api::object::HubObject;
use policy_sync_api::params::Role;
use policy_sync_api::policy_state::PolicyState;
use policy_sync_mirror::{ObjectRow, Row};
use policy_sync_sync::desired::overrides::Overrides;
use policy_sync_sync::rows::Strings;

/// The value of an annotation.
#[derive(Clone, Debug, PartialEq)]
pub enum AnnotationValue<T> {
    /// The annotation is absent.
    Missing,
    /// The value cannot be parsed, so the controller did not write it.
    Invalid,
    /// The parsed value.
    Value(T),
}

impl<T> AnnotationValue<T> {
    /// The value, if the annotation is present and can be parsed.
    #[must_use]
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Missing | Self::Invalid => None,
        }
    }
}

/// The part of a policy that the mirror stores: the annotations that reports show.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyRow {
    created: Option<Timestamp>,
    /// When the controller last changed the annotations of the policy.
    annotated_at: Option<Timestamp>,
    annotations: Strings,
}

/// The annotations that reports show.
const SHOWN: [&str; 5] = [
    POLICIES_SYNCED_SUMMARY,
    POLICIES_SYNCED,
    POLICIES_SYNCED_DETAIL,
    POLICY_SYNC_MESSAGE,
    CLUSTER_OVERRIDES,
];

impl PolicyRow {
    /// Whether the controller has written annotations on the policy.
    pub(super) fn is_annotated(&self) -> bool {
        is_annotated(&self.annotations)
    }
}

/// Whether `annotations` contains an annotation that the controller writes.
pub(super) fn is_annotated(annotations: &Strings) -> bool {
    [POLICIES_SYNCED, POLICIES_SYNCED_SUMMARY, POLICY_SYNC_MESSAGE]
        .iter()
        .any(|key| annotations.contains_key(*key))
}

impl Row for PolicyRow {}

impl ObjectRow for PolicyRow {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        let metadata = &object.metadata;
        let manager = controller.hub_field_manager();
        let annotated_at = metadata.managed_fields.iter().find(|entry| entry.manager == manager);
        let shown = |key: &str| Some((key.to_owned(), metadata.annotations.get(key)?.clone()));
        Self {
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            annotated_at: annotated_at.and_then(|entry| entry.time.as_ref()).map(|time| time.0),
            annotations: SHOWN.into_iter().filter_map(shown).collect(),
        }
    }
}

/// A policy or a resource with the state in its annotations.
#[derive(Clone, Debug)]
pub struct PolicyReport {
    /// The hub object.
    pub origin: Origin,
    /// The object's `kind`.
    pub kind: String,
    /// Whether parameters list the kind as policies or as resources.
    pub role: Role,
    /// The creation time; `None` if the object has none, as in a file.
    pub created: Option<Timestamp>,
    /// When the controller last changed the annotations of the policy.
    pub annotated_at: Option<Timestamp>,
    /// The counts over all clusters of the policy.
    pub summary: AnnotationValue<Summary>,
    /// The state on each cluster.
    pub clusters: AnnotationValue<Vec<Synced>>,
    /// The fields that the list `clusters` has for each cluster, and whether the list names all clusters.
    pub detail: Detail,
    /// The controller's message for the policy's owner.
    pub message: Option<String>,
    /// Annotations that cannot be parsed, are missing or contradict each other, one line each.
    pub faults: Vec<String>,
    /// The overrides for clusters with certain labels.
    pub overrides: AnnotationValue<Overrides>,
    /// The unavailable clusters. Set by the caller, because annotations do not contain them.
    pub unavailable: Arc<BTreeSet<ClusterName>>,
    /// The state of all entries that the list shows without a state, derived from the summary. `None` if the states of
    /// these entries may differ.
    omitted_state: Option<PolicyState>,
    detail_text: Option<String>,
    /// The text of the list of clusters, as the annotation contains it; `None` if the list cannot be parsed.
    clusters_text: Option<String>,
}

impl PolicyReport {
    /// Reads the stored row of the policy `key` of `kind`.
    #[must_use]
    pub fn new(kind: &ServedKind, key: ObjectKey, row: &PolicyRow) -> Self {
        let report = Self {
            created: row.created,
            annotated_at: row.annotated_at,
            ..Self::from_annotations(key, &row.annotations)
        };
        let origin = Origin::new(kind.gvr.kind.clone(), report.origin.object().clone());
        Self { origin, kind: kind.kind.clone(), role: kind.role, ..report }
    }

    /// Parses `annotations`. The caller fills in kind, role and times.
    pub(super) fn from_annotations(key: ObjectKey, annotations: &Strings) -> Self {
        let text = |key: &str| annotations.get(key).cloned();
        let mut faults = Vec::new();
        let summary: AnnotationValue<Summary> = read(annotations, POLICIES_SYNCED_SUMMARY, &mut faults);
        let clusters: AnnotationValue<Vec<Synced>> = read(annotations, POLICIES_SYNCED, &mut faults);
        if summary == AnnotationValue::Missing && clusters != AnnotationValue::Missing {
            faults.push(format!("annotation {POLICIES_SYNCED_SUMMARY} is missing"));
        }
        if clusters == AnnotationValue::Missing && summary != AnnotationValue::Missing {
            faults.push(format!("annotation {POLICIES_SYNCED} is missing"));
        }
        let detail_text = text(POLICIES_SYNCED_DETAIL);
        let detail = Detail::read(detail_text.as_deref());
        if let (Detail::Other, Some(text)) = (detail, &detail_text) {
            faults.push(format!("annotation {POLICIES_SYNCED_DETAIL}: {text:?} is not a level of detail"));
        }
        if let (AnnotationValue::Value(clusters), AnnotationValue::Value(summary)) = (&clusters, &summary)
            && detail.names(summary.clusters) != Some(clusters.len())
            && detail != Detail::Other
        {
            faults.push(format!(
                "annotation {POLICIES_SYNCED} lists {} clusters, which contradicts the summary and the \
                 detail",
                clusters.len()
            ));
        }
        let omitted_state = summary.value().zip(clusters.value());
        let omitted_state =
            omitted_state.and_then(|(summary, clusters)| omitted_state_of(detail, summary, clusters));
        let clusters_text = clusters.value().and_then(|_| text(POLICIES_SYNCED));
        Self {
            origin: Origin::new(GroupResource::new("", ""), key),
            kind: String::new(),
            role: Role::Policy,
            created: None,
            annotated_at: None,
            summary,
            clusters,
            detail,
            message: text(POLICY_SYNC_MESSAGE),
            faults,
            overrides: overrides(annotations.get(CLUSTER_OVERRIDES)),
            unavailable: Arc::default(),
            omitted_state,
            detail_text,
            clusters_text,
        }
    }

    /// Whether all placed clusters have the current revision, and the policy has neither a message nor a fault.
    #[must_use]
    pub fn in_sync(&self) -> bool {
        let synced = self.summary.value().is_none_or(|summary| summary.synced);
        synced && self.message.is_none() && self.faults.is_empty()
    }

    /// Whether the controller has written annotations on the policy.
    #[must_use]
    pub fn is_annotated(&self) -> bool {
        self.summary != AnnotationValue::Missing
            || self.clusters != AnnotationValue::Missing
            || self.message.is_some()
    }

    /// The state on the cluster of `entry`; `None` if the annotations do not show it.
    #[must_use]
    pub fn state_of(&self, entry: &Synced) -> Option<PolicyState> {
        let written = self.written_state(entry);
        if self.unavailable.contains(&entry.cluster) {
            return Some(written.map_or(PolicyState::Unreachable, PolicyState::on_unavailable_cluster));
        }
        written
    }

    /// The state in the annotations, regardless of whether the cluster is available.
    fn written_state(&self, entry: &Synced) -> Option<PolicyState> {
        if !self.detail.shows_states() {
            return self.omitted_state;
        }
        match PolicyState::of_kind(self.role, entry) {
            PolicyState::Unknown if self.detail == Detail::Minimal && entry.conditions.is_empty() => {
                self.omitted_state
            }
            state => Some(state),
        }
    }

    /// The state on each cluster of the list, by its name; `None` if the annotations do not show it.
    #[must_use]
    pub fn states(&self) -> BTreeMap<&str, Option<PolicyState>> {
        let clusters = self.clusters.value().into_iter().flatten();
        clusters.map(|entry| (&*entry.cluster.0, self.state_of(entry))).collect()
    }

    /// The worst state on the clusters of the policy; `None` if it has no clusters, or if the annotations do not show
    /// states.
    #[must_use]
    pub fn worst(&self) -> Option<PolicyState> {
        let states: Vec<Option<PolicyState>> = self.states().into_values().collect();
        if !states.contains(&None) {
            return states.into_iter().flatten().min();
        }
        let counted = self.summary.value().and_then(Summary::worst);
        states.into_iter().flatten().chain(counted).min()
    }

    /// The clusters on which another policy overrides this policy; `None` if the list does not show states.
    #[must_use]
    pub fn overridden(&self) -> Option<Vec<&str>> {
        if !self.detail.shows_states() {
            return None;
        }
        let overridden = |entry: &&Synced| entry.conditions.iter().any(SyncedCondition::is_overridden);
        let clusters = self.clusters.value()?;
        Some(clusters.iter().filter(overridden).map(|entry| &*entry.cluster.0).collect())
    }

    /// The clusters that should have the current revision but lack it; `None` if the list of clusters shows no states.
    #[must_use]
    pub fn missing(&self) -> Option<Vec<&str>> {
        match (&self.summary, &self.clusters) {
            (AnnotationValue::Missing, AnnotationValue::Missing) => Some(Vec::new()),
            (AnnotationValue::Value(summary), _) if summary.synced => Some(Vec::new()),
            (_, AnnotationValue::Value(clusters)) if self.detail.shows_states() => {
                let lacking = clusters.iter().filter(|entry| !entry.applied && !entry.is_being_removed());
                Some(lacking.map(|entry| &*entry.cluster.0).collect())
            }
            _ => None,
        }
    }

    /// The policy's message, or the name of the first cluster in the worst state with the reason. `None` if
    /// all clusters have the states `Enforced`, `Accepted`, `Applied` or `Removing`.
    #[must_use]
    pub fn first_message(&self) -> Option<String> {
        let worst = || {
            let entries = self.clusters.value().into_iter().flatten();
            let states = entries.filter_map(|entry| Some((self.state_of(entry)?, entry)));
            let is_named = |state| state < PolicyState::Removing || state == PolicyState::Overridden;
            let bad = states.filter(|(state, _)| is_named(*state));
            // `min_by_key` returns the first of several equal states.
            let (state, entry) = bad.min_by_key(|(state, _)| *state)?;
            let message = match state {
                // The reason would repeat the state.
                PolicyState::Overridden => {
                    entry.condition(ENFORCED).and_then(|condition| condition.message.clone())
                }
                _ => Cell::from_entry(self, entry).message.map(|message| message.to_string()),
            };
            let message = message.filter(|message| !message.is_empty());
            let message = message.map(|message| format!(": {message}")).unwrap_or_default();
            Some(format!("{}: {}{message}", entry.cluster, state.as_str()))
        };
        self.message.clone().or_else(worst)
    }

    /// The report as JSON. Clusters are copied from the annotation, with the fields that the annotation contains.
    #[must_use]
    pub fn json(&self) -> Value {
        let clusters =
            self.clusters_text.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        json!({
            "namespace": self.origin.object().namespace,
            "kind": self.kind,
            "resource": self.origin.kind().to_string(),
            "name": self.origin.object().name,
            "created": self.created.map(|created| created.to_string()),
            "inSync": self.in_sync(),
            "summary": self.summary.value(),
            "detail": self.detail_text,
            "message": self.message,
            "clusters": clusters,
            "missing": self.missing(),
            "states": self.states(),
            "faults": self.faults,
        })
    }
}

/// The state of all entries whose state was left out to save space; `None` if their states may differ.
fn omitted_state_of(detail: Detail, summary: &Summary, entries: &[Synced]) -> Option<PolicyState> {
    let (entries, hidden) = match detail {
        Detail::Full | Detail::Other => return None,
        Detail::Keys | Detail::First { .. } => (&[][..], summary.clusters),
        Detail::Minimal => {
            let is_hidden = |entry: &&Synced| {
                entry.conditions.is_empty() && PolicyState::of(entry) == PolicyState::Unknown
            };
            (entries, entries.iter().filter(is_hidden).count())
        }
    };
    let shown = |test: &dyn Fn(&Synced) -> bool| entries.iter().filter(|entry| test(entry)).count();
    let is_enforced = |entry: &Synced| entry.has_condition(ENFORCED, "True");
    let is_unknown =
        |entry: &Synced| !entry.conditions.is_empty() && PolicyState::of(entry) == PolicyState::Unknown;
    // An entry that is frozen, partially enforced or rejected may have the condition `Enforced=True`, too.
    let others = summary.partial + summary.frozen + summary.rejected + shown(&is_enforced);
    let enforced = summary.enforced.saturating_sub(others);
    let unknown = summary.unknown.saturating_sub(shown(&is_unknown));
    if hidden > 0 && enforced >= hidden {
        Some(PolicyState::Enforced)
    } else if hidden > 0 && unknown >= hidden {
        Some(PolicyState::Unknown)
    } else {
        None
    }
}

fn overrides(text: Option<&String>) -> AnnotationValue<Overrides> {
    match text.map(|text| Overrides::parse(text)) {
        None => AnnotationValue::Missing,
        Some(Ok(overrides)) => AnnotationValue::Value(overrides),
        Some(Err(_)) => AnnotationValue::Invalid,
    }
}

fn read<T: DeserializeOwned>(
    annotations: &Strings,
    key: &str,
    faults: &mut Vec<String>,
) -> AnnotationValue<T> {
    let Some(text) = annotations.get(key) else { return AnnotationValue::Missing };
    match serde_json::from_str(text) {
        Ok(value) => AnnotationValue::Value(value),
        Err(error) => {
            faults.push(format!("annotation {key}: {error}"));
            AnnotationValue::Invalid
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
