//! Soak test of the users beside a hostile spoke and a hostile tenant, which write random values wherever they
//! have permission.
//!
//! The users' Placements select the hostile spoke as well, and the tenant places its own objects on the users'
//! clusters. On the other clusters, the users' works must be correct soon after each change, and stay correct across a
//! restart. Once the hostile tenant has deleted all its objects, none of the tenant's works may remain.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams};
use policy_sync_api::annotations::{CONTROLLER as CONTROLLER_LABEL, PARENT};
use policy_sync_api::names::ControllerName;
use policy_sync_testenv::MemoryServer;
use policy_sync_testenv::apply::api_for;
use policy_sync_testenv::hostile::{HOSTILE_TENANT, ROGUE};
use policy_sync_testenv::memory::{Attackers, agents};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::controllers::Controllers;
use crate::noise::Noise;
use crate::users::{CLUSTERS, CONTROLLER, Users};
use crate::{
    WorkFields, a_restart_writes_nothing, act, as_expected, each_seed, not_made_anew, settled, works_where,
};

/// The limit until the users' works have the expected contents: 5 s until a cluster counts as unplaced, and time
/// for consecutive writes.
const SOON: Duration = Duration::from_secs(12);
/// How long the works are checked after the limit [`SOON`].
const WATCHED: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The limit until statuses of Gateways and routes are right. The controller writes each status at most every 10 s.
const STATUSES_SOON: Duration = Duration::from_secs(30);
/// The interval between two moves of the attackers.
const ATTACK_EVERY: Duration = Duration::from_millis(300);

/// Whether a work is on a cluster that is not hostile.
fn is_trusted(work: &Value) -> bool {
    CLUSTERS.iter().any(|cluster| work["metadata"]["namespace"] == *cluster)
}

/// Whether a work is for an object of the hostile tenant.
fn is_of_mob(work: &Value) -> bool {
    let origin = work["metadata"]["annotations"][PARENT].as_str();
    origin.is_some_and(|origin| origin.contains(&format!("/{HOSTILE_TENANT}/")))
}

/// The users' works on the clusters that are not hostile, including the access works for these works.
fn theirs(server: &MemoryServer, users: &Users) -> BTreeMap<String, WorkFields> {
    let mut works = works_where(server, |work| is_trusted(work) && !is_of_mob(work));
    let expected = users.expected();
    // Access works that only the tenant's objects need are not compared.
    works.retain(|name, _| !name.ends_with("/access") || expected.contains_key(name));
    works
}

/// Waits until the users' works have the expected contents, and returns the elapsed time. The first check comes after
/// one [`POLL_INTERVAL`], so that writes of fields that are not compared are done as well.
async fn until_as_expected(server: &MemoryServer, users: &Users) -> Result<Duration> {
    let start = Instant::now();
    loop {
        sleep(POLL_INTERVAL).await;
        match as_expected(&theirs(server, users), users) {
            Ok(()) => return Ok(start.elapsed()),
            Err(error) if start.elapsed() > SOON => return Err(error.context(format!("not within {SOON:?}"))),
            Err(_) => {}
        }
    }
}

/// Waits for the right statuses of the users' Gateways and routes.
async fn until_statuses_match(users: &Users) -> Result<()> {
    let start = Instant::now();
    while let Err(error) = users.check_statuses() {
        ensure!(start.elapsed() < STATUSES_SOON, "not within {STATUSES_SOON:?}: {error:#}");
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Checks for [`WATCHED`] that the users' works are correct and unchanged since `before`.
async fn check_unchanged(
    server: &MemoryServer,
    users: &Users,
    before: &BTreeMap<String, WorkFields>,
) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < WATCHED {
        let now = theirs(server, users);
        as_expected(&now, users).context("the works changed after they had settled")?;
        not_made_anew(before.keys(), before, &now)?;
        for (name, work) in &now {
            // Access works may be written, because the tenant's objects may need other permissions.
            let is_written = work.generation != before[name].generation && !name.ends_with("/access");
            ensure!(!is_written, "{name} was written");
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Deletes the works whose controller label the hostile spoke has changed, as an administrator would. The controller
/// does not watch these works. Until they are deleted, it tries every minute to create them again.
async fn delete_hidden_works(server: &MemoryServer) -> Result<()> {
    let controller = ControllerName::new(CONTROLLER);
    let is_hidden = |work: &Value| {
        work["kind"] == "ManifestWork"
            && work["metadata"]["namespace"] == ROGUE
            && work["metadata"]["labels"][CONTROLLER_LABEL] != controller.hash()
    };
    for work in server.objects().values().filter(|object| is_hidden(object)) {
        let (api, name) = api_for(&server.client(), work).await?;
        api.delete(&name, &DeleteParams::default()).await.with_context(|| format!("deleting {name}"))?;
        if work["metadata"]["finalizers"].is_array() {
            let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            api.patch(&name, &PatchParams::default(), &released)
                .await
                .with_context(|| format!("releasing {name}"))?;
        }
    }
    Ok(())
}

/// Runs the seed for `rounds` rounds, and returns the longest time until works were correct. Adds the number
/// of the tenant's works to `of_mob`.
async fn one_seed(seed: u64, rounds: usize, of_mob: &AtomicUsize) -> Result<Duration> {
    let server = MemoryServer::hub()?;
    server.define_routes()?;
    tokio::spawn(agents(server.clone()));
    let mut users = Users::begin_with_extra_clusters(server.clone(), seed, &[ROGUE]).await?;
    let attack = Attackers::begin(&server, seed, ATTACK_EVERY, &CLUSTERS).await?;
    let mut controllers = Controllers::new(server.clone(), Noise::new(seed));
    controllers.start()?;

    let mut longest = Duration::ZERO;
    for round in 1..=rounds {
        let before = theirs(&server, &users);
        let wanted_throughout = act(&mut users, &mut controllers).await?;
        let done = || format!("round {round}, after {}", users.done().join(", then "));
        longest = longest.max(until_as_expected(&server, &users).await.with_context(done)?);
        let now = theirs(&server, &users);
        not_made_anew(wanted_throughout.keys(), &before, &now).with_context(done)?;
        check_unchanged(&server, &users, &now).await.with_context(done)?;
        until_statuses_match(&users).await.with_context(done)?;
        of_mob.fetch_add(
            works_where(&server, |work| is_trusted(work) && is_of_mob(work)).len(),
            Ordering::Relaxed,
        );
        controllers.start()?;
        check_unchanged(&server, &users, &now).await.with_context(|| format!("{}, and a restart", done()))?;
    }

    let written = attack.end().await?;
    delete_hidden_works(&server).await?;
    ensure!(written > 20 * rounds, "the attackers wrote only {written} times");
    settled(&server, &controllers).await.context("after the attack")?;
    as_expected(&works_where(&server, is_trusted), &users).context("after the attack")?;
    users.check_statuses().context("after the attack")?;
    a_restart_writes_nothing(&server, &mut controllers).await?;
    Ok(longest)
}

#[test]
fn hostile_spokes_and_tenants_do_not_affect_others() -> Result<()> {
    let of_mob = AtomicUsize::new(0);
    let waited = each_seed(4, 2, async |seed, rounds| one_seed(seed, rounds, &of_mob).await)?;
    let (longest, of_mob) = (waited.iter().max().context("no seed was run")?, of_mob.into_inner());
    println!("{} seeds: users waited for {:.1} s at most", waited.len(), longest.as_secs_f64());
    ensure!(of_mob > waited.len(), "the tenant had only {of_mob} works");
    Ok(())
}
