//! A fleet of which the API has no room for most.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::audit::Request;
use policy_sync_testenv::fixtures::namespace;
use policy_sync_testenv::world::{LIMIT, World};
use policy_sync_testenv::{Fleet, FleetOptions, wait};

use super::{condition, programmed, until_programmed};

/// The writes to Gateways among `writes`.
fn of_gateways(writes: &[Request]) -> Vec<&Request> {
    writes.iter().filter(|write| write.object().resource == "gateways").collect()
}

/// More clusters than the status has room for, all of which answer at once.
#[tokio::test]
async fn a_thousand_clusters_cost_one_write_a_window() -> Result<()> {
    let names: Vec<String> = (0..1_000).map(|n| format!("many-{n:04}")).collect();
    // On a hub of its own: this would keep that of the other tests busy.
    let fleet = Fleet::start(FleetOptions::spokes([])).await?;
    let binary = Path::new(env!("CARGO_BIN_EXE_policy-sync"));
    let world = World::new(fleet.hub(), binary, "many", &[]).await?;
    stream::iter(&names)
        .map(|name| async { apply(world.client(), &namespace(name)).await.map(drop) })
        .buffer_unordered(32)
        .try_collect::<()>()
        .await?;
    for (slice, names) in names.chunks(100).enumerate() {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        world.decide("all", slice + 1, &names).await?;
    }
    world.select("all", names.len()).await?;
    let started = Instant::now();
    let controller = world.controller().await?;
    let works = wait::until("all works are there", LIMIT, || async {
        let works = world.works().await?;
        let works: Vec<_> = works
            .into_iter()
            .filter(|work| work.metadata.name.as_deref().is_some_and(|name| name.starts_with("gateway-")))
            .collect();
        ensure!(works.len() == names.len(), "{} are", works.len());
        Ok(works)
    })
    .await?;
    until_programmed(&world, "False Pending: not programmed on 1000 of 1000 clusters: many-0000 (pending); ")
        .await?;
    let one = programmed("192.0.2.1");
    stream::iter(&works)
        .map(|work| world.answer(work, &one))
        .buffer_unordered(32)
        .try_collect::<()>()
        .await?;
    let found = until_programmed(&world, "True Programmed: programmed on all of its clusters: 1000;").await?;
    let windows = usize::try_from(started.elapsed().as_secs())? + 2;
    ensure!(found["status"]["addresses"].as_array().map(Vec::len) == Some(16), "{found}");
    ensure!(found["status"]["listeners"].as_array().map(Vec::len) == Some(64), "{found}");
    ensure!(condition(&found, "Programmed").ends_with("984 addresses, 936 listeners"), "{found}");
    let writes = world.settled(&controller).await?;
    let told = of_gateways(&writes);
    ensure!(told.len() <= windows, "{} writes in {windows} windows", told.len());
    ensure!(told.iter().all(|write| !(400..500).contains(&write.code())), "{told:?}");
    controller.terminate().await?;
    let controller = world.controller().await?;
    let writes = world.settled(&controller).await?;
    ensure!(writes.is_empty(), "the restarted controller wrote {} times", writes.len());
    Ok(())
}
