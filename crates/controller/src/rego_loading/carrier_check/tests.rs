use std::sync::Arc;

use futures::FutureExt;
use serde_json::Value;

use super::*;
use crate::rego_loading::tests::{NOW, policy, settings};
use crate::rego_loading::verdict::{Verdict, Verdicts};
use policy_sync_api::names::ControllerName;
use policy_sync_api::object::WithText;
use policy_sync_api::rego_policy::EnforcementAction;
use policy_sync_hub::clock::Clock;
use policy_sync_rego::confined::{CheckFn, CheckResult};
use policy_sync_rego::limit::MAX_MODULES;
use policy_sync_rego::module::ModuleId;
use policy_sync_rego::selection::{LoadOutcome, LoadedText};

fn in_force() -> Verdict {
    let text: Arc<str> = "package a".into();
    Verdict {
        text: text.clone(),
        outcome: LoadOutcome::Loaded,
        since: NOW,
        package: None,
        enforcement: Some(EnforcementAction::Deny),
        in_force: Some(LoadedText { text, enforcement: EnforcementAction::Deny }),
        is_new: false,
        advice: Vec::new(),
        notes: Default::default(),
    }
}

fn object(object: &Value) -> HubObject {
    serde_json::from_str::<WithText>(&object.to_string()).unwrap().into()
}

#[tokio::test]
async fn carrier_over_the_total_size_is_rejected() {
    let check: CheckFn = Arc::new(|_, _| async { Ok(CheckResult::default()) }.boxed());
    let loaded = Loaded::new(ControllerName::new("c"), settings(), Clock::start(), check).unwrap();
    let id = |number: usize| ModuleId::new(&format!("policies/old/{number}.rego"));
    let modules = (0..MAX_MODULES - 1).map(|number| (id(number), in_force())).collect();
    loaded.0.results.lock().verdicts = Arc::new(Verdicts { modules, ..Verdicts::default() });
    let written = |name: &str, keys: &[(&str, &str)]| object(&policy(name, "2026-01-01T00:00:00Z", keys));
    let (one, two) = ([("a.rego", "package a")], [("a.rego", "package a"), ("b.rego", "package b")]);
    assert_eq!(loaded.check(&written("new", &one), None).await.unwrap(), CarrierCheck::default());
    let faults = loaded.check(&written("new", &two), None).await.unwrap().faults.to_string();
    assert!(faults.contains("this object has 2 modules of 18 bytes, and 1 module of"), "{faults}");
    // An existing carrier that does not grow is accepted.
    assert_eq!(loaded.check(&written("old", &two), None).await.unwrap(), CarrierCheck::default());
}

#[tokio::test]
async fn carrier_that_crashes_the_check_is_rejected() {
    // A check of more than three modules crashes.
    let check: CheckFn = Arc::new(|texts, _| {
        let last = texts.last().unwrap().id.clone();
        let how = "the check ended by signal 6";
        let faults = Faults::of(Fault::new(&last, None, how));
        let termination = CheckResult { faults, termination: Some(how.to_owned()), ..CheckResult::default() };
        async move { Ok(if texts.len() > 3 { termination } else { CheckResult::default() }) }.boxed()
    });
    let loaded = Loaded::new(ControllerName::new("c"), settings(), Clock::start(), check).unwrap();
    let modules = [(ModuleId::new("policies/old/a.rego"), in_force())].into();
    loaded.0.results.lock().verdicts = Arc::new(Verdicts { modules, ..Verdicts::default() });
    let keys =
        [("a.rego", "package a"), ("b.rego", "package b"), ("c.rego", "package c"), ("d.rego", "package d")];
    for (count, expected) in [
        (2, ""),
        (3, "policies/new/a.rego: the check ended by signal 6, together with all other modules"),
        (4, "policies/new/d.rego: the check ended by signal 6"),
    ] {
        let new = object(&policy("new", "2026-01-01T00:00:00Z", &keys[..count]));
        let written = loaded.check(&new, None).await.unwrap();
        assert_eq!(written.faults.to_string().trim_end(), expected);
        assert!(written.warnings.is_empty(), "{:?}", written.warnings);
    }
}
