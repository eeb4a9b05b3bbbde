//! Runs fault plans concurrently, each in its own runtime, and compares them with the run without faults.

use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::env::{self, VarError};
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use policy_sync_testenv::memory::fault_plan::{EVENT_FAULTS, Faults, Plan, REQUEST_FAULTS};
use policy_sync_testenv::memory::{Attack, Attackers, RequestInfo};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

use crate::hub::{Hub, LIMIT, USER, soon};
use crate::oracle::{Effects, State};
use crate::scenario::{self, Step};

/// The environment variable that selects plans by a part of their name; `×` is part of all names.
const CHOSEN: &str = "POLICY_SYNC_FAULT_PLAN";
/// How many failed plans are printed in full.
const MAX_PRINTED: usize = 3;
/// The environment variable with the sampling rate if no plans are selected: one in this many plans of each
/// kind.
const SHARE: &str = "POLICY_SYNC_FAULT_SHARE";
/// The default of [`SHARE`]. A run of all plans takes an hour of processor time.
const ONE_OF: usize = 10;
/// The environment variable that seeds the sample.
const SEED: &str = "POLICY_SYNC_FAULT_SEED";
/// After a watch breaks, a delete can fail until the watch has listed its objects again. This is the number of
/// additional reads for such a delete: 7 attempts in 3 s, with up to 10 reads each. The duration of the fault does not
/// include this list.
const UNTIL_LISTED: usize = 70;

/// The interval between two moves of the attackers.
const ATTACK_EVERY: Duration = Duration::from_millis(700);
/// The minimum number of accepted attacker writes.
const WRITTEN: usize = 100;

thread_local! {
    /// Panics in this thread. A runtime catches the panics of its tasks, and all tasks of a run are in one
    /// thread.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The result of a run, its faults and its request log.
struct Run {
    outcome: Result<Outcome>,
    faults: Faults,
    log: Vec<RequestInfo>,
    panics: Vec<String>,
}

/// The comparable result of a run.
struct Outcome {
    /// The state at the end of each step, and the final state.
    steps: Vec<Step>,
    effects: Effects,
    /// The number of requests of the controller.
    requests: usize,
    /// How long the fault lasted.
    lasted: Duration,
    /// The time from which the state must equal the state without faults.
    recovered: Instant,
}

/// Installs a panic hook that records panics in [`PANICS`].
fn note_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICS.with_borrow_mut(|panics| panics.push(info.to_string()));
            tell(info);
        }));
    });
}

/// Runs the scenario under `faults` in its own runtime with paused time, beside attackers if `attack` has a
/// seed.
fn run(faults: Faults, attack: Option<u64>) -> Result<Run> {
    note_panics();
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let mut run = runtime.block_on(async {
        let hub = Hub::new(&scenario::parameters()).await?;
        scenario::prepare(&hub).await?;
        // The hostile tenant also writes routes.
        hub.server.define_routes()?;
        let attack = match attack {
            Some(seed) => Some(Attackers::begin(&hub.server, seed, ATTACK_EVERY, &["eu-1", "us-1"]).await?),
            None => None,
        };
        let _controller = hub.controller(faults.clone())?;
        let outcome = outcome(&hub, &faults, attack).await;
        let log = hub.server.requests().into_iter().filter(|request| request.user == USER).collect();
        anyhow::Ok(Run { outcome, faults, log, panics: Vec::new() })
    })?;
    drop(runtime);
    run.panics = PANICS.take();
    Ok(run)
}

/// Runs the scenario on `hub` until it is settled and quiet.
async fn outcome(hub: &Hub, faults: &Faults, attack: Option<Attack>) -> Result<Outcome> {
    let recovers = async {
        let mut lasted = Duration::ZERO;
        if faults.plan().is_some() {
            // The disturbed request or event comes before the second watch of its kind. This second watch begins before
            // the limit.
            match faults.over(&hub.server, LIMIT).await {
                // Beside attackers, the request or event to disturb may not occur.
                Err(_) if attack.is_some() && faults.disturbed().is_none() => {}
                over => lasted = over?,
            }
            sleep(soon(lasted)).await;
        }
        Ok((lasted, Instant::now()))
    };
    let (mut steps, (lasted, recovered)) = tokio::try_join!(scenario::play(hub), recovers)?;
    if let Some(attack) = attack {
        let written = attack.end().await?;
        ensure!(written > WRITTEN, "the attackers wrote only {written} times");
        hub.settled().await?;
    }
    let end = State::of(hub);
    hub.quiet().await?;
    let changed = State::of(hub).difference(&end);
    ensure!(changed.is_empty(), "the state changed after it had settled:\n{changed}");
    steps.push(Step { at: Instant::now(), state: end });
    let requests = hub.server.count(|request| request.user == USER);
    Ok(Outcome { steps, effects: Effects::of(hub), requests, lasted, recovered })
}

impl Outcome {
    /// The outcome without objects that attackers can influence. The number of requests is 0, because attackers also
    /// cause requests.
    fn of_others(&self) -> Self {
        let of_others = |step: &Step| Step { at: step.at, state: step.state.of_others() };
        Self {
            steps: self.steps.iter().map(of_others).collect(),
            effects: self.effects.of_others(),
            requests: 0,
            ..*self
        }
    }

    /// The differences from the run without faults that are not allowed; empty if there are none.
    fn difference(&self, faultless: &Self, disturbed: Option<&RequestInfo>) -> String {
        let mut text = self.effects.difference(&faultless.effects, disturbed);
        let steps = self.steps.iter().zip(&faultless.steps).enumerate();
        for (number, (step, expected)) in steps.filter(|(_, (step, _))| step.at >= self.recovered) {
            let differs = step.state.difference(&expected.state);
            if !differs.is_empty() {
                text = format!("{text}at the end of step {number}:\n{differs}");
                break;
            }
        }
        let limit = faultless.requests + more_requests(self.lasted);
        if self.requests > limit {
            text = format!("{text}{} requests, expected at most {limit}\n", self.requests);
        }
        text
    }
}

/// The allowed number of additional requests for a fault that `lasted` this long. The number covers repeated requests,
/// the pages of repeated lists, and the retries of each waiting key. A retry of a delete reads all its inputs.
fn more_requests(lasted: Duration) -> usize {
    let seconds = usize::try_from(lasted.as_secs()).unwrap_or(usize::MAX);
    // Most retries come in the first minute, after which the backoff is at its longest.
    30 + UNTIL_LISTED + 6 * seconds.min(60) + seconds
}

/// The run without faults: its outcome, and the requests and events that can be disturbed.
pub(crate) struct Faultless {
    outcome: Outcome,
    pub(crate) faults: Faults,
}

/// Runs the scenario without faults.
pub(crate) fn faultless() -> Result<Faultless> {
    let Run { outcome, faults, panics, .. } = run(Faults::default(), None)?;
    ensure!(panics.is_empty(), "panics without faults: {panics:?}");
    Ok(Faultless { outcome: outcome.context("the run without faults failed")?, faults })
}

/// Runs a plan. Returns a description of the failure, empty if there is none, and whether the fault occurred.
/// With an `attack` seed, only objects out of the attackers' reach are compared, and the fault need not
/// occur.
fn judge(faultless: &Faultless, plan: &Plan, attack: Option<u64>) -> Result<(String, bool)> {
    let Run { outcome, faults, log, panics } = run(Faults::of(plan), attack)?;
    let has_disturbed = faults.disturbed().is_some();
    let fault = match (outcome, faults.disturbed()) {
        _ if !panics.is_empty() => format!("{}\n", panics.join("\n")),
        (Err(error), _) => format!("{error:#}\n"),
        (Ok(outcome), disturbed) if attack.is_some() => {
            outcome.of_others().difference(&faultless.outcome.of_others(), disturbed.as_ref())
        }
        (Ok(_), None) => "the fault did not occur\n".to_owned(),
        (Ok(outcome), disturbed) => outcome.difference(&faultless.outcome, disturbed.as_ref()),
    };
    if fault.is_empty() {
        return Ok((fault, has_disturbed));
    }
    let start = log.first().map(|request| request.at.0).unwrap_or_default();
    let mut lines: Vec<String> = Vec::new();
    for request in log.iter().filter(|request| request.resource != "leases") {
        lines.push(format!("{:>9} ms  {:>3}  {request}", request.at.0 - start, request.code));
    }
    Ok((format!("{fault}requests:\n{}", lines.join("\n")), has_disturbed))
}

/// The plans with `part` in their names.
fn named(plans: &[Plan], part: &str) -> Vec<Plan> {
    plans.iter().filter(|plan| plan.to_string().contains(part)).cloned().collect()
}

/// The error message for a `part` that is in no plan's name.
fn none_named(part: &str) -> String {
    let faults =
        REQUEST_FAULTS.iter().map(|(fault, _)| *fault).chain(EVENT_FAULTS.iter().map(|(fault, _)| *fault));
    let faults: BTreeSet<&str> = faults.collect();
    format!(
        "{CHOSEN}='{part}' matches no plan: expected a part of `<request or event> × <fault>`, such as \
         `patch manifestworks`, `event of gateways`, a fault ({}), or `×` for all plans",
        Vec::from_iter(faults).join(", ")
    )
}

/// Samples one in `share` plans, but at least one for each combination of fault and kind of request or event.
/// The `seed` selects the sample.
fn sampled(plans: Vec<Plan>, share: usize, seed: &str) -> Vec<Plan> {
    let rank = |plan: &Plan| {
        let mut hasher = DefaultHasher::new();
        (seed, plan.to_string()).hash(&mut hasher);
        hasher.finish()
    };
    let mut kinds: BTreeMap<(String, &str), Vec<Plan>> = BTreeMap::new();
    for plan in plans {
        kinds.entry((plan.kind(), plan.fault)).or_default().push(plan);
    }
    let sampled = kinds.into_values().flat_map(|mut plans| {
        plans.sort_by_key(rank);
        plans.truncate(plans.len().div_ceil(share));
        plans
    });
    sampled.collect()
}

/// The sample of `plans` set by [`SHARE`], or the plans that [`CHOSEN`] selects.
pub(crate) fn chosen(plans: Vec<Plan>) -> Result<Vec<Plan>> {
    match env::var(CHOSEN) {
        Ok(part) => Ok(named(&plans, &part)),
        Err(VarError::NotUnicode(part)) => bail!("{}", none_named(&part.to_string_lossy())),
        Err(VarError::NotPresent) => {
            let share = match env::var(SHARE) {
                Ok(text) => text.parse::<NonZeroUsize>().with_context(|| format!("{SHARE}={text}"))?.get(),
                Err(_) => ONE_OF,
            };
            let all = plans.len();
            let plans = sampled(plans, share, &env::var(SEED).unwrap_or_default());
            println!("{} of {all} plans, one of {share} of each kind", plans.len());
            Ok(plans)
        }
    }
}

/// Runs the `plans` selected by [`chosen`]. Fails if there are fewer plans than `least` and [`CHOSEN`] is not set.
pub(crate) fn sweep(faultless: &Faultless, plans: Vec<Plan>, least: usize) -> Result<()> {
    let is_named = if let Ok(part) = env::var(CHOSEN) {
        let all = [faultless.faults.request_plans(), faultless.faults.event_plans()].concat();
        ensure!(!named(&all, &part).is_empty(), "{}", none_named(&part));
        true
    } else {
        false
    };
    let plans = chosen(plans)?;
    ensure!(is_named || plans.len() >= least, "only {} plans are selected", plans.len());
    each(&plans, |plan| judge(faultless, plan, None).map(|(fault, _)| fault))
}

/// Runs one in `share` of all plans, or the plans that [`CHOSEN`] selects, each beside attackers with its own
/// seed.
pub(crate) fn sweep_beside_attackers(faultless: &Faultless, share: usize) -> Result<()> {
    let all = [faultless.faults.request_plans(), faultless.faults.event_plans()].concat();
    let plans = match env::var(CHOSEN) {
        Ok(part) => named(&all, &part),
        Err(_) => all.into_iter().step_by(share).collect(),
    };
    ensure!(!plans.is_empty(), "no plan is selected");
    let disturbed = AtomicUsize::new(0);
    each(&plans, |plan| {
        let (fault, has_disturbed) = judge(faultless, plan, Some(attackers_of(plan)))?;
        disturbed.fetch_add(usize::from(has_disturbed), Ordering::Relaxed);
        Ok(fault)
    })?;
    let disturbed = disturbed.into_inner();
    ensure!(2 * disturbed > plans.len(), "the fault occurred in only {disturbed} of {} plans", plans.len());
    Ok(())
}

/// The seed of the attackers beside `plan`: a hash of the plan's name, so that a plan that runs alone has the same
/// attackers.
pub(crate) fn attackers_of(plan: &Plan) -> u64 {
    let mut hasher = DefaultHasher::new();
    plan.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Runs `judge` for all plans on all processors, and fails with a summary of the failed plans.
pub(crate) fn each(plans: &[Plan], judge: impl Fn(&Plan) -> Result<String> + Sync) -> Result<()> {
    println!("{} plans", plans.len());
    let next = AtomicUsize::new(0);
    let failed: Mutex<Vec<(String, String)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match judge(plan) {
                        Ok(fault) if fault.is_empty() => {}
                        Ok(fault) => failed.lock().push((plan.to_string(), fault)),
                        Err(error) => failed.lock().push((plan.to_string(), format!("{error:#}"))),
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    let names: BTreeSet<&String> = failed.iter().map(|(name, _)| name).collect();
    let messages: Vec<String> =
        failed.iter().take(MAX_PRINTED).map(|(name, fault)| format!("{CHOSEN}='{name}'\n{fault}")).collect();
    ensure!(
        failed.is_empty(),
        "{} of {} plans failed: {names:#?}\n\n{}",
        failed.len(),
        plans.len(),
        messages.join("\n\n")
    );
    Ok(())
}

#[test]
fn sample_has_each_fault_for_each_kind_of_request_with_any_seed() {
    let at = |verb: &str, number| format!("{verb} manifestworks eu-1/limits#{number}");
    let of = |verb: &'static str| {
        (0..25).flat_map(move |number| ["403", "reset"].map(|fault| Plan { at: at(verb, number), fault }))
    };
    let all: Vec<Plan> = of("create").chain(of("patch").take(2)).collect();
    let samples: Vec<Vec<Plan>> =
        ["a", "b", "c"].map(|seed| sampled(all.clone(), 10, seed)).into_iter().collect();
    for sample in &samples {
        let of = |verb: &str, fault| {
            sample.iter().filter(|plan| plan.at.starts_with(verb) && plan.fault == fault).count()
        };
        let counts = [of("create", "403"), of("create", "reset"), of("patch", "403"), of("patch", "reset")];
        assert_eq!(counts, [3, 3, 1, 1]);
    }
    assert!(samples[0] != samples[1] || samples[1] != samples[2], "the seed does not affect the sample");
    assert_eq!(samples[0], sampled(all.clone(), 10, "a"));
    assert_eq!(sampled(all.clone(), 1, "").len(), all.len());
}

#[test]
fn unknown_plan_name_is_rejected_with_the_list_of_faults() {
    let plan = |at: &str, fault| Plan { at: at.to_owned(), fault };
    let plans =
        [plan("create manifestworks eu-1/limits#1", "403"), plan("event of gateways shop/web#1", "cut")];
    assert_eq!(named(&plans, "manifestworks"), plans[..1]);
    assert_eq!(named(&plans, "× cut"), plans[1..]);
    assert_eq!(named(&plans, "×"), plans);
    assert!(named(&plans, "answer lots").is_empty());
    let message = none_named("answer lots");
    assert!(message.contains("POLICY_SYNC_FAULT_PLAN='answer lots'"), "{message}");
    for (fault, _) in REQUEST_FAULTS {
        assert!(message.contains(fault), "{message}");
    }
    for (fault, _) in EVENT_FAULTS {
        assert!(message.contains(fault), "{message}");
    }
}
