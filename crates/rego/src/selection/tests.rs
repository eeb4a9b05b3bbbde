use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::confined;
use crate::loaded_module::LoadedModule;

/// A checker that checks in this process. Words in a text select additional faults and pending dependencies.
#[derive(Default)]
struct InProcess {
    checks: AtomicUsize,
}

impl BundleChecker for InProcess {
    async fn check(&self, texts: &[Text]) -> Result<CheckResult, CheckError> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        Ok(confined::checked(texts, Default::default(), &Default::default()))
    }

    fn faults(&self, bundle: &Bundle, _: &SecretReads) -> Vec<Fault> {
        let secret = bundle.modules().filter(|module| module.text.contains("secrets"));
        secret.map(|module| Fault::new(module.id(), None, "secrets may not be listed")).collect()
    }

    fn pending_dependencies(&self, bundle: &Bundle) -> BTreeMap<ModuleId, Vec<PendingDependency>> {
        let waits = bundle.modules().filter(|module| module.text.contains("pods"));
        waits
            .map(|module| {
                (module.id().clone(), vec![PendingDependency { what: "pods".to_owned(), why: None }])
            })
            .collect()
    }
}

/// The id of a module, its text, and its last good text.
type Written<'t> = (&'t str, &'t str, Option<&'t str>);

fn candidate((id, text, good): &Written<'_>) -> Candidate {
    Candidate {
        text: Text { id: ModuleId::new(id), text: (*text).into() },
        enforcement: Ok(EnforcementAction::Deny),
        in_force: good.map(|text| LoadedText { text: text.into(), enforcement: EnforcementAction::Deny }),
        rejected: None,
    }
}

fn selected(written: &[Written<'_>]) -> SelectedModules {
    let candidates: Vec<Candidate> = written.iter().map(candidate).collect();
    futures::executor::block_on(select_modules(&candidates, &InProcess::default())).unwrap()
}

/// The outcome of each text, and the text in force of its module.
fn results(written: &[Written<'_>]) -> Vec<(String, Option<String>)> {
    let selected = selected(written);
    let in_force: BTreeSet<&ModuleId> = selected.bundle.modules().map(LoadedModule::id).collect();
    assert_eq!(in_force, selected.in_force.keys().collect(), "the bundle is what is in force");
    let result = |(id, _, _): &Written<'_>| {
        let id = ModuleId::new(id);
        let outcome = match &selected.outcomes[&id] {
            LoadOutcome::Loaded => "loaded".to_owned(),
            LoadOutcome::Pending(pending_dependencies) => format!("waits for {}", pending_dependencies[0]),
            LoadOutcome::Rejected { faults, .. } => faults.to_string().trim_end().to_owned(),
            LoadOutcome::Unchecked => "unchecked".to_owned(),
        };
        (outcome, selected.in_force.get(&id).map(|good| good.text.to_string()))
    };
    written.iter().map(result).collect()
}

fn result(outcome: &str, in_force: Option<&str>) -> (String, Option<String>) {
    (outcome.to_owned(), in_force.map(str::to_owned))
}

const LIB: &str = "package lib\nis_bad(x) { x.bad }";
const USER: &str = "package admission\nimport data.lib\ndeny[\"no\"] { lib.is_bad(input.request) }";
const OTHER: &str = "package admission\ndeny[\"never\"] { input.request.never }";
const PODS: &str = "package admission\ndeny[\"pod\"] { data.kubernetes.pods[_][_].bad }";

#[test]
fn valid_texts_are_loaded() {
    let expected = [USER, LIB, OTHER].map(|text| result("loaded", Some(text)));
    // The required module may be newer than the module that uses it.
    assert_eq!(results(&[("a", USER, None), ("b", LIB, None), ("c", OTHER, None)]), expected);
    assert_eq!(results(&[]), []);
}

#[test]
fn invalid_text_leaves_its_last_good_text_and_the_others_in_force() {
    let fault = "a:2:1: unknown function foo.bar";
    let wrong = "package admission\ndeny[\"no\"] { foo.bar(1) }";
    let found = results(&[("a", wrong, Some(OTHER)), ("b", LIB, None), ("c", USER, Some(USER))]);
    assert!(found[0].0.contains("foo.bar"), "{found:?} for {fault}");
    assert_eq!(found[0].1.as_deref(), Some(OTHER));
    assert_eq!(found[1..], [LIB, USER].map(|text| result("loaded", Some(text))));
    let found = results(&[("a", wrong, None), ("b", OTHER, None)]);
    assert_eq!((found[0].1.as_deref(), &found[1]), (None, &result("loaded", Some(OTHER))));
}

#[test]
fn older_of_two_conflicting_texts_stays() {
    let (function, rule) = ("package a\nf(x) = x { true }", "package a\nf = 1 { true }");
    for (older, newer) in [(function, rule), (rule, function)] {
        // The engine finds faults in the order of ids, so both orders are tried.
        for (first, second) in [("a", "b"), ("b", "a")] {
            let found = results(&[(first, older, None), (second, newer, None)]);
            assert_eq!(found[0], result("loaded", Some(older)));
            assert!(found[1].0.starts_with(second) && found[1].1.is_none(), "{found:?}");
        }
        // Texts in force count as older than changes.
        let found = results(&[("a", newer, Some(OTHER)), ("b", older, Some(older))]);
        assert!(found[0].0.starts_with("a") && found[0].1.as_deref() == Some(OTHER), "{found:?}");
        assert_eq!(found[1], result("loaded", Some(older)));
    }
}

#[test]
fn library_change_that_breaks_its_users_is_rejected() {
    let changed = "package lib\nis_worse(x) { x.bad }";
    let found = results(&[("lib", changed, Some(LIB)), ("user", USER, Some(USER)), ("new", OTHER, None)]);
    let fault =
        "lib: conflicts with modules that were loaded before: user:3:14: unknown function data.lib.is_bad";
    assert!(
        found[0].0.starts_with("lib: conflicts with modules that were loaded before: user:3:"),
        "{found:?} {fault}"
    );
    assert_eq!(found[0].1.as_deref(), Some(LIB));
    assert_eq!(found[1..], [USER, OTHER].map(|text| result("loaded", Some(text))));
    // If the library is removed, the modules that use it are removed too.
    let written = [("user", USER, Some(USER)), ("new", OTHER, None), ("old", OTHER, Some(OTHER))];
    let found = results(&written);
    assert!(found[0].0.starts_with("user:3:") && found[0].1.is_none(), "{found:?}");
    assert_eq!(found[1..], [OTHER, OTHER].map(|text| result("loaded", Some(text))));
    let packages = selected(&written).packages;
    assert_eq!(packages[&ModuleId::new("user")], "admission", "of what is refused, too");
}

#[test]
fn pending_text_delays_only_texts_that_need_it() {
    let lib = "package lib\nis_bad(x) { data.kubernetes.pods[_][_].bad == x }";
    let found = results(&[("a", OTHER, None), ("lib", lib, None), ("user", USER, None)]);
    let expected =
        [result("loaded", Some(OTHER)), result("waits for pods", None), result("waits for lib", None)];
    assert_eq!(found, expected);
    let found = results(&[("lib", lib, Some(LIB)), ("user", USER, Some(USER)), ("pods", PODS, None)]);
    let expected =
        [result("waits for pods", Some(LIB)), result("loaded", Some(USER)), result("waits for pods", None)];
    assert_eq!(found, expected);
    let reads = selected(&[("pods", PODS, None)]).reads;
    assert_eq!(reads.into_iter().collect::<Vec<_>>(), ["pods"], "else nobody would list them");
}

#[test]
fn faults_of_the_judge_reject_a_text() {
    let secret = "package admission\ndeny[\"s\"] { data.kubernetes.secrets[_][_].bad }";
    let found = results(&[("a", secret, None), ("b", OTHER, None)]);
    assert_eq!(found, [result("a: secrets may not be listed", None), result("loaded", Some(OTHER))]);
    let reads = selected(&[("a", secret, None)]).reads;
    assert_eq!(reads.into_iter().collect::<Vec<_>>(), ["secrets"], "else nobody would know when they may be");
    // A new text that needs a pending text has no fault itself.
    let lib = "package lib\nis_bad(x) { data.kubernetes.pods[_][_].bad == x }\nis_new(x) { x.bad }";
    let user = "package admission\nimport data.lib\ndeny[\"no\"] { lib.is_new(input.request) }";
    let found = results(&[("lib", lib, Some(LIB)), ("user", user, Some(USER))]);
    assert_eq!(found, [result("waits for pods", Some(LIB)), result("waits for lib", Some(USER))]);
}

#[test]
fn text_that_ended_the_check_is_not_checked_again() {
    let faults = Faults::new(vec![Fault::new(&ModuleId::new("a"), None, "the check took more than 2 s")]);
    let text = Text { id: ModuleId::new("a"), text: OTHER.into() };
    let rejected = Some((faults.clone(), RejectionCause::CrashesCheck));
    let candidate = Candidate { text, enforcement: Ok(EnforcementAction::Deny), in_force: None, rejected };
    let checker = InProcess::default();
    let selected = futures::executor::block_on(select_modules(&[candidate], &checker)).unwrap();
    assert_eq!(
        selected.outcomes[&ModuleId::new("a")],
        LoadOutcome::Rejected { faults, cause: RejectionCause::CrashesCheck }
    );
    assert_eq!(checker.checks.load(Ordering::Relaxed), 0);
}

#[test]
fn package_of_a_text_that_is_too_large_for_the_bundle_is_known() {
    let faults = Faults::new(vec![Fault::new(&ModuleId::new("a"), None, "the bundle would be too large")]);
    let rejected = Some((faults, RejectionCause::Faults));
    let candidate = Candidate { rejected, ..candidate(&("a", OTHER, None)) };
    let checker = InProcess::default();
    let selected = futures::executor::block_on(select_modules(&[candidate], &checker)).unwrap();
    assert_eq!(selected.packages[&ModuleId::new("a")], "admission");
    assert_eq!(checker.checks.load(Ordering::Relaxed), 0, "a check would take time and memory");
}

/// A checker with the check `check`, which returns `None` for texts to check in this process. It counts its checks.
struct FakeChecker<F> {
    check: F,
    checks: AtomicUsize,
}

impl<F> FakeChecker<F> {
    fn with(check: F) -> Self {
        Self { check, checks: AtomicUsize::new(0) }
    }
}

impl<F: Fn(&[Text]) -> Option<CheckResult> + Sync> BundleChecker for FakeChecker<F> {
    async fn check(&self, texts: &[Text]) -> Result<CheckResult, CheckError> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        let checked = (self.check)(texts);
        Ok(checked.unwrap_or_else(|| confined::checked(texts, Default::default(), &Default::default())))
    }

    fn faults(&self, _: &Bundle, _: &SecretReads) -> Vec<Fault> {
        Vec::new()
    }

    fn pending_dependencies(&self, _: &Bundle) -> BTreeMap<ModuleId, Vec<PendingDependency>> {
        BTreeMap::new()
    }
}

/// The message for the end of a check.
const HOW: &str = "the check ended by signal 6";

/// A check that the module `lib` ends. If `alone`, `lib` is identified as the culprit.
fn crashes_with_lib(alone: bool) -> impl Fn(&[Text]) -> Option<CheckResult> {
    move |texts| {
        texts.iter().find(|text| *text.text == *LIB)?;
        let id = ModuleId::new("lib");
        let fault = Fault::new(&id, None, HOW);
        let mut checked = CheckResult { faults: Faults::of(fault.clone()), ..CheckResult::default() };
        if alone {
            checked.crashing.insert(id, fault);
        } else {
            checked.termination = Some(HOW.to_owned());
        }
        Some(checked)
    }
}

#[test]
fn failed_check_does_not_remove_texts_in_force() {
    let of = |texts: &[Written<'_>], alone: bool| {
        let candidates: Vec<Candidate> = texts.iter().map(candidate).collect();
        futures::executor::block_on(select_modules(&candidates, &FakeChecker::with(crashes_with_lib(alone))))
    };
    for alone in [true, false] {
        assert!(matches!(of(&[("lib", LIB, Some(LIB))], alone), Err(CheckError::Terminated(_))));
    }
    let selected = of(&[("lib", LIB, None)], true).unwrap();
    assert!(matches!(
        selected.outcomes[&ModuleId::new("lib")],
        LoadOutcome::Rejected { cause: RejectionCause::CrashesCheck, .. }
    ));
    // The culprit is unknown: the newest changes are rejected until the check passes.
    let selected = of(&[("new", OTHER, None), ("lib", LIB, None)], false).unwrap();
    assert_eq!(selected.outcomes[&ModuleId::new("new")], LoadOutcome::Loaded);
    assert!(matches!(
        selected.outcomes[&ModuleId::new("lib")],
        LoadOutcome::Rejected { cause: RejectionCause::TooLarge, .. }
    ));
}

/// A check that ends above `room` modules, or with both modules of `pair`.
fn crashes_above(room: usize, pair: [&'static str; 2]) -> impl Fn(&[Text]) -> Option<CheckResult> {
    move |texts| {
        let has = |id: &str| texts.iter().any(|text| text.id.as_str() == id);
        let is_full = texts.len() > room || pair.into_iter().all(has);
        let faults = Faults::of(Fault::new(&texts[0].id, None, HOW));
        is_full.then(|| CheckResult { faults, termination: Some(HOW.to_owned()), ..CheckResult::default() })
    }
}

#[test]
fn too_many_modules_are_reduced_by_binary_search() {
    let of = |room: usize, pair: [&'static str; 2]| {
        let ids: Vec<String> = (0..200).map(|number| format!("{number:03}")).collect();
        let candidates: Vec<Candidate> =
            ids.iter().map(|id| candidate(&(id.as_str(), OTHER, None))).collect();
        let checker = FakeChecker::with(crashes_above(room, pair));
        let selected = futures::executor::block_on(select_modules(&candidates, &checker)).unwrap();
        let rejected = selected.outcomes.iter().filter(|(_, outcome)| **outcome != LoadOutcome::Loaded);
        let rejected: Vec<String> = rejected.map(|(id, _)| id.to_string()).collect();
        let checks = checker.checks.into_inner();
        // One check with all changes, one check without the rejected changes, and a binary search over 200 changes.
        assert!(checks <= 2 + 8 + 1, "{checks}");
        rejected
    };
    assert_eq!(of(120, ["", ""]), (120..200).map(|number| format!("{number:03}")).collect::<Vec<_>>());
    assert_eq!(of(200, ["020", "150"]), ["150"], "newer ones count all the same");
}

/// A repeated check would take seconds, until the culprit ends it.
#[test]
fn identified_culprit_is_not_checked_again() {
    let texts = [("lib", LIB, None), ("new", OTHER, None)];
    let candidates: Vec<Candidate> = texts.iter().map(candidate).collect();
    let checker = FakeChecker::with(crashes_with_lib(true));
    let selected = futures::executor::block_on(select_modules(&candidates, &checker)).unwrap();
    assert_eq!(selected.outcomes[&ModuleId::new("new")], LoadOutcome::Loaded);
    assert_eq!(checker.checks.into_inner(), 2, "with it, and without it");
}

#[test]
fn slow_modules_that_exceed_the_time_together_are_rejected_and_unread_ones_are_left_for_a_later_check() {
    let texts = ["quick", "slow-1", "slow-2", "unread-1", "unread-2"].map(|id| (id, OTHER, None));
    let candidates: Vec<Candidate> = texts.iter().map(candidate).collect();
    let checker = FakeChecker::with(|texts: &[Text]| {
        let of = |prefix: &'static str| texts.iter().filter(move |text| text.id.as_str().starts_with(prefix));
        of("slow").next()?;
        let ms = |text: &Text, ms| (text.id.clone(), Duration::from_millis(ms));
        let times = of("slow").map(|text| ms(text, 900)).chain(of("quick").map(|text| ms(text, 49)));
        let faults = Faults::of(Fault::new(&texts[0].id, None, HOW));
        Some(CheckResult {
            faults,
            times: times.collect(),
            termination: Some(HOW.to_owned()),
            ..CheckResult::default()
        })
    });
    let selected = futures::executor::block_on(select_modules(&candidates, &checker)).unwrap();
    let outcome = |id: &str| &selected.outcomes[&ModuleId::new(id)];
    assert_eq!(*outcome("quick"), LoadOutcome::Loaded);
    for slow in ["slow-1", "slow-2"] {
        let is_slow = |outcome: &LoadOutcome| match outcome {
            LoadOutcome::Rejected { faults, cause: RejectionCause::TooLarge } => {
                faults.to_string().contains("together with all other modules: this module took 900 ms")
            }
            _ => false,
        };
        assert!(is_slow(outcome(slow)), "{:?}", outcome(slow));
    }
    for unread in ["unread-1", "unread-2"] {
        assert_eq!(*outcome(unread), LoadOutcome::Unchecked);
    }
    assert!(selected.is_partial);
    assert_eq!(checker.checks.into_inner(), 2);
}

/// A check that ends at each text that contains `ends`. After `most` such texts, the check does not read the rest, and
/// skips texts that contain `sibling`.
fn stops_after_crashes(most: usize) -> impl Fn(&[Text]) -> Option<CheckResult> {
    move |texts| {
        let mut ends = texts.iter().filter(|text| text.text.contains("ends")).map(|text| text.id.clone());
        let fault = |id: ModuleId| (id.clone(), Fault::new(&id, None, HOW));
        let crashing: BTreeMap<ModuleId, Fault> = ends.by_ref().take(most).map(fault).collect();
        let siblings = texts.iter().filter(|text| text.text.contains("sibling"));
        let skipped = siblings.map(|text| (text.id.clone(), Fault::new(&text.id, None, "not checked")));
        let faults = Faults::new(crashing.values().cloned().collect());
        let (skipped, postponed) = (skipped.collect(), ends.collect());
        (!crashing.is_empty()).then(|| CheckResult {
            faults,
            crashing,
            skipped,
            postponed,
            ..CheckResult::default()
        })
    }
}

#[test]
fn modules_after_too_many_that_end_the_check_are_left_for_a_later_check() {
    let ends = "package a\nends = 1";
    let texts = [
        ("a", ends, None),
        ("b", ends, None),
        ("c", ends, Some(OTHER)),
        ("d", ends, None),
        ("new", OTHER, None),
    ];
    let candidates: Vec<Candidate> = texts.iter().map(candidate).collect();
    let checker = FakeChecker::with(stops_after_crashes(2));
    let selected = futures::executor::block_on(select_modules(&candidates, &checker)).unwrap();
    let outcome = |id: &str| &selected.outcomes[&ModuleId::new(id)];
    for id in ["a", "b"] {
        assert!(
            matches!(outcome(id), LoadOutcome::Rejected { cause: RejectionCause::CrashesCheck, .. }),
            "{id}: {:?}",
            outcome(id)
        );
    }
    assert_eq!((outcome("c"), outcome("d")), (&LoadOutcome::Unchecked, &LoadOutcome::Unchecked));
    assert_eq!(outcome("new"), &LoadOutcome::Loaded);
    assert_eq!(&*selected.in_force[&ModuleId::new("c")].text, OTHER, "the last good text stays");
    assert!(selected.is_partial);
    assert_eq!(checker.checks.into_inner(), 2, "with them, and without them");
}

#[test]
fn modules_that_end_the_check_are_rejected_at_once_however_many_are_reported() {
    let ids: Vec<String> = (0..50).map(|number| format!("{number:02}")).collect();
    let mut candidates: Vec<Candidate> =
        ids.iter().map(|id| candidate(&(id.as_str(), "package a\nends = 1", None))).collect();
    // Siblings that were not parsed: one is in force, and one is new.
    let sibling = "package a\nsibling = 1";
    candidates.extend(
        [("old", sibling, Some(sibling)), ("new", "package a\nsibling = 2", None)].iter().map(candidate),
    );
    let checker = FakeChecker::with(stops_after_crashes(50));
    let selected = futures::executor::block_on(select_modules(&candidates, &checker)).unwrap();
    let crashing = |outcome: &&LoadOutcome| {
        matches!(outcome, LoadOutcome::Rejected { cause: RejectionCause::CrashesCheck, .. })
    };
    assert_eq!(selected.outcomes.values().filter(crashing).count(), 51);
    assert_eq!(selected.outcomes[&ModuleId::new("old")], LoadOutcome::Loaded);
    assert!(!selected.is_partial);
    assert_eq!(checker.checks.into_inner(), 2, "with them, and without them");
}

#[test]
fn modules_without_a_valid_enforcement_are_checked_together_for_their_packages() {
    let ends = "package a\nends = 1";
    let texts = ["a", "b", "c", "d"].map(|id| (id, if id < "c" { OTHER } else { ends }, None));
    let candidates: Vec<Candidate> = texts
        .iter()
        .map(|text| Candidate { enforcement: Err("expected deny".to_owned()), ..candidate(text) })
        .collect();
    let checker = FakeChecker::with(stops_after_crashes(2));
    let selected = futures::executor::block_on(select_modules(&candidates, &checker)).unwrap();
    let ids: Vec<&str> = selected.packages.keys().map(ModuleId::as_str).collect();
    assert_eq!(ids, ["a", "b"]);
    let crashing = |id: &str| {
        matches!(
            selected.outcomes[&ModuleId::new(id)],
            LoadOutcome::Rejected { cause: RejectionCause::CrashesCheck, .. }
        )
    };
    assert_eq!(["a", "b", "c", "d"].map(crashing), [false, false, true, true]);
    assert_eq!(checker.checks.into_inner(), 2, "with those that end the check, and without them");
}

#[test]
fn modules_without_a_valid_enforcement_that_are_too_large_together_are_checked_in_halves() {
    let ids: Vec<String> = (0..200).map(|number| format!("{number:03}")).collect();
    let candidate = |id: &String| Candidate {
        enforcement: Err("expected deny".to_owned()),
        ..candidate(&(id.as_str(), OTHER, None))
    };
    let candidates: Vec<Candidate> = ids.iter().map(candidate).collect();
    let checker = FakeChecker::with(crashes_above(60, ["none", "none"]));
    let selected = futures::executor::block_on(select_modules(&candidates, &checker)).unwrap();
    assert_eq!(selected.packages.len(), 200);
    assert_eq!(checker.checks.into_inner(), 7, "of 200, of 100 twice, of 50 four times");
}

#[test]
fn invalid_enforcement_leaves_the_last_good_one() {
    let text = Text { id: ModuleId::new("a"), text: OTHER.into() };
    let good = LoadedText { text: OTHER.into(), enforcement: EnforcementAction::Deny };
    let of = |enforcement: Result<EnforcementAction, String>| {
        let (text, in_force) = (text.clone(), Some(good.clone()));
        let candidates = [Candidate { text, enforcement, in_force, rejected: None }];
        futures::executor::block_on(select_modules(&candidates, &InProcess::default())).unwrap()
    };
    // The package of a new text is determined anyway, so that requests in other packages are not denied.
    let candidates =
        [Candidate { enforcement: Err("expected deny".to_owned()), ..candidate(&("a", OTHER, None)) }];
    let selected = futures::executor::block_on(select_modules(&candidates, &InProcess::default())).unwrap();
    assert_eq!(selected.packages[&ModuleId::new("a")], "admission");
    for enforcement in [Err("expected deny".to_owned()), Ok(EnforcementAction::Warn)] {
        let selected = of(enforcement);
        let id = ModuleId::new("a");
        assert!(matches!(selected.outcomes[&id], LoadOutcome::Rejected { .. }), "{selected:?}");
        assert_eq!(selected.packages[&id], "admission");
        assert_eq!(selected.in_force[&id], good);
    }
}
