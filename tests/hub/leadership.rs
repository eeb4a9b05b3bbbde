//! Of several processes of one controller, only the leader writes. When the leader ends, a follower continues its work.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::audit::Request;
use policy_sync_testenv::fixtures::{auth_policy, managed_cluster, namespace, rate_limit_policy};
use policy_sync_testenv::tenant::{LIMIT, Tenant};
use policy_sync_testenv::{Controller, Fleet, FleetOptions, wait};
use serde_json::{Value, json};

use crate::{ON_BOTH, limit_of, tenant};

/// The lease duration of the test environment's controllers, and an allowance for a busy machine.
const LEASE: Duration = Duration::from_secs(3);
const MARGIN: Duration = Duration::from_secs(3);

/// A tenant with a synced policy on both clusters, a leader and a follower.
async fn pair(tenant: &Tenant<'_>, arguments: &[&str]) -> Result<(Controller, Controller, Value)> {
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let leader = tenant.controller_with(arguments).await?;
    tenant.until_works(&ON_BOTH).await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == 2).await?;
    let follower = tenant.follower().await?;
    tenant.settled(&leader).await?;
    Ok((leader, follower, limits))
}

fn with_limit(limits: &Value, limit: i64) -> Value {
    let mut changed = limits.clone();
    changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(limit);
    changed
}

/// Waits until both copies have this limit.
async fn until_limit(tenant: &Tenant<'_>, limit: i64) -> Result<()> {
    for cluster in ["eu-1", "us-1"] {
        tenant.until_work(cluster, "ratelimitpolicy-limits", |work| limit_of(work) == limit).await?;
    }
    Ok(())
}

/// The creates and deletes in `writes`: after a hand-over there must be none.
fn drastic(writes: &[Request]) -> Vec<&Request> {
    writes.iter().filter(|write| write.verb != "patch").collect()
}

#[tokio::test]
async fn a_follower_watches_and_writes_nothing() -> Result<()> {
    let tenant = tenant("warm", &["eu-1", "us-1"]).await?;
    let (leader, follower, limits) = pair(&tenant, &[]).await?;
    ensure!(!follower.is_leader().await?, "both are leaders");
    let (code, text) = follower.readiness().await?;
    ensure!(code == 200 && text.contains("[+]ratelimitpolicies.kuadrant.io ok"), "{code}: {text}");

    tenant.apply(&with_limit(&limits, 20)).await?;
    tenant.apply(&auth_policy(tenant.name(), "auth", "web")).await?;
    until_limit(&tenant, 20).await?;
    tenant.until_work("us-1", "authpolicy-auth", |_| true).await?;
    tenant.settled(&leader).await?;
    let writes = tenant.writes(&follower)?;
    ensure!(writes.is_empty(), "the follower wrote {writes:?}");
    let (_, text) = follower.readiness().await?;
    ensure!(
        text.contains("[+]ratelimitpolicies.kuadrant.io ok"),
        "the follower's mirror is not synced: {text}"
    );
    // Only the leader exports metrics of the hub. So a sum over both processes counts each object once.
    let works =
        async |controller: &Controller| anyhow::Ok(controller.metrics().await?.sum("policy_sync_works", &[]));
    let (of_leader, of_follower) = (works(&leader).await?, works(&follower).await?);
    ensure!((of_leader, of_follower) == (8.0, 0.0), "works: leader {of_leader}, follower {of_follower}");
    Ok(())
}

#[tokio::test]
async fn follower_takes_over_after_a_crash_of_the_leader() -> Result<()> {
    let tenant = tenant("crashes", &["eu-1", "us-1"]).await?;
    let (leader, follower, limits) = pair(&tenant, &[]).await?;
    leader.kill();
    let died = Instant::now();
    tenant.apply(&with_limit(&limits, 20)).await?;
    follower.leads().await?;
    let took = died.elapsed();
    ensure!(took < LEASE + MARGIN, "the takeover took {took:?}");
    until_limit(&tenant, 20).await?;

    let writes = tenant.settled(&follower).await?;
    tenant.until_works(&ON_BOTH).await?;
    ensure!(drastic(&writes).is_empty(), "the new leader wrote {writes:?}");
    let works = writes.iter().filter(|write| write.object().resource == "manifestworks").count();
    ensure!(works == 2, "expected two changed works: {writes:?}");
    Ok(())
}

#[tokio::test]
async fn hand_over_after_termination_takes_less_than_three_seconds() -> Result<()> {
    let tenant = tenant("hands-over", &["eu-1", "us-1"]).await?;
    // The lease is longer than the hand-over may take.
    let (leader, follower, limits) = pair(&tenant, &["--leader-elect-lease-duration=15s"]).await?;
    let began = Instant::now();
    let stopped = leader.terminate().await?;
    tenant.apply(&with_limit(&limits, 20)).await?;
    wait::until("the follower writes", LIMIT, || async {
        ensure!(!tenant.writes(&follower)?.is_empty(), "no writes");
        Ok(())
    })
    .await?;
    let took = began.elapsed();
    ensure!(took < Duration::from_secs(3), "hand-over: {took:?}, stop: {stopped:?}");
    until_limit(&tenant, 20).await?;
    ensure!(drastic(&tenant.settled(&follower).await?).is_empty());
    Ok(())
}

#[tokio::test]
async fn suspended_leader_writes_nothing_after_it_resumes() -> Result<()> {
    let tenant = tenant("wakes", &["eu-1", "us-1"]).await?;
    let (leader, follower, limits) = pair(&tenant, &[]).await?;
    let before = tenant.writes(&leader)?.len();
    leader.signal("STOP")?;
    follower.leads().await?;
    // If the old leader still acted as the leader, it would write these objects.
    tenant.apply(&with_limit(&limits, 20)).await?;
    for number in 0..30 {
        tenant.apply(&auth_policy(tenant.name(), &format!("auth-{number}"), "web")).await?;
    }
    until_limit(&tenant, 20).await?;
    leader.signal("CONT")?;
    tenant.settled(&follower).await?;
    ensure!(follower.is_leader().await? && !leader.is_leader().await?, "the resumed one leads");
    let writes = tenant.settled(&leader).await?;
    ensure!(writes.len() == before, "the resumed leader wrote {:?}", &writes[before..]);
    Ok(())
}

#[tokio::test]
async fn outage_of_the_api_server_causes_no_creates_or_deletes() -> Result<()> {
    let fleet = Fleet::start(FleetOptions::spokes([])).await?;
    let hub = fleet.hub();
    for cluster in ["eu-1", "us-1"] {
        apply(&hub.client()?, &namespace(cluster)).await?;
        apply(&hub.client()?, &managed_cluster(cluster, &BTreeMap::new())).await?;
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_policy-sync"));
    let tenant = Tenant::new(hub, binary, "outage", &["eu-1", "us-1"]).await?;
    let (leader, follower, limits) = pair(&tenant, &[]).await?;
    let before = tenant.writes(&leader)?.len();

    hub.stop_api_server();
    let stopped = Instant::now();
    let surprise = wait::until("the outage lasts 30 s", LIMIT, || async {
        let leads = [leader.is_leader().await?, follower.is_leader().await?];
        if stopped.elapsed() > LEASE && leads != [false, false] {
            return Ok(Some(leads));
        }
        ensure!(stopped.elapsed() > Duration::from_secs(30), "the outage is shorter so far");
        Ok(None)
    })
    .await?;
    ensure!(surprise.is_none(), "leader without a Lease: {surprise:?}");
    hub.start_api_server().await?;

    tenant.apply(&with_limit(&limits, 20)).await?;
    until_limit(&tenant, 20).await?;
    tenant.until_folded(&limits, |_, summary| summary.pending == 2).await?;
    tenant.settled(&follower).await?;
    let mut writes = tenant.settled(&leader).await?.split_off(before);
    writes.extend(tenant.writes(&follower)?);
    // A patch that was planned before the outage may be rejected. The controller then plans the patch again.
    writes.retain(|write| write.code() != 422);
    ensure!(drastic(&writes).is_empty() && writes.len() <= 3, "{writes:?}");
    tenant.until_works(&ON_BOTH).await
}
