use serde_json::json;

use super::*;
use crate::rego_loading::kinds::{REGO_POLICIES, config_maps};
use crate::rego_loading::tests::{Hub, NOW, POLICIES, object, policy, settings};
use crate::rego_loading::verdict::Verdict;
use policy_sync_api::names::GroupVersionResource;
use policy_sync_api::rego_policy::EnforcementAction;
use policy_sync_rego::fault::Fault;
use policy_sync_rego::module::Text;
use policy_sync_rego::selection::LoadedText;

const PODS: &str = "package admission\ndeny[\"no\"] { data.kubernetes.pods[_][_].bad }";

fn bundle(text: &str) -> Bundle {
    Bundle::read(&[Text { id: ModuleId::new("policies/a/a.rego"), text: text.into() }]).unwrap()
}

#[test]
fn candidates_are_sorted_by_age_then_name() {
    let hub = Hub::new();
    let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    hub.config_maps(&[
        policy("b", new, &[("x.rego", "package b")]),
        policy("c", old, &[("y.rego", "package c"), ("x.rego", "package d"), ("readme", "…")]),
        policy("a", new, &[("x.rego", "package a")]),
    ]);
    let guard = hub.0.read();
    let candidates = candidates(guard.view(NOW), &settings(), &Verdicts::default(), false);
    let ids: Vec<&str> = candidates.iter().map(|candidate| candidate.text.id.as_str()).collect();
    assert_eq!(ids, ["policies/c/x.rego", "policies/c/y.rego", "policies/a/x.rego", "policies/b/x.rego"]);
}

#[test]
fn kinds_are_watched_while_modules_read_them() {
    let hub = Hub::new();
    let watched = |verdicts: &Verdicts, settings: &Settings| {
        let guard = hub.0.read();
        let wanted = watches(
            guard.view(NOW),
            settings,
            verdicts,
            &BTreeSet::new(),
            &BTreeMap::new(),
            &BTreeMap::new(),
        );
        wanted.into_keys().map(|source| source.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(watched(&Verdicts::default(), &settings()), ["configmaps in policies"]);
    let verdicts = Verdicts { reads: bundle(PODS).reads(), ..Verdicts::default() };
    assert_eq!(watched(&verdicts, &settings()), ["configmaps in policies", "pods"]);
    let replicate = Settings { replicate: BTreeSet::from(["nodes".to_owned()]), ..settings() };
    assert_eq!(watched(&Verdicts::default(), &replicate), ["configmaps in policies", "nodes"]);
    assert!(plurals(&replicate, &Verdicts::default(), &BTreeSet::new()).contains("nodes"));
}

#[test]
fn kept_kinds_are_watched_but_not_in_data() {
    let hub = Hub::new();
    let (kept, none) = (BTreeSet::from([GroupResource::new("", "pods")]), Verdicts::default());
    assert!(plurals(&settings(), &none, &kept).contains("pods"));
    hub.documents("pods", &[object("Pod", Some("shop"), "web")]);
    let guard = hub.0.read();
    let wanted = watches(guard.view(NOW), &settings(), &none, &kept, &BTreeMap::new(), &BTreeMap::new());
    assert!(wanted.contains_key(&documents(&GroupResource::new("", "pods"))));
    assert!(objects(guard.view(NOW), &settings(), &none, &BTreeMap::new()).is_empty());
}

#[test]
fn rego_policies_are_read_if_served() {
    let hub = Hub::new();
    let sources = || {
        let guard = hub.0.read();
        let view = guard.view(NOW);
        let sources: Vec<String> = view.sources(&settings()).iter().map(ToString::to_string).collect();
        (sources.join(", "), view.unread(&settings()))
    };
    let unread = |what: &str| Some(format!("{what} are not listed"));
    assert_eq!(sources(), ("configmaps in policies".to_owned(), unread("configmaps in policies")));
    hub.config_maps(&[]);
    assert_eq!(sources().1, None);
    let plural = "regopolicies.policysync.kuadrant.io";
    hub.serves(plural, ResolvedPlural::Resource(REGO_POLICIES.gvr()));
    assert_eq!(sources(), ("configmaps in policies, regopolicies".to_owned(), unread("regopolicies")));
    hub.list(&REGO_POLICIES.all(), &[]);
    assert_eq!(sources().1, None);
    hub.serves(plural, ResolvedPlural::DiscoveryFailed("no answer".to_owned()));
    assert_eq!(sources().1, Some("regopolicies are not listed: no answer".to_owned()));
}

#[test]
fn modules_wait_for_the_kinds_they_read() {
    let hub = Hub::new();
    let waits = |text: &str, settings: &Settings| {
        let guard = hub.0.read();
        let awaited = awaited(guard.view(NOW), settings, &bundle(text));
        awaited.into_values().flatten().map(|awaited| awaited.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(waits(PODS, &settings()), ["pods"]);
    let unknown = "package admission\ndeny[\"no\"] { data.kubernetes.widgets[_][_].bad }";
    assert_eq!(waits(unknown, &settings()), ["widgets"], "nobody has looked it up");
    hub.serves("widgets", ResolvedPlural::NotServed);
    assert_eq!(waits(unknown, &settings()), [""; 0], "there are none, which is known");
    let any = "package admission\ndeny[\"no\"] { data.kubernetes[_][_][_].bad }";
    let replicate = Settings { replicate: BTreeSet::from(["nodes".to_owned()]), ..settings() };
    assert_eq!(waits(any, &replicate), ["nodes"]);
    hub.documents("pods", &[]);
    hub.documents("nodes", &[]);
    assert_eq!((waits(PODS, &settings()), waits(any, &replicate)), (Vec::new(), Vec::new()));
}

#[test]
fn data_has_read_kinds_and_config_map_data() {
    let hub = Hub::new();
    let pod = object("Pod", Some("shop"), "web");
    hub.documents("pods", std::slice::from_ref(&pod));
    hub.documents("nodes", &[object("Node", None, "n1")]);
    let mut zones = policy("geo", "2026-01-01T00:00:00Z", &[("zones", "[\"eu\"]"), ("bad", "{")]);
    zones["metadata"]["labels"] = json!({"openpolicyagent.org/data": "opa"});
    hub.config_maps(std::slice::from_ref(&zones));
    let found = |text: &str| {
        let verdicts = Verdicts { reads: bundle(text).reads(), ..Verdicts::default() };
        let guard = hub.0.read();
        let objects = objects(guard.view(NOW), &settings(), &verdicts, &BTreeMap::new());
        serde_json::to_value(data(guard.view(NOW), &settings(), &objects)).unwrap()
    };
    let brought = json!({"geo": {"zones": ["eu"]}});
    let expected = json!({"kubernetes": {"pods": {"shop": {"web": pod}}}, "policies": brought});
    assert_eq!(found(PODS), expected);
    assert_eq!(found("package admission\ndeny[\"no\"] { input.x }")["kubernetes"], json!({}));
    // After a change to invalid JSON, the previous value stays. After a deletion, the value is removed.
    zones["data"] = json!({"zones": "[", "more": "1"});
    hub.config_maps(std::slice::from_ref(&zones));
    assert_eq!(found(PODS)["policies"], json!({"geo": {"zones": ["eu"], "more": 1}}));
    zones["data"] = json!({"more": "1"});
    hub.config_maps(&[zones]);
    assert_eq!(found(PODS)["policies"], json!({"geo": {"more": 1}}));
    hub.list(&config_maps(POLICIES), &[]);
    assert_eq!(found(PODS)["policies"], json!(null));
}

#[test]
fn kind_keeps_known_objects_while_it_is_listed_again() {
    let hub = Hub::new();
    let verdicts = Verdicts { reads: bundle(PODS).reads(), ..Verdicts::default() };
    let pod = object("Pod", Some("shop"), "web");
    hub.documents("pods", std::slice::from_ref(&pod));
    let objects_with = |known: &BTreeMap<String, Value>| {
        let guard = hub.0.read();
        objects(guard.view(NOW), &settings(), &verdicts, known)
    };
    let known = objects_with(&BTreeMap::new());
    hub.0.forget(&documents(&GroupResource::new("", "pods")), NOW);
    assert_eq!(objects_with(&known), known, "it is not empty for a moment");
    assert_ne!(objects_with(&BTreeMap::new()), known);
    hub.documents("pods", &[]);
    assert_eq!(serde_json::to_value(objects_with(&known)).unwrap(), json!({"pods": {}}));
    hub.documents("pods", &[pod]);
    hub.serves("pods", ResolvedPlural::NotServed);
    assert_eq!(serde_json::to_value(objects_with(&known)).unwrap(), json!({"pods": {}}), "nobody serves it");
}

#[test]
fn unreadable_text_is_a_rejected_candidate() {
    let hub = Hub::new();
    let mut object = policy("a", "2026-01-01T00:00:00Z", &[("a.rego", "package a")]);
    object["binaryData"] = json!({"b.rego": "AA=="});
    hub.config_maps(&[object]);
    let guard = hub.0.read();
    let candidates = candidates(guard.view(NOW), &settings(), &Verdicts::default(), false);
    let refused: Vec<_> = candidates
        .iter()
        .map(|candidate| (candidate.text.id.as_str(), candidate.rejected.is_some()))
        .collect();
    assert_eq!(refused, [("policies/a/a.rego", false), ("policies/a/b.rego", true)]);
}

#[test]
fn text_over_the_total_size_is_checked_again_when_others_change() {
    // Arguments: the text of `old` in force, the text checked last, and the current text.
    let of = |in_force: &str, checked: &str, carried: &str, is_due| {
        let hub = Hub::new();
        let time = "2026-01-01T00:00:00Z";
        let old = policy("old", time, &[("a.rego", carried)]);
        hub.config_maps(&[old, policy("new", time, &[("b.rego", "package b")])]);
        let guard = hub.0.read();
        let verdict = |text: &str, outcome, in_force| Verdict {
            text: text.into(),
            outcome,
            since: NOW,
            package: None,
            enforcement: None,
            in_force,
            is_new: false,
            advice: Vec::new(),
            notes: BTreeSet::new(),
        };
        let refused = |id: &str, cause| LoadOutcome::Rejected {
            faults: Faults::of(Fault::new(&ModuleId::new(id), None, "is wrong")),
            cause,
        };
        let (old, new) = ("policies/old/a.rego", "policies/new/b.rego");
        let outcome =
            if in_force == checked { LoadOutcome::Loaded } else { refused(old, RejectionCause::Faults) };
        let in_force = LoadedText { text: in_force.into(), enforcement: EnforcementAction::Deny };
        let modules = BTreeMap::from([
            (ModuleId::new(old), verdict(checked, outcome, Some(in_force))),
            (ModuleId::new(new), verdict("package b", refused(new, RejectionCause::TooLarge), None)),
        ]);
        let verdicts = Verdicts { modules, ..Verdicts::default() };
        let candidates = candidates(guard.view(NOW), &settings(), &verdicts, is_due);
        let new = candidates.into_iter().find(|candidate| candidate.text.id.as_str() == new);
        new.unwrap().rejected.map(|(_, cause)| cause)
    };
    assert_eq!(of("package a", "package a", "package a", false), Some(RejectionCause::TooLarge));
    assert_eq!(of("package a", "package a", "package a\n", false), None);
    assert_eq!(
        of("package a", "package a.", "package a.", false),
        Some(RejectionCause::TooLarge),
        "a refused edit"
    );
    assert_eq!(of("package a", "package a", "package a", true), None);
}

#[test]
fn data_has_no_secrets_unless_they_are_replicated() {
    let hub = Hub::new();
    let secrets = GroupVersionResource::new("", "v1", "secrets");
    for plural in ["secrets", "passwords"] {
        hub.serves(plural, ResolvedPlural::Resource(secrets.clone()));
    }
    let mut secret = object("Secret", Some("shop"), "db");
    secret["data"] = json!({"password": "aHVudGVyMg=="});
    hub.documents("secrets", &[secret]);
    let reads = ["secrets".to_owned(), "passwords".to_owned()].into();
    let verdicts = Verdicts { reads, ..Verdicts::default() };
    let found = |settings: &Settings| {
        let guard = hub.0.read();
        let objects = objects(guard.view(NOW), settings, &verdicts, &BTreeMap::new());
        serde_json::to_string(&data(guard.view(NOW), settings, &objects)).unwrap()
    };
    assert_eq!(found(&settings()), r#"{"kubernetes":{"passwords":{},"secrets":{}}}"#);
    let replicate = Settings { replicate: ["secrets".to_owned()].into(), ..settings() };
    assert!(found(&replicate).contains("aHVudGVyMg=="));
}
