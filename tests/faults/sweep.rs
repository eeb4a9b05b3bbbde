//! Runs plans, each in a runtime of its own, several at a time.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use policy_sync_testenv::memory::Asked;
use tokio::runtime::Builder;

use crate::hub::{Hub, USER};
use crate::oracle::Outcome;
use crate::plan::{Faults, Plan};
use crate::scenario::{self, all_kinds};

/// The environment variable with a part of the names of the plans to run; `×` stands in all of them.
const CHOSEN: &str = "POLICY_SYNC_FAULT_PLAN";
/// How many failed plans are told in full.
const TOLD: usize = 3;

thread_local! {
    /// What has panicked in this thread. A runtime keeps the panics of its tasks to itself, and a run's tasks are all in
    /// the run's thread.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A run, and what disturbed it.
struct Run {
    outcome: Result<Outcome>,
    faults: Faults,
    log: Vec<Asked>,
    panics: Vec<String>,
}

/// Has panics noted from now on.
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

/// Plays the scenario under `faults`, in a runtime of its own under paused time.
fn run(faults: Faults) -> Result<Run> {
    note_panics();
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let mut run = runtime.block_on(async {
        let hub = Hub::new(&all_kinds()).await?;
        scenario::prepare(&hub).await?;
        let _controller = hub.controller(faults.clone())?;
        scenario::play(&hub).await?;
        let settled = hub.settled().await;
        let log = hub.server.requests().into_iter().filter(|asked| asked.user == USER).collect();
        anyhow::Ok(Run { outcome: settled.map(|()| Outcome::of(&hub)), faults, log, panics: Vec::new() })
    })?;
    drop(runtime);
    run.panics = PANICS.take();
    Ok(run)
}

/// What the faultless run is: its outcome, and what can be disturbed in it.
pub(crate) struct Faultless {
    outcome: Outcome,
    pub(crate) faults: Faults,
}

/// Runs the scenario without faults.
pub(crate) fn faultless() -> Result<Faultless> {
    let Run { outcome, faults, panics, .. } = run(Faults::default())?;
    ensure!(panics.is_empty(), "without faults: {panics:?}");
    Ok(Faultless { outcome: outcome.context("without faults")?, faults })
}

/// What is wrong with a plan's run; empty where nothing is.
fn judge(faultless: &Faultless, plan: &Plan) -> Result<String> {
    let Run { outcome, faults, log, panics } = run(Faults::of(plan))?;
    let fault = match (outcome, faults.disturbed()) {
        _ if !panics.is_empty() => format!("{}\n", panics.join("\n")),
        (Err(error), _) => format!("{error:#}\n"),
        (Ok(_), None) => "it disturbed nothing\n".to_owned(),
        (Ok(outcome), disturbed) => outcome.difference(&faultless.outcome, disturbed.as_ref()),
    };
    if fault.is_empty() {
        return Ok(fault);
    }
    let start = log.first().map(|asked| asked.at.0).unwrap_or_default();
    let mut lines: Vec<String> = Vec::new();
    for asked in log.iter().filter(|asked| asked.resource != "leases") {
        lines.push(format!("{:>9} ms  {:>3}  {asked}", asked.at.0 - start, asked.code));
    }
    Ok(format!("{fault}requests:\n{}", lines.join("\n")))
}

/// Runs half of `plans`, `least` at least, or those that [`CHOSEN`] names. There are `faults` for each place where one
/// can be, and each place meets half of them, each fault half of the places.
pub(crate) fn sweep(faultless: &Faultless, plans: Vec<Plan>, faults: usize, least: usize) -> Result<()> {
    let plans: Vec<Plan> = match std::env::var(CHOSEN) {
        Ok(chosen) => plans.into_iter().filter(|plan| plan.to_string().contains(&chosen)).collect(),
        Err(_) => {
            let is_run = |index: usize| (index / faults + index % faults).is_multiple_of(2);
            let plans = plans.into_iter().enumerate().filter(|(index, _)| is_run(*index));
            let plans: Vec<Plan> = plans.map(|(_, plan)| plan).collect();
            ensure!(plans.len() >= least, "there are only {} plans", plans.len());
            plans
        }
    };
    println!("{} plans", plans.len());
    let next = AtomicUsize::new(0);
    let failed: Mutex<Vec<(String, String)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match judge(faultless, plan) {
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
    let told: Vec<String> =
        failed.iter().take(TOLD).map(|(name, fault)| format!("{CHOSEN}='{name}'\n{fault}")).collect();
    ensure!(
        failed.is_empty(),
        "{} of {} plans failed: {names:#?}\n\n{}",
        failed.len(),
        plans.len(),
        told.join("\n\n")
    );
    Ok(())
}
