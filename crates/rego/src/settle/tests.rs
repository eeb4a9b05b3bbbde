use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::confined;
use crate::loaded_module::LoadedModule;

/// Checks in this process. Words in a text select further faults and waits.
#[derive(Default)]
struct InProcess {
    checks: AtomicUsize,
}

impl Judge for InProcess {
    async fn check(&self, texts: &[Text]) -> Result<Checked, CheckError> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        Ok(confined::checked(texts, Default::default(), &Default::default()))
    }

    fn faults(&self, bundle: &Bundle, _: &SecretReads) -> Vec<Fault> {
        let secret = bundle.modules().filter(|module| module.text.contains("secrets"));
        secret.map(|module| Fault::new(module.id(), None, "secrets may not be listed")).collect()
    }

    fn awaited(&self, bundle: &Bundle) -> BTreeMap<ModuleId, Vec<Awaited>> {
        let waits = bundle.modules().filter(|module| module.text.contains("pods"));
        waits
            .map(|module| (module.id().clone(), vec![Awaited { what: "pods".to_owned(), why: None }]))
            .collect()
    }
}

/// The id of a module, its text, and its last good text.
type Written<'t> = (&'t str, &'t str, Option<&'t str>);

fn candidate((id, text, good): &Written<'_>) -> Candidate {
    Candidate {
        text: Text { id: ModuleId::new(id), text: (*text).into() },
        enforcement: Ok(Enforcement::Deny),
        in_force: good.map(|text| InForce { text: text.into(), enforcement: Enforcement::Deny }),
        refused: None,
    }
}

fn settled(written: &[Written<'_>]) -> Settled {
    let candidates: Vec<Candidate> = written.iter().map(candidate).collect();
    futures::executor::block_on(settle(&candidates, &InProcess::default())).unwrap()
}

/// The outcome of each text, and the text in force of its module.
fn fates(written: &[Written<'_>]) -> Vec<(String, Option<String>)> {
    let settled = settled(written);
    let in_force: BTreeSet<&ModuleId> = settled.bundle.modules().map(LoadedModule::id).collect();
    assert_eq!(in_force, settled.in_force.keys().collect(), "the bundle is what is in force");
    let fate = |(id, _, _): &Written<'_>| {
        let id = ModuleId::new(id);
        let outcome = match &settled.outcomes[&id] {
            Outcome::Loaded => "loaded".to_owned(),
            Outcome::Pending(awaited) => format!("waits for {}", awaited[0]),
            Outcome::Refused { faults, .. } => faults.to_string().trim_end().to_owned(),
            Outcome::Unchecked => "unchecked".to_owned(),
        };
        (outcome, settled.in_force.get(&id).map(|good| good.text.to_string()))
    };
    written.iter().map(fate).collect()
}

fn fate(outcome: &str, in_force: Option<&str>) -> (String, Option<String>) {
    (outcome.to_owned(), in_force.map(str::to_owned))
}

const LIB: &str = "package lib\nis_bad(x) { x.bad }";
const USER: &str = "package admission\nimport data.lib\ndeny[\"no\"] { lib.is_bad(input.request) }";
const OTHER: &str = "package admission\ndeny[\"never\"] { input.request.never }";
const PODS: &str = "package admission\ndeny[\"pod\"] { data.kubernetes.pods[_][_].bad }";

#[test]
fn valid_texts_are_loaded() {
    let expected = [USER, LIB, OTHER].map(|text| fate("loaded", Some(text)));
    // Even if the required module is newer.
    assert_eq!(fates(&[("a", USER, None), ("b", LIB, None), ("c", OTHER, None)]), expected);
    assert_eq!(fates(&[]), []);
}

#[test]
fn invalid_text_leaves_its_last_good_text_and_the_others_in_force() {
    let fault = "a:2:1: unknown function foo.bar";
    let wrong = "package admission\ndeny[\"no\"] { foo.bar(1) }";
    let found = fates(&[("a", wrong, Some(OTHER)), ("b", LIB, None), ("c", USER, Some(USER))]);
    assert!(found[0].0.contains("foo.bar"), "{found:?} for {fault}");
    assert_eq!(found[0].1.as_deref(), Some(OTHER));
    assert_eq!(found[1..], [LIB, USER].map(|text| fate("loaded", Some(text))));
    let found = fates(&[("a", wrong, None), ("b", OTHER, None)]);
    assert_eq!((found[0].1.as_deref(), &found[1]), (None, &fate("loaded", Some(OTHER))));
}

#[test]
fn older_of_two_conflicting_texts_stays() {
    let (function, rule) = ("package a\nf(x) = x { true }", "package a\nf = 1 { true }");
    for (older, newer) in [(function, rule), (rule, function)] {
        // The engine finds faults in the order of ids, so both orders are tried.
        for (first, second) in [("a", "b"), ("b", "a")] {
            let found = fates(&[(first, older, None), (second, newer, None)]);
            assert_eq!(found[0], fate("loaded", Some(older)));
            assert!(found[1].0.starts_with(second) && found[1].1.is_none(), "{found:?}");
        }
        // Texts in force count as older than changes.
        let found = fates(&[("a", newer, Some(OTHER)), ("b", older, Some(older))]);
        assert!(found[0].0.starts_with("a") && found[0].1.as_deref() == Some(OTHER), "{found:?}");
        assert_eq!(found[1], fate("loaded", Some(older)));
    }
}

#[test]
fn library_change_that_breaks_its_users_is_rejected() {
    let changed = "package lib\nis_worse(x) { x.bad }";
    let found = fates(&[("lib", changed, Some(LIB)), ("user", USER, Some(USER)), ("new", OTHER, None)]);
    let fault =
        "lib: conflicts with modules that were loaded before: user:3:14: unknown function data.lib.is_bad";
    assert!(
        found[0].0.starts_with("lib: conflicts with modules that were loaded before: user:3:"),
        "{found:?} {fault}"
    );
    assert_eq!(found[0].1.as_deref(), Some(LIB));
    assert_eq!(found[1..], [USER, OTHER].map(|text| fate("loaded", Some(text))));
    // If the library is removed, the modules that use it are removed too.
    let written = [("user", USER, Some(USER)), ("new", OTHER, None), ("old", OTHER, Some(OTHER))];
    let found = fates(&written);
    assert!(found[0].0.starts_with("user:3:") && found[0].1.is_none(), "{found:?}");
    assert_eq!(found[1..], [OTHER, OTHER].map(|text| fate("loaded", Some(text))));
    let packages = settled(&written).packages;
    assert_eq!(packages[&ModuleId::new("user")], "admission", "of what is refused, too");
}

#[test]
fn pending_text_delays_only_texts_that_need_it() {
    let lib = "package lib\nis_bad(x) { data.kubernetes.pods[_][_].bad == x }";
    let found = fates(&[("a", OTHER, None), ("lib", lib, None), ("user", USER, None)]);
    let expected = [fate("loaded", Some(OTHER)), fate("waits for pods", None), fate("waits for lib", None)];
    assert_eq!(found, expected);
    let found = fates(&[("lib", lib, Some(LIB)), ("user", USER, Some(USER)), ("pods", PODS, None)]);
    let expected =
        [fate("waits for pods", Some(LIB)), fate("loaded", Some(USER)), fate("waits for pods", None)];
    assert_eq!(found, expected);
    let reads = settled(&[("pods", PODS, None)]).reads;
    assert_eq!(reads.into_iter().collect::<Vec<_>>(), ["pods"], "else nobody would list them");
}

#[test]
fn faults_of_the_judge_reject_a_text() {
    let secret = "package admission\ndeny[\"s\"] { data.kubernetes.secrets[_][_].bad }";
    let found = fates(&[("a", secret, None), ("b", OTHER, None)]);
    assert_eq!(found, [fate("a: secrets may not be listed", None), fate("loaded", Some(OTHER))]);
    let reads = settled(&[("a", secret, None)]).reads;
    assert_eq!(reads.into_iter().collect::<Vec<_>>(), ["secrets"], "else nobody would know when they may be");
    // A new text that needs a pending one has no fault itself.
    let lib = "package lib\nis_bad(x) { data.kubernetes.pods[_][_].bad == x }\nis_new(x) { x.bad }";
    let user = "package admission\nimport data.lib\ndeny[\"no\"] { lib.is_new(input.request) }";
    let found = fates(&[("lib", lib, Some(LIB)), ("user", user, Some(USER))]);
    assert_eq!(found, [fate("waits for pods", Some(LIB)), fate("waits for lib", Some(USER))]);
}

#[test]
fn text_that_ended_the_check_is_not_checked_again() {
    let faults = Faults::new(vec![Fault::new(&ModuleId::new("a"), None, "the check took more than 2 s")]);
    let text = Text { id: ModuleId::new("a"), text: OTHER.into() };
    let refused = Some((faults.clone(), Cause::EndsCheck));
    let candidate = Candidate { text, enforcement: Ok(Enforcement::Deny), in_force: None, refused };
    let judge = InProcess::default();
    let settled = futures::executor::block_on(settle(&[candidate], &judge)).unwrap();
    assert_eq!(settled.outcomes[&ModuleId::new("a")], Outcome::Refused { faults, cause: Cause::EndsCheck });
    assert_eq!(judge.checks.load(Ordering::Relaxed), 0);
}

/// A judge with the check `check`, which returns `None` for texts to check in this process. It counts its checks.
struct Checking<F> {
    check: F,
    checks: AtomicUsize,
}

impl<F> Checking<F> {
    fn with(check: F) -> Self {
        Self { check, checks: AtomicUsize::new(0) }
    }
}

impl<F: Fn(&[Text]) -> Option<Checked> + Sync> Judge for Checking<F> {
    async fn check(&self, texts: &[Text]) -> Result<Checked, CheckError> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        let checked = (self.check)(texts);
        Ok(checked.unwrap_or_else(|| confined::checked(texts, Default::default(), &Default::default())))
    }

    fn faults(&self, _: &Bundle, _: &SecretReads) -> Vec<Fault> {
        Vec::new()
    }

    fn awaited(&self, _: &Bundle) -> BTreeMap<ModuleId, Vec<Awaited>> {
        BTreeMap::new()
    }
}

/// The message for the end of a check.
const HOW: &str = "the check ended by signal 6";

/// A check that the module `lib` ends. If `alone`, `lib` is identified as the culprit.
fn dies(alone: bool) -> impl Fn(&[Text]) -> Option<Checked> {
    move |texts| {
        texts.iter().find(|text| *text.text == *LIB)?;
        let id = ModuleId::new("lib");
        let fault = Fault::new(&id, None, HOW);
        let mut checked = Checked { faults: Faults::of(fault.clone()), ..Checked::default() };
        if alone {
            checked.deadly.insert(id, fault);
        } else {
            checked.died = Some(HOW.to_owned());
        }
        Some(checked)
    }
}

#[test]
fn failed_check_does_not_remove_texts_in_force() {
    let of = |texts: &[Written<'_>], alone: bool| {
        let candidates: Vec<Candidate> = texts.iter().map(candidate).collect();
        futures::executor::block_on(settle(&candidates, &Checking::with(dies(alone))))
    };
    for alone in [true, false] {
        assert!(matches!(of(&[("lib", LIB, Some(LIB))], alone), Err(CheckError::Died(_))));
    }
    let settled = of(&[("lib", LIB, None)], true).unwrap();
    assert!(matches!(
        settled.outcomes[&ModuleId::new("lib")],
        Outcome::Refused { cause: Cause::EndsCheck, .. }
    ));
    // The culprit is unknown: the newest changes are rejected until the check passes.
    let settled = of(&[("new", OTHER, None), ("lib", LIB, None)], false).unwrap();
    assert_eq!(settled.outcomes[&ModuleId::new("new")], Outcome::Loaded);
    assert!(matches!(
        settled.outcomes[&ModuleId::new("lib")],
        Outcome::Refused { cause: Cause::TooLarge, .. }
    ));
}

/// A check that ends above `room` modules, or with both modules of `pair`.
fn dies_above(room: usize, pair: [&'static str; 2]) -> impl Fn(&[Text]) -> Option<Checked> {
    move |texts| {
        let has = |id: &str| texts.iter().any(|text| text.id.as_str() == id);
        let is_full = texts.len() > room || pair.into_iter().all(has);
        let faults = Faults::of(Fault::new(&texts[0].id, None, HOW));
        is_full.then(|| Checked { faults, died: Some(HOW.to_owned()), ..Checked::default() })
    }
}

#[test]
fn too_many_modules_are_reduced_by_binary_search() {
    let of = |room: usize, pair: [&'static str; 2]| {
        let ids: Vec<String> = (0..200).map(|number| format!("{number:03}")).collect();
        let candidates: Vec<Candidate> =
            ids.iter().map(|id| candidate(&(id.as_str(), OTHER, None))).collect();
        let judge = Checking::with(dies_above(room, pair));
        let settled = futures::executor::block_on(settle(&candidates, &judge)).unwrap();
        let refused = settled.outcomes.iter().filter(|(_, outcome)| **outcome != Outcome::Loaded);
        let refused: Vec<String> = refused.map(|(id, _)| id.to_string()).collect();
        let checks = judge.checks.into_inner();
        // One check with all, one without the rejected ones, and a binary search over 200.
        assert!(checks <= 2 + 8 + 1, "{checks}");
        refused
    };
    assert_eq!(of(120, ["", ""]), (120..200).map(|number| format!("{number:03}")).collect::<Vec<_>>());
    assert_eq!(of(200, ["020", "150"]), ["150"], "newer ones count all the same");
}

/// Each such check takes seconds.
#[test]
fn identified_culprit_is_not_checked_again() {
    let texts = [("lib", LIB, None), ("new", OTHER, None)];
    let candidates: Vec<Candidate> = texts.iter().map(candidate).collect();
    let judge = Checking::with(dies(true));
    let settled = futures::executor::block_on(settle(&candidates, &judge)).unwrap();
    assert_eq!(settled.outcomes[&ModuleId::new("new")], Outcome::Loaded);
    assert_eq!(judge.checks.into_inner(), 2, "with it, and without it");
}

#[test]
fn slow_modules_that_exceed_the_time_together_are_rejected_and_unread_ones_are_left_for_a_later_check() {
    let texts = ["quick", "slow-1", "slow-2", "unread-1", "unread-2"].map(|id| (id, OTHER, None));
    let candidates: Vec<Candidate> = texts.iter().map(candidate).collect();
    let judge = Checking::with(|texts: &[Text]| {
        let of = |prefix: &'static str| texts.iter().filter(move |text| text.id.as_str().starts_with(prefix));
        of("slow").next()?;
        let ms = |text: &Text, ms| (text.id.clone(), Duration::from_millis(ms));
        let times = of("slow").map(|text| ms(text, 900)).chain(of("quick").map(|text| ms(text, 49)));
        let faults = Faults::of(Fault::new(&texts[0].id, None, HOW));
        Some(Checked { faults, times: times.collect(), died: Some(HOW.to_owned()), ..Checked::default() })
    });
    let settled = futures::executor::block_on(settle(&candidates, &judge)).unwrap();
    let outcome = |id: &str| &settled.outcomes[&ModuleId::new(id)];
    assert_eq!(*outcome("quick"), Outcome::Loaded);
    for slow in ["slow-1", "slow-2"] {
        let is_slow = |outcome: &Outcome| match outcome {
            Outcome::Refused { faults, cause: Cause::TooLarge } => {
                faults.to_string().contains("with all others: this module took 900 ms")
            }
            _ => false,
        };
        assert!(is_slow(outcome(slow)), "{:?}", outcome(slow));
    }
    for unread in ["unread-1", "unread-2"] {
        assert_eq!(*outcome(unread), Outcome::Unchecked);
    }
    assert!(settled.is_partial);
    assert_eq!(judge.checks.into_inner(), 2);
}

/// A check that ends at texts that contain `ends`, gives up after `most` of them, and then skips texts that contain
/// `sibling`.
fn gives_up_after(most: usize) -> impl Fn(&[Text]) -> Option<Checked> {
    move |texts| {
        let mut ends = texts.iter().filter(|text| text.text.contains("ends")).map(|text| text.id.clone());
        let fault = |id: ModuleId| (id.clone(), Fault::new(&id, None, HOW));
        let deadly: BTreeMap<ModuleId, Fault> = ends.by_ref().take(most).map(fault).collect();
        let siblings = texts.iter().filter(|text| text.text.contains("sibling"));
        let skipped = siblings.map(|text| (text.id.clone(), Fault::new(&text.id, None, "not checked")));
        let faults = Faults::new(deadly.values().cloned().collect());
        let (skipped, postponed) = (skipped.collect(), ends.collect());
        (!deadly.is_empty()).then(|| Checked { faults, deadly, skipped, postponed, ..Checked::default() })
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
    let judge = Checking::with(gives_up_after(2));
    let settled = futures::executor::block_on(settle(&candidates, &judge)).unwrap();
    let outcome = |id: &str| &settled.outcomes[&ModuleId::new(id)];
    for id in ["a", "b"] {
        assert!(
            matches!(outcome(id), Outcome::Refused { cause: Cause::EndsCheck, .. }),
            "{id}: {:?}",
            outcome(id)
        );
    }
    assert_eq!((outcome("c"), outcome("d")), (&Outcome::Unchecked, &Outcome::Unchecked));
    assert_eq!(outcome("new"), &Outcome::Loaded);
    assert_eq!(&*settled.in_force[&ModuleId::new("c")].text, OTHER, "the last good text stays");
    assert!(settled.is_partial);
    assert_eq!(judge.checks.into_inner(), 2, "with them, and without them");
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
    let judge = Checking::with(gives_up_after(50));
    let settled = futures::executor::block_on(settle(&candidates, &judge)).unwrap();
    let deadly = |outcome: &&Outcome| matches!(outcome, Outcome::Refused { cause: Cause::EndsCheck, .. });
    assert_eq!(settled.outcomes.values().filter(deadly).count(), 51);
    assert_eq!(settled.outcomes[&ModuleId::new("old")], Outcome::Loaded);
    assert!(!settled.is_partial);
    assert_eq!(judge.checks.into_inner(), 2, "with them, and without them");
}

#[test]
fn modules_without_a_valid_enforcement_are_checked_together_for_their_packages() {
    let ends = "package a\nends = 1";
    let texts = ["a", "b", "c", "d"].map(|id| (id, if id < "c" { OTHER } else { ends }, None));
    let candidates: Vec<Candidate> = texts
        .iter()
        .map(|text| Candidate { enforcement: Err("expected deny".to_owned()), ..candidate(text) })
        .collect();
    let judge = Checking::with(gives_up_after(2));
    let settled = futures::executor::block_on(settle(&candidates, &judge)).unwrap();
    let ids: Vec<&str> = settled.packages.keys().map(ModuleId::as_str).collect();
    assert_eq!(ids, ["a", "b"]);
    let deadly = |id: &str| {
        matches!(settled.outcomes[&ModuleId::new(id)], Outcome::Refused { cause: Cause::EndsCheck, .. })
    };
    assert_eq!(["a", "b", "c", "d"].map(deadly), [false, false, true, true]);
    assert_eq!(judge.checks.into_inner(), 2, "with those that end the check, and without them");
}

#[test]
fn modules_without_a_valid_enforcement_that_are_too_large_together_are_checked_in_halves() {
    let ids: Vec<String> = (0..200).map(|number| format!("{number:03}")).collect();
    let candidate = |id: &String| Candidate {
        enforcement: Err("expected deny".to_owned()),
        ..candidate(&(id.as_str(), OTHER, None))
    };
    let candidates: Vec<Candidate> = ids.iter().map(candidate).collect();
    let judge = Checking::with(dies_above(60, ["none", "none"]));
    let settled = futures::executor::block_on(settle(&candidates, &judge)).unwrap();
    assert_eq!(settled.packages.len(), 200);
    assert_eq!(judge.checks.into_inner(), 7, "of 200, of 100 twice, of 50 four times");
}

#[test]
fn invalid_enforcement_leaves_the_last_good_one() {
    let text = Text { id: ModuleId::new("a"), text: OTHER.into() };
    let good = InForce { text: OTHER.into(), enforcement: Enforcement::Deny };
    let of = |enforcement: Result<Enforcement, String>| {
        let (text, in_force) = (text.clone(), Some(good.clone()));
        let candidates = [Candidate { text, enforcement, in_force, refused: None }];
        futures::executor::block_on(settle(&candidates, &InProcess::default())).unwrap()
    };
    // The package of a new text is determined anyway, so that requests in other packages are not denied.
    let candidates =
        [Candidate { enforcement: Err("expected deny".to_owned()), ..candidate(&("a", OTHER, None)) }];
    let settled = futures::executor::block_on(settle(&candidates, &InProcess::default())).unwrap();
    assert_eq!(settled.packages[&ModuleId::new("a")], "admission");
    for enforcement in [Err("expected deny".to_owned()), Ok(Enforcement::Warn)] {
        let settled = of(enforcement);
        let id = ModuleId::new("a");
        assert!(matches!(settled.outcomes[&id], Outcome::Refused { .. }), "{settled:?}");
        assert_eq!(settled.packages[&id], "admission");
        assert_eq!(settled.in_force[&id], good);
    }
}
