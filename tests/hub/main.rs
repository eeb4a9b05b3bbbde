//! The controller on a real API server. What agents would answer, the tests write themselves, so that they can
//! answer late, wrongly or never.

mod freezing;
mod kinds;
mod placement;
mod settling;
mod writing;

use std::path::Path;

use anyhow::Result;
use policy_sync_testenv::{Fleet, World};

/// A world of its own, on the hub that all tests share.
async fn world(name: &str, clusters: &[&str]) -> Result<World<'static>> {
    let fleet = Fleet::shared_hub().await?;
    World::new(fleet.hub(), Path::new(env!("CARGO_BIN_EXE_policy-sync")), name, clusters).await
}
