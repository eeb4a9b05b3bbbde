use policy_sync_api::work::{FeedbackValue, FieldValue, FieldValueType};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn meta(ordinal: i32, name: &str) -> ResourceMeta {
    ResourceMeta {
        ordinal,
        resource: "ratelimitpolicies".into(),
        name: name.into(),
        ..ResourceMeta::default()
    }
}

fn outcome(ordinal: i32, name: &str, error: Option<&str>) -> Outcome {
    Outcome { meta: meta(ordinal, name), error: error.map(Into::into) }
}

fn found<'a>(conditions: &'a [Condition], kind: &str) -> &'a Condition {
    conditions.iter().find(|condition| condition.type_ == kind).unwrap()
}

fn value(name: &str, integer: i64) -> FeedbackValue {
    let field_value = FieldValue {
        value_type: FieldValueType::Integer,
        integer: Some(integer),
        string: None,
        boolean: None,
        json_raw: None,
    };
    FeedbackValue { name: name.into(), field_value }
}

#[test]
fn applied_carries_the_generation_on_both_levels() {
    let status = applied(&ManifestWorkStatus::default(), &[outcome(0, "a", None)], 3, at(10));
    let work = found(&status.conditions, "Applied");
    assert_eq!((work.status.as_str(), work.reason.as_str()), ("True", "AppliedManifestWorkComplete"));
    assert_eq!(work.observed_generation, Some(3));
    let manifest = found(&status.resource_status.manifests[0].conditions, "Applied");
    assert_eq!((manifest.status.as_str(), manifest.reason.as_str()), ("True", "AppliedManifestComplete"));
    assert_eq!(manifest.observed_generation, Some(3));
}

#[test]
fn one_failed_manifest_fails_the_work() {
    let outcomes = [outcome(0, "a", None), outcome(1, "b", Some("no"))];
    let status = applied(&ManifestWorkStatus::default(), &outcomes, 1, at(10));
    let work = found(&status.conditions, "Applied");
    assert_eq!((work.status.as_str(), work.reason.as_str()), ("False", "AppliedManifestWorkFailed"));
    let manifest = found(&status.resource_status.manifests[1].conditions, "Applied");
    assert_eq!(manifest.reason, "AppliedManifestFailed");
    assert_eq!(manifest.message, "Failed to apply manifest: no");
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let outcomes = [outcome(0, "a", None)];
    let once = applied(&ManifestWorkStatus::default(), &outcomes, 1, at(10));
    assert_eq!(applied(&once, &outcomes, 1, at(20)), once);
}

#[test]
fn a_new_generation_is_a_new_transition_of_the_manifest_only() {
    let outcomes = [outcome(0, "a", None)];
    let once = applied(&ManifestWorkStatus::default(), &outcomes, 1, at(10));
    let twice = applied(&once, &outcomes, 2, at(20));
    assert_eq!(found(&twice.conditions, "Applied").last_transition_time, moment(at(10)));
    let manifest = found(&twice.resource_status.manifests[0].conditions, "Applied");
    assert_eq!(manifest.last_transition_time, moment(at(20)));
}

#[test]
fn feedback_survives_applying_also_at_another_place() {
    let once = applied(&ManifestWorkStatus::default(), &[outcome(0, "a", None)], 1, at(10));
    let feedback = Feedback { has_rules: true, values: vec![value("x", 1)], errors: Vec::new() };
    let seen = observed(&once, &[Observation::Observed(feedback, Vec::new())], 1, at(11));
    let moved = applied(&seen, &[outcome(0, "new", None), outcome(1, "a", None)], 2, at(12));
    assert!(moved.resource_status.manifests[0].status_feedback.values.is_empty());
    assert_eq!(moved.resource_status.manifests[1].status_feedback.values, [value("x", 1)]);
}

#[test]
fn a_missing_object_keeps_its_old_values() {
    let once = applied(&ManifestWorkStatus::default(), &[outcome(0, "a", None)], 1, at(10));
    let feedback = Feedback { has_rules: true, values: vec![value("x", 1)], errors: Vec::new() };
    let seen = observed(&once, &[Observation::Observed(feedback, Vec::new())], 1, at(11));
    assert_eq!(found(&seen.conditions, "Available").reason, "ResourcesAvailable");
    let gone = observed(&seen, &[Observation::Missing], 1, at(12));
    assert_eq!(gone.resource_status.manifests[0].status_feedback.values, [value("x", 1)]);
    let work = found(&gone.conditions, "Available");
    assert_eq!(
        (work.status.as_str(), work.message.as_str()),
        ("False", "1 of 1 resources are not available")
    );
}

#[test]
fn a_failed_path_shows_and_the_others_arrive() {
    let once = applied(&ManifestWorkStatus::default(), &[outcome(0, "a", None)], 1, at(10));
    let errors = vec!["one".into(), "two".into(), "one".into()];
    let feedback = Feedback { has_rules: true, values: vec![value("x", 1)], errors };
    let seen = observed(&once, &[Observation::Observed(feedback, Vec::new())], 1, at(11));
    let manifest = &seen.resource_status.manifests[0];
    let synced = found(&manifest.conditions, "StatusFeedbackSynced");
    assert_eq!((synced.status.as_str(), synced.reason.as_str()), ("False", "StatusFeedbackSyncFailed"));
    assert_eq!(synced.message, "Sync status feedback failed with error [one, two]");
    assert_eq!(manifest.status_feedback.values, [value("x", 1)]);
    assert_eq!(synced.observed_generation, None);
}

#[test]
fn an_unknown_object_outweighs_an_available_one() {
    let outcomes = [outcome(0, "a", None), outcome(1, "b", Some("no"))];
    let once = applied(&ManifestWorkStatus::default(), &outcomes, 1, at(10));
    let seen = observed(
        &once,
        &[Observation::Observed(Feedback::default(), Vec::new()), Observation::NotServed],
        1,
        at(11),
    );
    let work = found(&seen.conditions, "Available");
    assert_eq!((work.status.as_str(), work.reason.as_str()), ("Unknown", "ResourcesStatusUnknown"));
    let synced = found(&seen.resource_status.manifests[0].conditions, "StatusFeedbackSynced");
    assert_eq!((synced.status.as_str(), synced.reason.as_str()), ("True", "NoStatusFeedbackSynced"));
}
