//! Computes a work's status from the previous status and the results on the spoke.
//!
//! As in OCM's agent, two loops write the same status: the applying loop owns every `Applied`, the observing loop
//! everything else. So `Available` can carry the new generation before the new spec is applied. Only `Applied`
//! confirms that the new spec is applied.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use policy_sync_api::work::{ManifestStatus, ManifestWorkStatus, ResourceMeta, StatusFeedback};

use super::conditions::{self, condition};
use super::feedback::Feedback;

/// Result of applying one manifest.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) meta: ResourceMeta,
    /// Why the manifest could not be applied.
    pub(super) error: Option<String>,
}

/// Result of reading one manifest's object.
#[derive(Clone, Debug)]
pub(super) enum Observation {
    /// The spoke does not serve the kind.
    NotServed,
    /// The object does not exist.
    Missing,
    /// The object could not be read.
    Unreadable(String),
    /// Feedback values and computed conditions of the object.
    Observed(Feedback, Vec<Condition>),
}

/// A condition's timestamp, in whole seconds.
pub(super) fn moment(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Adds or replaces a condition. The transition time changes only with the status.
pub(super) fn set(conditions: &mut Vec<Condition>, mut wanted: Condition, now: Timestamp) {
    match conditions.iter_mut().find(|condition| condition.type_ == wanted.type_) {
        Some(known) => {
            wanted.last_transition_time =
                if known.status == wanted.status { known.last_transition_time.clone() } else { moment(now) };
            *known = wanted;
        }
        None => {
            wanted.last_transition_time = moment(now);
            conditions.push(wanted);
        }
    }
}

/// The status after applying the manifests of `generation`, with one outcome for each manifest.
pub(super) fn applied(
    before: &ManifestWorkStatus,
    outcomes: &[Outcome],
    generation: i64,
    now: Timestamp,
) -> ManifestWorkStatus {
    let mut status = before.clone();
    let known = &before.resource_status.manifests;
    status.resource_status.manifests =
        outcomes.iter().map(|outcome| applied_manifest(known, outcome, generation, now)).collect();
    if !outcomes.is_empty() {
        let wanted = if outcomes.iter().all(|outcome| outcome.error.is_none()) {
            let message = "Apply manifest work complete".into();
            condition("Applied", "True", "AppliedManifestWorkComplete", message, Some(generation))
        } else {
            let message = "Failed to apply manifest work".into();
            condition("Applied", "False", "AppliedManifestWorkFailed", message, Some(generation))
        };
        set(&mut status.conditions, wanted, now);
    }
    status
}

fn applied_manifest(
    known: &[ManifestStatus],
    outcome: &Outcome,
    generation: i64,
    now: Timestamp,
) -> ManifestStatus {
    let mut conditions = Vec::new();
    let mut status_feedback = StatusFeedback::default();
    if let Some(same) = same_manifest(known, &outcome.meta) {
        conditions.clone_from(&same.conditions);
        status_feedback = same.status_feedback.clone();
    }
    // A new generation starts a new transition, even with the same status.
    conditions.retain(|known| known.type_ != "Applied" || known.observed_generation == Some(generation));
    let wanted = match &outcome.error {
        None => {
            let message = "Apply manifest complete".into();
            condition("Applied", "True", "AppliedManifestComplete", message, Some(generation))
        }
        Some(error) => {
            let message = format!("Failed to apply manifest: {error}");
            condition("Applied", "False", "AppliedManifestFailed", message, Some(generation))
        }
    };
    set(&mut conditions, wanted, now);
    ManifestStatus { resource_meta: outcome.meta.clone(), status_feedback, conditions }
}

/// The entry of the same manifest, possibly with another ordinal.
fn same_manifest<'a>(known: &'a [ManifestStatus], meta: &ResourceMeta) -> Option<&'a ManifestStatus> {
    let moved = |entry: &&ManifestStatus| {
        ResourceMeta { ordinal: meta.ordinal, ..entry.resource_meta.clone() } == *meta
    };
    known.iter().find(|entry| entry.resource_meta == *meta).or_else(|| {
        let mut found = known.iter().filter(moved);
        found.next().filter(|_| found.next().is_none())
    })
}

/// The status after reading the objects, with one `Observation` for each manifest.
pub(super) fn observed(
    before: &ManifestWorkStatus,
    observations: &[Observation],
    generation: i64,
    now: Timestamp,
) -> ManifestWorkStatus {
    let mut status = before.clone();
    for (manifest, observation) in status.resource_status.manifests.iter_mut().zip(observations) {
        observe_manifest(manifest, observation, generation, now);
    }
    for computed in conditions::aggregated(&status.resource_status.manifests, generation) {
        set(&mut status.conditions, computed, now);
    }
    conditions::prune(&mut status.conditions, generation);
    let available = available(&status.resource_status.manifests, generation);
    set(&mut status.conditions, available, now);
    status
}

fn observe_manifest(
    manifest: &mut ManifestStatus,
    observation: &Observation,
    generation: i64,
    now: Timestamp,
) {
    let (status, reason, message) = match observation {
        Observation::NotServed => {
            ("Unknown", "IncompleteResourceMeta", "Resource meta is incomplete".to_owned())
        }
        Observation::Missing => ("False", "ResourceNotAvailable", "Resource is not available".to_owned()),
        Observation::Unreadable(error) => {
            ("Unknown", "FetchingResourceFailed", format!("Failed to fetch resource: {error}"))
        }
        Observation::Observed(..) => ("True", "ResourceAvailable", "Resource is available".to_owned()),
    };
    set(&mut manifest.conditions, condition("Available", status, reason, message, None), now);
    let Observation::Observed(feedback, computed) = observation else { return };

    if manifest.status_feedback.values != feedback.values {
        manifest.conditions.retain(|known| known.type_ != "StatusFeedbackSynced");
        manifest.status_feedback.values.clone_from(&feedback.values);
    }
    let (status, reason, message) = match feedback.errors.as_slice() {
        _ if !feedback.has_rules => ("True", "NoStatusFeedbackSynced", String::new()),
        [] => ("True", "StatusFeedbackSynced", String::new()),
        errors => {
            let message = format!("Sync status feedback failed with error {}", aggregate(errors));
            ("False", "StatusFeedbackSyncFailed", message)
        }
    };
    set(&mut manifest.conditions, condition("StatusFeedbackSynced", status, reason, message, None), now);
    for computed in computed {
        set(&mut manifest.conditions, computed.clone(), now);
    }
    conditions::prune(&mut manifest.conditions, generation);
}

/// Joins errors as `k8s.io/apimachinery` does for an aggregate.
fn aggregate(errors: &[String]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [one] => (*one).to_owned(),
        several => format!("[{}]", several.join(", ")),
    }
}

fn available(manifests: &[ManifestStatus], generation: i64) -> Condition {
    let count = |status: &str| {
        let conditions = manifests.iter().flat_map(|manifest| &manifest.conditions);
        conditions.filter(|found| found.type_ == "Available" && found.status == status).count()
    };
    let total = manifests.len();
    let (status, reason, message) = match (count("False"), count("Unknown"), count("True")) {
        (0, 0, 0) => ("Unknown", "ResourcesStatusUnknown", "cannot get any available resource ".to_owned()),
        (0, 0, _) => ("True", "ResourcesAvailable", "All resources are available".to_owned()),
        (0, unknown, _) => (
            "Unknown",
            "ResourcesStatusUnknown",
            format!("{unknown} of {total} resources have unknown status"),
        ),
        (missing, _, _) => {
            ("False", "ResourcesNotAvailable", format!("{missing} of {total} resources are not available"))
        }
    };
    condition("Available", status, reason, message, Some(generation))
}

/// The status of a work that is being deleted.
pub(super) fn deleting(before: &ManifestWorkStatus, generation: i64, now: Timestamp) -> ManifestWorkStatus {
    let mut status = before.clone();
    let message = "ManifestWork is being deleted".into();
    set(
        &mut status.conditions,
        condition("Deleting", "True", "WorkDeleting", message, Some(generation)),
        now,
    );
    status
}

#[cfg(test)]
mod tests;
