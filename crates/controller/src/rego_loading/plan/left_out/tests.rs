use serde_json::{Value as Json, json};

use super::*;
use crate::rego_loading::tests::{Hub, NOW, object, settings};
use policy_sync_api::rego_policy::EnforcementAction;
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::queries::{ADMISSION, PLACEMENT};

/// A hub where the pods of `greedy` are left out.
fn hub() -> Hub {
    let hub = Hub::with_budget(100_000, usize::MAX);
    let pods: Vec<Json> = (0..100)
        .map(|number| {
            let namespace = if number == 0 { "shop" } else { "greedy" };
            let mut pod = object("Pod", Some(namespace), &format!("p{number}"));
            pod["spec"] = json!({"text": format!("{number}{}", "x".repeat(2_000))});
            pod
        })
        .collect();
    hub.documents("pods", &pods);
    hub
}

fn incomplete_for(package: &str, kind: &str, gates: &ReviewInputs) -> OmittedDocuments {
    let text = format!("package {package}\ndeny[\"no\"] {{ data.kubernetes{kind}[_][_].bad }}");
    let bundle = Bundle::read(&[Text { id: ModuleId::new("a"), text: text.into() }]).unwrap();
    let replicate = Settings { replicate: ["pods".to_owned()].into(), ..settings() };
    let (verdicts, hub) = (Verdicts { bundle, ..Verdicts::default() }, hub());
    let guard = hub.0.read();
    let view = guard.view(NOW);
    let parts = parts(view, &BTreeMap::new(), &BTreeMap::new());
    incomplete(view, &replicate, &verdicts, gates, &parts)
}

#[test]
fn only_policies_reading_left_out_kinds_deny_in_that_namespace() {
    let none = ReviewInputs::default();
    for kind in [".pods", "[input.kind]"] {
        let found = incomplete_for(ADMISSION, kind, &none);
        assert!(found.review(ADMISSION, "greedy").is_err(), "{kind}");
        assert!(found.review(ADMISSION, "shop").unwrap().is_some(), "{kind}");
        assert_eq!(found.review(PLACEMENT, "greedy"), Ok(None), "{kind}");
    }
    assert_eq!(incomplete_for(ADMISSION, ".nodes", &none).review(ADMISSION, "greedy"), Ok(None));
    assert_eq!(incomplete_for("unused", ".pods", &none).review(ADMISSION, "greedy"), Ok(None));
    let lenient = ReviewInputs {
        enforcement_overrides: [(ModuleId::new("a"), EnforcementAction::Warn)].into(),
        ..ReviewInputs::default()
    };
    assert!(incomplete_for(ADMISSION, ".pods", &lenient).review(ADMISSION, "greedy").unwrap().is_some());
}

#[test]
fn documents_stay_left_out_while_their_kind_is_listed_again() {
    let (before, kind) = (NOW, GroupResource::new("", "pods"));
    let part = NamespacedKind { namespace: "greedy".into(), kind: kind.clone() };
    let hub = hub();
    let since = |hub: &Hub, relisted: &[GroupResource], since: Option<Moment>| {
        let guard = hub.0.read();
        let known = since.map(|since| (part.clone(), since)).into_iter().collect();
        let relisted = relisted.iter().map(|kind| (kind.clone(), true)).collect();
        parts(guard.view(Moment(NOW.0 + 5)), &known, &relisted).get(&part).copied()
    };
    assert_eq!(since(&hub, &[], None), Some(Moment(NOW.0 + 5)));
    assert_eq!(since(&hub, &[], Some(before)), Some(before));
    hub.documents("pods", &[]);
    assert_eq!(since(&hub, std::slice::from_ref(&kind), Some(before)), Some(before));
    assert_eq!(since(&hub, &[], Some(before)), None);
}

#[test]
fn kind_is_listed_again_at_most_once_a_minute_if_documents_fit() {
    let (hub, kind) = (hub(), GroupResource::new("", "pods"));
    let part = NamespacedKind { namespace: "greedy".into(), kind: kind.clone() };
    let (mut left_out, mut relisted) = (BTreeMap::from([(part.clone(), NOW)]), BTreeMap::new());
    let at = |seconds: u64,
              left_out: &mut BTreeMap<NamespacedKind, Moment>,
              relisted: &mut BTreeMap<GroupResource, bool>| {
        let guard = hub.0.read();
        relist(guard.view(NOW.after(Duration::from_secs(seconds))), left_out, relisted)
    };
    assert_eq!(recheck(&left_out), Some(NOW.after(RECHECK_INTERVAL)));
    assert!(!at(61, &mut left_out, &mut relisted), "it does not fit");
    assert_eq!(left_out[&part], NOW.after(Duration::from_secs(61)));
    let few = object("Pod", Some("greedy"), "p1");
    hub.documents("pods", std::slice::from_ref(&few));
    assert!(!at(62, &mut left_out, &mut relisted), "it is too early");
    assert!(at(121, &mut left_out, &mut relisted));
    assert_eq!(relisted, BTreeMap::from([(kind.clone(), false)]));
    assert!(!at(122, &mut left_out, &mut relisted), "its watch has not stopped");
    hub.0.forget(&documents(&kind), NOW);
    assert!(at(123, &mut left_out, &mut relisted));
    assert_eq!(relisted, BTreeMap::from([(kind, true)]));
    hub.documents("pods", &[few]);
    assert!(at(124, &mut left_out, &mut relisted));
    assert!(relisted.is_empty());
}

#[test]
fn readers_and_owners_of_left_out_documents_get_messages() {
    let hub = hub();
    let guard = hub.0.read();
    let (view, kind) = (guard.view(NOW), GroupResource::new("", "pods"));
    assert_eq!(
        left_out_warning("pods", &kind, view).unwrap(),
        "pods of these namespaces are left out, because they exceed their share of --replicate-bytes or --replicate-limit: greedy"
    );
    assert_eq!(left_out_warning("nodes", &GroupResource::new("", "nodes"), view), None);
    let of =
        |namespace: &str| note(&NamespacedKind { namespace: namespace.into(), kind: kind.clone() }, view);
    assert!(of("greedy").unwrap().starts_with("the 99 pods of this namespace need"));
    assert_eq!(of("shop"), None);
}
