//! Of several processes of one controller one writes, and when it goes another carries on where it stopped.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::audit::Request;
use policy_sync_testenv::fixtures::{auth_policy, managed_cluster, namespace, rate_limit_policy};
use policy_sync_testenv::world::{LIMIT, World};
use policy_sync_testenv::{Controller, Fleet, FleetOptions, wait};
use serde_json::{Value, json};

use crate::{ON_BOTH, limit_of, world};

/// The Lease that the environment's controllers ask for, and what a busy machine may add.
const LEASE: Duration = Duration::from_secs(3);
const MARGIN: Duration = Duration::from_secs(3);

/// A settled world: a policy on both clusters, a leader and a follower.
async fn pair(world: &World<'_>, arguments: &[&str]) -> Result<(Controller, Controller, Value)> {
    let limits = rate_limit_policy(world.name(), "limits", "web");
    world.apply(&limits).await?;
    let leader = world.controller_with(arguments).await?;
    world.until_works(&ON_BOTH).await?;
    world.until_folded(&limits, |entries, _| entries.len() == 2).await?;
    let follower = world.follower().await?;
    world.settled(&leader).await?;
    Ok((leader, follower, limits))
}

fn with_limit(limits: &Value, limit: i64) -> Value {
    let mut changed = limits.clone();
    changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(limit);
    changed
}

/// Waits until both copies have this limit.
async fn until_limit(world: &World<'_>, limit: i64) -> Result<()> {
    for cluster in ["eu-1", "us-1"] {
        world.until_work(cluster, "ratelimitpolicy-limits", |work| limit_of(work) == limit).await?;
    }
    Ok(())
}

/// How many of `writes` create or delete: after a hand-over nothing that is wanted may be made twice or lost.
fn drastic(writes: &[Request]) -> Vec<&Request> {
    writes.iter().filter(|write| write.verb != "patch").collect()
}

#[tokio::test]
async fn a_follower_watches_and_writes_nothing() -> Result<()> {
    let world = world("warm", &["eu-1", "us-1"]).await?;
    let (leader, follower, limits) = pair(&world, &[]).await?;
    ensure!(!follower.is_leader().await?, "both lead");
    let (code, text) = follower.readiness().await?;
    ensure!(code == 200 && text.contains("[+]ratelimitpolicies.kuadrant.io ok"), "{code}: {text}");

    world.apply(&with_limit(&limits, 20)).await?;
    world.apply(&auth_policy(world.name(), "auth", "web")).await?;
    until_limit(&world, 20).await?;
    world.until_work("us-1", "authpolicy-auth", |_| true).await?;
    world.settled(&leader).await?;
    let writes = world.writes(&follower)?;
    ensure!(writes.is_empty(), "the follower wrote {writes:?}");
    let metrics = follower.metrics().await?;
    ensure!(metrics.contains("policy_sync_works{for=\"policy\""), "its mirror is not warm: {metrics}");
    Ok(())
}

#[tokio::test]
async fn after_a_crash_another_takes_over() -> Result<()> {
    let world = world("crashes", &["eu-1", "us-1"]).await?;
    let (leader, follower, limits) = pair(&world, &[]).await?;
    leader.kill();
    let died = Instant::now();
    world.apply(&with_limit(&limits, 20)).await?;
    follower.leads().await?;
    let took = died.elapsed();
    ensure!(took < LEASE + MARGIN, "it took {took:?}");
    until_limit(&world, 20).await?;

    let writes = world.settled(&follower).await?;
    world.until_works(&ON_BOTH).await?;
    ensure!(drastic(&writes).is_empty(), "it wrote {writes:?}");
    let works = writes.iter().filter(|write| write.object().resource == "manifestworks").count();
    ensure!(works == 2, "two works had changed: {writes:?}");
    Ok(())
}

#[tokio::test]
async fn a_hand_over_takes_less_than_three_seconds() -> Result<()> {
    let world = world("hands-over", &["eu-1", "us-1"]).await?;
    // A Lease that lasts longer than this may take.
    let (leader, follower, limits) = pair(&world, &["--leader-elect-lease-duration=15"]).await?;
    let asked = Instant::now();
    let stopped = leader.terminate().await?;
    world.apply(&with_limit(&limits, 20)).await?;
    wait::until("the follower writes", LIMIT, || async {
        ensure!(!world.writes(&follower)?.is_empty(), "it has written nothing");
        Ok(())
    })
    .await?;
    let took = asked.elapsed();
    ensure!(took < Duration::from_secs(3), "it took {took:?}, of which {stopped:?} to stop");
    until_limit(&world, 20).await?;
    ensure!(drastic(&world.settled(&follower).await?).is_empty());
    Ok(())
}

#[tokio::test]
async fn a_leader_that_wakes_late_writes_nothing() -> Result<()> {
    let world = world("wakes", &["eu-1", "us-1"]).await?;
    let (leader, follower, limits) = pair(&world, &[]).await?;
    let before = world.writes(&leader)?.len();
    leader.signal("STOP")?;
    follower.leads().await?;
    // All of this it finds to do when it wakes, if it believes that it still leads.
    world.apply(&with_limit(&limits, 20)).await?;
    for number in 0..30 {
        world.apply(&auth_policy(world.name(), &format!("auth-{number}"), "web")).await?;
    }
    until_limit(&world, 20).await?;
    leader.signal("CONT")?;
    world.settled(&follower).await?;
    ensure!(follower.is_leader().await? && !leader.is_leader().await?, "the late one took the Lease back");
    let writes = world.settled(&leader).await?;
    ensure!(writes.len() == before, "the late one wrote {:?}", &writes[before..]);
    Ok(())
}

#[tokio::test]
async fn an_api_server_that_is_away_changes_nothing() -> Result<()> {
    let fleet = Fleet::start(FleetOptions::spokes([])).await?;
    let hub = fleet.hub();
    for cluster in ["eu-1", "us-1"] {
        apply(&hub.client()?, &namespace(cluster)).await?;
        apply(&hub.client()?, &managed_cluster(cluster, &BTreeMap::new())).await?;
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_policy-sync"));
    let world = World::new(hub, binary, "outage", &["eu-1", "us-1"]).await?;
    let (leader, follower, limits) = pair(&world, &[]).await?;
    let before = world.writes(&leader)?.len();

    hub.stop_api_server();
    let stopped = Instant::now();
    let surprise = wait::until("the outage is over", LIMIT, || async {
        let leads = [leader.is_leader().await?, follower.is_leader().await?];
        if stopped.elapsed() > LEASE && leads != [false, false] {
            return Ok(Some(leads));
        }
        ensure!(stopped.elapsed() > Duration::from_secs(30), "it goes on");
        Ok(None)
    })
    .await?;
    ensure!(surprise.is_none(), "one leads without a Lease: {surprise:?}");
    hub.start_api_server().await?;

    world.apply(&with_limit(&limits, 20)).await?;
    until_limit(&world, 20).await?;
    world.until_folded(&limits, |_, summary| summary.pending == 2).await?;
    world.settled(&follower).await?;
    let mut writes = world.settled(&leader).await?.split_off(before);
    writes.extend(world.writes(&follower)?);
    // A patch from before the outage that was answered during it is refused and planned again.
    writes.retain(|write| write.code() != 422);
    ensure!(drastic(&writes).is_empty() && writes.len() <= 3, "{writes:?}");
    world.until_works(&ON_BOTH).await
}
