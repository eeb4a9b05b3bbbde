//! Runs plans, each in a runtime of its own, several at a time.

use std::collections::BTreeSet;
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

/// The environment variable that names one plan to run.
const ONE_PLAN: &str = "POLICY_SYNC_FAULT_PLAN";
/// How many failed plans are told in full.
const TOLD: usize = 3;

/// A run, and what disturbed it.
struct Run {
    outcome: Result<Outcome>,
    faults: Faults,
    log: Vec<Asked>,
}

/// Plays the scenario under `faults`, in a runtime of its own under paused time.
fn run(faults: Faults) -> Result<Run> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let run = runtime.block_on(async {
        let hub = Hub::new(&all_kinds()).await?;
        scenario::prepare(&hub).await?;
        let _controller = hub.controller(faults.clone())?;
        scenario::play(&hub).await?;
        let settled = hub.settled().await;
        let log = hub.server.requests().into_iter().filter(|asked| asked.user == USER).collect();
        Ok(Run { outcome: settled.map(|()| Outcome::of(&hub)), faults, log })
    });
    drop(runtime);
    run
}

/// What the faultless run is: its outcome, and what can be disturbed in it.
pub(crate) struct Faultless {
    outcome: Outcome,
    pub(crate) faults: Faults,
}

/// Runs the scenario without faults.
pub(crate) fn faultless() -> Result<Faultless> {
    let Run { outcome, faults, .. } = run(Faults::default())?;
    Ok(Faultless { outcome: outcome.context("without faults")?, faults })
}

/// What is wrong with a plan's run; empty where nothing is.
fn judge(faultless: &Faultless, plan: &Plan) -> Result<String> {
    let Run { outcome, faults, log } = run(Faults::of(plan))?;
    let fault = match (outcome, faults.disturbed()) {
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

/// Runs all of `plans`, or the one that [`ONE_PLAN`] names.
pub(crate) fn sweep(faultless: &Faultless, plans: Vec<Plan>) -> Result<()> {
    let chosen = std::env::var(ONE_PLAN).unwrap_or_default();
    let plans: Vec<Plan> =
        plans.into_iter().filter(|plan| chosen.is_empty() || plan.to_string() == chosen).collect();
    ensure!(!plans.is_empty(), "there is no plan {chosen:?}");
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
        failed.iter().take(TOLD).map(|(name, fault)| format!("{ONE_PLAN}='{name}'\n{fault}")).collect();
    ensure!(
        failed.is_empty(),
        "{} of {} plans failed: {names:#?}\n\n{}",
        failed.len(),
        plans.len(),
        told.join("\n\n")
    );
    Ok(())
}
