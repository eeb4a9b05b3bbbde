//! The same users, beside a spoke and a tenant that write random values into everything that they may, all the while.
//!
//! The spoke is one of those that the users' own Placements choose, and the tenant places what it has on their clusters.
//! On the other clusters the users' works have to be as they should soon after a change, and stay so; and what the
//! attackers did must leave nothing once they are gone.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use policy_sync::api::annotations::PARENT;
use policy_sync_testenv::MemoryServer;
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::fixtures::{managed_cluster, namespace};
use policy_sync_testenv::memory::{Attackers, agents};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::controllers::Controllers;
use crate::noise::Noise;
use crate::users::{CLUSTERS, SHOP, Users};
use crate::{Seen, each_seed, settled, works_where};

/// The hostile spoke.
const ROGUE: &str = "rogue";
/// The hostile tenant.
const MOB: &str = "mob";
/// How soon the users' works are as they should be: 5 s until a cluster counts as left, and a moment for each of what
/// comes one after the other.
const SOON: Duration = Duration::from_secs(12);
/// How long they are looked at then.
const WATCHED: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The attackers do something so often.
const ATTACK_EVERY: Duration = Duration::from_millis(300);

/// What the users have on the clusters that are not hostile, and what gives access to it.
fn theirs(server: &MemoryServer, users: &Users) -> BTreeMap<String, Seen> {
    let of_users = |work: &Value| {
        let parent = work["metadata"]["annotations"][PARENT].as_str();
        let trusted = CLUSTERS.iter().any(|cluster| work["metadata"]["namespace"] == *cluster);
        trusted && parent.is_none_or(|parent| parent.contains(&format!("/{SHOP}/")))
    };
    let (mut works, expected) = (works_where(server, of_users), users.expected());
    // The tenant has some too, and then there is access whatever the users have.
    works.retain(|name, _| !name.ends_with("/access") || expected.contains_key(name));
    works
}

/// Whether they are as they should be.
fn as_expected(works: &BTreeMap<String, Seen>, users: &Users) -> Result<()> {
    let expected = users.expected();
    let found: BTreeMap<&String, &Value> = works.iter().map(|(name, work)| (name, &work.copy)).collect();
    ensure!(found == expected.iter().collect(), "expected the works {expected:#?}, found {found:#?}");
    Ok(())
}

/// Waits until they are, and returns for how long.
async fn until_as_expected(server: &MemoryServer, users: &Users) -> Result<Duration> {
    let start = Instant::now();
    loop {
        match as_expected(&theirs(server, users), users) {
            Ok(()) => return Ok(start.elapsed()),
            Err(error) if start.elapsed() > SOON => return Err(error.context(format!("not within {SOON:?}"))),
            Err(_) => sleep(LOOK_EVERY).await,
        }
    }
}

/// Watches that nothing of theirs changes.
async fn stays(server: &MemoryServer, users: &Users) -> Result<()> {
    let before = theirs(server, users);
    let start = Instant::now();
    while start.elapsed() < WATCHED {
        let now = theirs(server, users);
        as_expected(&now, users).context("settled, and then changed")?;
        for (name, work) in &now {
            let (was, is) = (&before[name], work);
            // What the tenant has there may need other rights.
            let is_written = was.generation != is.generation && !name.ends_with("/access");
            ensure!(was.uid == is.uid && !is_written, "{name} was written");
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// Tells what the seed says, in so many rounds; returns the longest that the users had to wait.
async fn told(seed: u64, rounds: usize) -> Result<Duration> {
    let server = MemoryServer::hub()?;
    tokio::spawn(agents(server.clone()));
    let mut users = Users::beside(server.clone(), seed, &[ROGUE]).await?;
    for object in [namespace(ROGUE), managed_cluster(ROGUE, &BTreeMap::new()), namespace(MOB)] {
        apply(&server.client(), &object).await?;
    }
    let clusters: Vec<&str> = CLUSTERS.into_iter().chain([ROGUE]).collect();
    let attackers = Attackers::new(&server, seed, ROGUE, MOB, &clusters);
    let stop = CancellationToken::new();
    let attacking = attackers.go_on(ATTACK_EVERY, stop.clone());
    let mut controllers = Controllers::new(server.clone(), Noise::new(seed));
    controllers.start()?;

    let mut longest = Duration::ZERO;
    for round in 1..=rounds {
        for _ in 0..users.how_many() {
            users.act().await?;
            if users.crashes() {
                controllers.start()?;
            }
            sleep(users.pause()).await;
        }
        users.mend().await?;
        let done = || format!("round {round}, after {}", users.done().join(", then "));
        longest = longest.max(until_as_expected(&server, &users).await.with_context(done)?);
        stays(&server, &users).await.with_context(done)?;
        controllers.start()?;
        sleep(SOON).await;
        stays(&server, &users).await.with_context(|| format!("{}, and a restart", done()))?;
    }

    stop.cancel();
    attacking.await?.context("the attackers gave up")?.leave().await?;
    settled(&server, &controllers).await.context("once the attackers had gone")?;
    as_expected(&theirs(&server, &users), &users)?;
    let writes = controllers.writes();
    controllers.start()?;
    settled(&server, &controllers).await?;
    ensure!(controllers.writes() == writes, "a restart wrote {}", controllers.last_write());
    Ok(longest)
}

#[test]
fn whatever_a_spoke_and_a_tenant_write_others_go_on() -> Result<()> {
    let waited = each_seed(4, 2, told)?;
    let longest = waited.iter().max().context("no seed was told")?;
    println!("{} seeds: users waited for {:.1} s at most", waited.len(), longest.as_secs_f64());
    Ok(())
}
