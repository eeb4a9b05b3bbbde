use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::rego_loading::kinds::REGO_POLICIES;
use crate::rego_loading::slow::SlowModule;
use crate::rego_loading::tests::{Hub, NOW, POLICIES, policy};
use policy_sync_api::names::ObjectKey;
use policy_sync_api::rego_policy::EnforcementAction;
use policy_sync_mirror::plurals::ResolvedPlural;
use policy_sync_rego::culprits::Excess;
use policy_sync_rego::fault::Position;
use policy_sync_rego::selection::{LoadedText, PendingDependency, RejectionCause};

const OLD: &str = "2026-01-01T00:00:00Z";

fn verdict(text: &str, outcome: LoadOutcome, good: bool) -> Verdict {
    let in_force = good.then(|| LoadedText { text: "…".into(), enforcement: EnforcementAction::Deny });
    Verdict {
        text: text.into(),
        outcome,
        since: Moment(0),
        package: None,
        in_force,
        enforcement: Some(EnforcementAction::Deny),
        is_new: true,
        advice: Vec::new(),
        notes: BTreeSet::new(),
    }
}

fn refused(id: &str, count: usize) -> LoadOutcome {
    let fault = |n: usize| {
        let place = Position { line: u32::try_from(n).unwrap() + 1, column: 3 };
        Fault::new(&ModuleId::new(id), place, "is wrong")
    };
    LoadOutcome::Rejected {
        faults: Faults { listed: (0..count).map(fault).collect(), more: 0 },
        cause: RejectionCause::Faults,
    }
}

fn pending(what: &str) -> LoadOutcome {
    LoadOutcome::Pending(vec![PendingDependency { what: what.to_owned(), why: None }])
}

/// The status annotation of the ConfigMap `a`, if its keys have these verdicts.
fn status_annotation(verdicts: &[(&str, Verdict)]) -> Value {
    status_annotation_with(verdicts, &ServingState::default())
}

/// Like `status_annotation`, with this state of the webhook registration.
fn status_annotation_with(verdicts: &[(&str, Verdict)], registered: &ServingState) -> Value {
    let hub = Hub::new();
    let data: Vec<(&str, &str)> = verdicts.iter().map(|(key, _)| (*key, "text")).collect();
    hub.config_maps(&[policy("a", OLD, &data)]);
    let modules = verdicts
        .iter()
        .map(|(key, verdict)| (ModuleId::new(&format!("{POLICIES}/a/{key}")), verdict.clone()));
    let verdicts = Verdicts { modules: modules.collect(), ..Verdicts::default() };
    let key = CarrierKey(ObjectKey::new(POLICIES, "a"));
    let guard = hub.0.read();
    let status = desired_status(guard.view(NOW), &verdicts, registered, &key);
    status
        .and_then(|(status, _)| status.annotation)
        .map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
}

#[test]
fn module_over_a_limit_is_reported_while_its_text_is_in_force() {
    let id = ModuleId::new("policies/a/a.rego");
    let status_annotation = |text: &str, excess: Excess| {
        let slow = BTreeMap::from([(id.clone(), SlowModule::new(text.into(), excess))]);
        let registered = ServingState { slow, ..ServingState::default() };
        status_annotation_with(&[("a.rego", verdict("text", LoadOutcome::Loaded, true))], &registered)
    };
    let location = json!({"file": "a.rego"});
    let message = "takes more than 1 s by itself, which is the limit for all modules of its package together";
    let warnings = json!([{"message": message, "location": location}]);
    assert_eq!(status_annotation("…", Excess::Time), json!({"status": "ok", "warnings": warnings}));
    let message = "takes more than 32 MiB of memory by itself for one review";
    let warnings = json!([{"message": message, "location": location}]);
    assert_eq!(status_annotation("…", Excess::Memory), json!({"status": "ok", "warnings": warnings}));
    let message =
        "takes 700 ms of the 1 s that all modules of its package may take together, more than any other";
    let warnings = json!([{"message": message, "location": location}]);
    let most = Excess::MostTime(Duration::from_millis(700));
    assert_eq!(status_annotation("…", most), json!({"status": "ok", "warnings": warnings}));
    assert_eq!(status_annotation("another", Excess::Time), json!({"status": "ok"}));
}

#[test]
fn many_warnings_are_counted_and_leave_room_for_other_annotations() {
    let names: Vec<String> = (0..2_500).map(|number| format!("{number:04}.rego")).collect();
    let verdicts: Vec<(&str, Verdict)> = names
        .iter()
        .map(|name| {
            let mut advised = verdict("text", LoadOutcome::Loaded, true);
            let id = ModuleId::new(&format!("policies/a/{name}"));
            advised.advice = vec![Fault::new(&id, None, "x".repeat(1_000))];
            (name.as_str(), advised)
        })
        .collect();
    let status = status_annotation(&verdicts);
    assert_eq!(status["status"], "ok");
    assert_eq!(status["warnings"].as_array().map(Vec::len), Some(MAX_WARNINGS));
    assert_eq!(status["moreWarnings"], 2_480);
    assert!(status.to_string().len() < 64 << 10);
}

#[test]
fn status_is_ok_once_all_modules_are_loaded() {
    assert_eq!(
        status_annotation(&[("a.rego", verdict("text", LoadOutcome::Loaded, true))]),
        json!({"status": "ok"})
    );
    let mut advised = verdict("text", LoadOutcome::Loaded, true);
    let id = ModuleId::new("policies/a/a.rego");
    advised.advice = vec![Fault::new(&id, Position { line: 1, column: 9 }, "pods are sheep")];
    let warning = json!({"message": "pods are sheep", "location": {"file": "a.rego", "row": 1, "col": 9}});
    assert_eq!(status_annotation(&[("a.rego", advised)]), json!({"status": "ok", "warnings": [warning]}));
    // The verdict is about an earlier text, so this text is not checked yet.
    assert_eq!(status_annotation(&[("a.rego", verdict("other", LoadOutcome::Loaded, true))]), Value::Null);
}

#[test]
fn rejection_lists_faults_and_the_effective_state() {
    let id = "policies/a/a.rego";
    let error = |message: &str| {
        let location = json!({"file": "a.rego", "row": 1, "col": 3});
        let errors = json!([{"message": "is wrong", "location": location}]);
        json!({"status": "error", "error": {"message": message, "errors": errors}})
    };
    let found = status_annotation(&[("a.rego", verdict("text", refused(id, 1), true))]);
    assert_eq!(found, error("rejected; the previous version stays in force"));
    let loaded = || ("b.rego", verdict("text", LoadOutcome::Loaded, true));
    let found = status_annotation(&[("a.rego", verdict("text", refused(id, 1), false)), loaded()]);
    assert_eq!(found, error("rejected; everything that it would evaluate is denied"));
    let many = status_annotation(&[
        ("a.rego", verdict("text", refused(id, 20), true)),
        ("b.rego", verdict("text", refused("policies/a/b.rego", 7), true)),
    ]);
    assert_eq!(many["error"]["errors"].as_array().map(Vec::len), Some(20));
    assert_eq!(many["error"]["more"], 7);
}

#[test]
fn waiting_modules_are_reported_after_a_second() {
    let of = |since: i64| {
        let mut waiting_for = verdict("text", pending("pods"), false);
        waiting_for.since = Moment(since);
        status_annotation(&[("a.rego", waiting_for)])
    };
    assert_eq!(of(NOW.0 - 999), Value::Null);
    let expected = json!({"message": "not in force yet: waits for pods", "errors": []});
    assert_eq!(of(NOW.0 - 1_000)["error"], expected);
}

#[test]
fn condition_keeps_its_transition_time() {
    let hub = Hub::new();
    hub.serves("regopolicies.policysync.kuadrant.io", ResolvedPlural::Resource(REGO_POLICIES.gvr()));
    let mut object = json!({
        "apiVersion": "policysync.kuadrant.io/v1alpha1", "kind": "RegoPolicy", "spec": {"rego": "text"},
        "metadata": {"name": "a", "uid": "a", "generation": 3, "creationTimestamp": OLD},
    });
    let id = ModuleId::new("regopolicies/a");
    let status_annotation = |object: &Value, outcome: LoadOutcome, now: Moment| {
        hub.list(&REGO_POLICIES.all(), std::slice::from_ref(object));
        let verdicts = Verdicts {
            modules: [(id.clone(), verdict("text", outcome, false))].into(),
            ..Verdicts::default()
        };
        let guard = hub.0.read();
        let status = desired_status(
            guard.view(now),
            &verdicts,
            &ServingState::default(),
            &CarrierKey(ObjectKey::new("", "a")),
        );
        status.map(|(status, _)| serde_json::to_value(&status.conditions[0]).unwrap())
    };
    let first = status_annotation(&object, refused("regopolicies/a", 1), NOW).unwrap();
    let expected = json!({
        "type": "Loaded", "status": "False", "reason": "Refused", "observedGeneration": 3,
        "lastTransitionTime": "1970-01-01T00:16:40Z",
        "message": "rejected; everything that it would evaluate is denied\nregopolicies/a:1:3: is wrong",
    });
    assert_eq!(first, expected);
    object["status"] = json!({"conditions": [first]});
    let later = NOW.after(Duration::from_secs(60));
    assert_eq!(status_annotation(&object, refused("regopolicies/a", 1), later), None, "nothing is new");
    let waiting_for = status_annotation(&object, pending("pods"), later).unwrap();
    assert_eq!(
        (&waiting_for["reason"], &waiting_for["lastTransitionTime"]),
        (&json!("Pending"), &first["lastTransitionTime"])
    );
    let loaded = status_annotation(&object, LoadOutcome::Loaded, later).unwrap();
    let expected = json!({
        "type": "Loaded", "status": "True", "reason": "Loaded", "observedGeneration": 3,
        "lastTransitionTime": "1970-01-01T00:17:40Z", "message": "in force",
    });
    assert_eq!(loaded, expected);
}

#[test]
fn missing_webhook_is_reported_after_a_second() {
    let of = |package: &str| {
        let package = Some(package.to_owned());
        [("a.rego", Verdict { package, ..verdict("text", LoadOutcome::Loaded, true) })]
    };
    let (placement, other) = (of("io.k8s.federation.admission"), of("admission"));
    let registered = |is_asked, since| {
        let fault = WebhookProblem { why: "why".to_owned(), is_still_registered: is_asked };
        let packages = BTreeMap::from([("io.k8s.federation.admission", Some(fault))]);
        ServingState { packages, since, ..ServingState::default() }
    };
    let long_ago = registered(false, Moment(0));
    let waiting_for = json!({"status": "error", "error": {"errors": [],
        "message": "not in force yet: waits for its webhook registration (why)"}});
    assert_eq!(status_annotation_with(&placement, &long_ago), waiting_for);
    assert_eq!(
        status_annotation_with(&placement, &registered(false, NOW)),
        Value::Null,
        "it may come in a moment"
    );
    assert_eq!(status_annotation_with(&other, &long_ago), json!({"status": "ok"}), "nobody asks it by that");
    let kept = json!({"status": "ok", "notes": ["its webhook registration cannot be updated: why"]});
    assert_eq!(status_annotation_with(&placement, &registered(true, NOW)), kept);
    // With an external engine, the earlier text in force is not evaluated either.
    let refused = [(
        "a.rego",
        Verdict { package: placement[0].1.package.clone(), ..verdict("text", refused("m", 1), true) },
    )];
    let message =
        status_annotation_with(&refused, &long_ago)["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "rejected; the previous version stays in force");
}

#[test]
fn patch_conflict_with_an_older_policy_is_a_warning() {
    let in_force = [("a.rego", verdict("text", LoadOutcome::Loaded, true))];
    let text = "pods shop/web: a: replace /spec/x conflicts with b: replace /spec/x";
    let conflicts = BTreeMap::from([(ModuleId::new("policies/a/a.rego"), text.to_owned())]);
    let registered = ServingState { conflicts, ..ServingState::default() };
    let warning = json!({"message": text, "location": {"file": "a.rego"}});
    assert_eq!(
        status_annotation_with(&in_force, &registered),
        json!({"status": "ok", "warnings": [warning]})
    );
}

#[test]
fn outdated_opa_is_reported_after_a_second() {
    let in_force = [("a.rego", verdict("text", LoadOutcome::Loaded, true))];
    let opa_problem =
        |since| ServingState { opa_problem: Some("why".to_owned()), since, ..ServingState::default() };
    let waiting_for = json!({"status": "error", "error": {"errors": [],
        "message": "not in force yet: waits for its upload to OPA (why)"}});
    assert_eq!(status_annotation_with(&in_force, &opa_problem(Moment(0))), waiting_for);
    assert_eq!(
        status_annotation_with(&in_force, &opa_problem(NOW)),
        Value::Null,
        "it may have it in a moment"
    );
    let never = [("a.rego", verdict("text", refused("a.rego", 1), false))];
    assert_eq!(
        status_annotation_with(&never, &opa_problem(Moment(0)))["error"]["message"],
        "rejected; everything that it would evaluate is denied"
    );
}
