//! Soak test: random users, faults, crashes and attackers against a server in memory. Paused time makes hours
//! pass in minutes.
//!
//! ```text
//! seed ─▶ round: actions of users, faults meanwhile, perhaps a crash
//!           └─▶ faults end ─▶ settled ─▶ do works and topology match an independent calculation?
//!                                    └─▶ restart ─▶ does it write nothing?
//! ```
//!
//! The faults depend on the seed and the content of each request, not on the order of requests, so that a failed seed
//! can be repeated. `hack/soak` runs as many seeds as requested; the test suite runs a few seeds.

#![allow(clippy::unwrap_used)]

mod controllers;
mod hostile;
mod names;
mod noise;
mod placed;
mod users;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::time::sleep;

use controllers::Controllers;
use noise::Noise;
use policy_sync_testenv::MemoryServer;
use policy_sync_testenv::memory::agents;
use users::Users;

/// The state counts as settled after this time without writes, which is longer than the longest backoff.
const QUIET: Duration = Duration::from_secs(75);
/// The interval of checks whether the state has settled.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The limit until the state has settled after the last fault.
const LIMIT: Duration = Duration::from_secs(1800);

/// The result of one seed.
#[derive(Clone, Copy, Debug, Default)]
struct SeedReport {
    /// The number of user actions.
    actions: usize,
    /// The number of faults.
    faults: usize,
    /// How often a controller was started.
    starts: usize,
    /// The simulated time.
    passed: Duration,
}

/// Runs the seed for `rounds` rounds, and checks each settled state.
///
/// # Errors
///
/// The failed check, with the round and the users' actions.
async fn outcome(seed: u64, rounds: usize) -> Result<SeedReport> {
    let server = MemoryServer::hub()?;
    server.define_routes()?;
    let started = tokio::time::Instant::now();
    tokio::spawn(agents(server.clone()));
    let noise = Noise::new(seed);
    let mut users = Users::begin(server.clone(), seed).await?;
    let mut controllers = Controllers::new(server.clone(), noise.clone());
    controllers.start()?;
    for round in 1..=rounds {
        let outcome = one_round(&server, &mut users, &mut controllers, &noise).await;
        outcome.with_context(|| format!("round {round}, after {}", users.done().join(", then ")))?;
    }
    Ok(SeedReport {
        actions: users.actions(),
        faults: noise.faults(),
        starts: controllers.starts(),
        passed: started.elapsed(),
    })
}

async fn one_round(
    server: &MemoryServer,
    users: &mut Users,
    controllers: &mut Controllers,
    noise: &Noise,
) -> Result<()> {
    let before = works(server);
    noise.begin();
    let mut wanted_throughout = act(users, controllers).await?;
    sleep(2 * users.pause()).await;
    noise.end();
    let now = users.expected();
    wanted_throughout.retain(|work, _| now.contains_key(work));

    settled(server, controllers).await?;
    let after = works(server);
    as_expected(&after, users)?;
    not_made_anew(wanted_throughout.keys(), &before, &after)?;
    users.check_topology()?;

    a_restart_writes_nothing(server, controllers).await
}

/// Performs a round's user actions and crashes; returns the works that were expected at all times.
async fn act(users: &mut Users, controllers: &mut Controllers) -> Result<BTreeMap<String, Value>> {
    let mut wanted_throughout = users.expected();
    for _ in 0..users.how_many() {
        users.act().await?;
        users.act_on_routes().await?;
        let now = users.expected();
        wanted_throughout.retain(|work, _| now.contains_key(work));
        if users.crashes() {
            controllers.start()?;
        }
        sleep(users.pause()).await;
    }
    users.repair().await?;
    Ok(wanted_throughout)
}

/// Checks that the works have the expected contents.
fn as_expected(works: &BTreeMap<String, WorkFields>, users: &Users) -> Result<()> {
    let expected = users.expected();
    let found: BTreeMap<&String, &Value> = works.iter().map(|(name, work)| (name, &work.copy)).collect();
    ensure!(found == expected.iter().collect(), "expected the works {expected:#?}, found {found:#?}");
    Ok(())
}

async fn a_restart_writes_nothing(server: &MemoryServer, controllers: &mut Controllers) -> Result<()> {
    controllers.start()?;
    let writes = controllers.writes();
    settled(server, controllers).await?;
    ensure!(controllers.writes() == writes, "a restart wrote {}", controllers.last_write());
    Ok(())
}

/// Checks that the works `names`, which were expected at all times, were neither deleted nor recreated since
/// `before`.
fn not_made_anew<'n>(
    names: impl Iterator<Item = &'n String>,
    before: &BTreeMap<String, WorkFields>,
    after: &BTreeMap<String, WorkFields>,
) -> Result<()> {
    for name in names {
        if let Some(before) = before.get(name) {
            let after = after
                .get(name)
                .with_context(|| format!("{name} was expected at all times, but is missing"))?;
            ensure!(after.uid == before.uid, "{name} was expected at all times, but was recreated");
        }
    }
    Ok(())
}

async fn settled(server: &MemoryServer, controllers: &Controllers) -> Result<()> {
    let start = tokio::time::Instant::now();
    let (mut seen, mut since) = (usize::MAX, start);
    while since.elapsed() < QUIET {
        ensure!(
            start.elapsed() < LIMIT,
            "the controller does not settle: its last write was {}",
            controllers.last_write()
        );
        sleep(POLL_INTERVAL).await;
        let writes = controllers.writes();
        if writes != seen || !server.is_undisturbed() {
            (seen, since) = (writes, tokio::time::Instant::now());
        }
    }
    Ok(())
}

/// The compared fields of a work.
struct WorkFields {
    uid: String,
    generation: i64,
    /// The summary of the work's copy by [`users::copy_summary`].
    copy: Value,
}

/// All works, by `<cluster>/<kind>-<name>`.
fn works(server: &MemoryServer) -> BTreeMap<String, WorkFields> {
    works_where(server, |_| true)
}

/// The works that `is_such` accepts.
fn works_where(server: &MemoryServer, is_such: impl Fn(&Value) -> bool) -> BTreeMap<String, WorkFields> {
    let objects = server.objects();
    let works = objects.into_iter().filter(|(_, object)| is_such(object)).filter_map(|(name, work)| {
        let name = name.strip_prefix("manifestworks.work.open-cluster-management.io ")?.to_owned();
        let (readable, _) = name.rsplit_once('-')?;
        let uid = work["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let generation = work["metadata"]["generation"].as_i64().unwrap_or_default();
        let copy = users::copy_summary(&work["spec"]["workload"]["manifests"]);
        Some((readable.to_owned(), WorkFields { uid, generation, copy }))
    });
    works.collect()
}

/// The number in the environment variable `POLICY_SYNC_SOAK_<name>`, which `hack/soak` sets.
fn setting(name: &str, default: u64) -> Result<u64> {
    match std::env::var(format!("POLICY_SYNC_SOAK_{name}")) {
        Ok(text) => text.parse().with_context(|| format!("POLICY_SYNC_SOAK_{name}={text}")),
        Err(_) => Ok(default),
    }
}

/// Runs `run_seed` on all processors, for the given number of seeds and rounds or the numbers that `hack/soak` sets.
/// Stops at the first failure.
fn each_seed<T: Send>(
    seeds: u64,
    rounds: u64,
    run_seed: impl AsyncFn(u64, usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let (first, count) = (setting("SEED", 1)?, setting("SEEDS", seeds)?);
    let rounds = usize::try_from(setting("ROUNDS", rounds)?)?;
    let end = Instant::now() + Duration::from_secs(60 * setting("MINUTES", 0)?);
    let next = AtomicU64::new(first);
    let results: Mutex<Vec<Result<T>>> = Mutex::default();
    let one = |seed| {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build()?;
        runtime.block_on(run_seed(seed, rounds)).with_context(|| format!("seed {seed}"))
    };
    let one_after_the_other = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let over = seed >= first + count && Instant::now() > end;
            if over || results.lock().unwrap().iter().any(Result::is_err) {
                return;
            }
            let result = one(seed);
            results.lock().unwrap().push(result);
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(one_after_the_other))));
    results.into_inner().unwrap().into_iter().collect()
}

#[test]
fn random_actions_and_faults_end_in_the_expected_state() -> Result<()> {
    let outcome = each_seed(12, 4, outcome)?;
    let sum = |of: fn(&SeedReport) -> usize| outcome.iter().map(of).sum::<usize>();
    let hours = outcome.iter().map(|outcome| outcome.passed.as_secs_f64()).sum::<f64>() / 3600.0;
    println!(
        "{} seeds, {hours:.1} hours: {} actions of users, {} faults, {} starts of the controller",
        outcome.len(),
        sum(|outcome| outcome.actions),
        sum(|outcome| outcome.faults),
        sum(|outcome| outcome.starts),
    );
    ensure!(sum(|outcome| outcome.faults) > 10 * outcome.len(), "too few faults occurred");
    Ok(())
}
