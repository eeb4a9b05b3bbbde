//! Compares `topology` with istiod and `effective` with the Kuadrant operator.
//!
//! A *world* is a set of objects of one cluster. A fixture has random worlds in the short form of
//! `tests/topology`, each with the reports of the real controllers. On every run, two tests compare these reports
//! with the output of the commands. If `POLICY_SYNC_DOWNSTREAM` is set to a directory with the controllers, two
//! more tests apply the same worlds to a real API server, and compare the new reports. With `POLICY_SYNC_UPDATE`,
//! they store the new reports in the fixture.
//!
//! With these controllers, the tests in `travel` also cover the path from hub to spoke and back. A policy of
//! the hub is enforced on a spoke, and the reports of the controllers return to the hub.

mod cluster;
mod controllers;
mod differences;
mod fixtures;
mod istio;
mod kuadrant;
#[path = "../topology/shorthand.rs"]
#[allow(clippy::unwrap_used)]
mod shorthand;
mod travel;
mod worlds;

use anyhow::Result;

use crate::cluster::Cluster;
use crate::differences::Difference;
use crate::fixtures::{Fixture, World};

fn compare_all(worlds: &[World], compare: impl Fn(&World) -> Vec<Difference>) -> Vec<Difference> {
    worlds.iter().flat_map(compare).collect()
}

#[test]
fn topology_agrees_with_stored_statuses_of_istiod() -> Result<()> {
    let worlds = fixtures::read(Fixture::Istio, &worlds::of_routes())?;
    differences::check(&compare_all(&worlds, istio::compare), differences::ISTIO)
}

#[test]
fn effective_agrees_with_stored_policies_of_the_operator() -> Result<()> {
    let worlds = fixtures::read(Fixture::Kuadrant, &worlds::of_policies())?;
    differences::check(&compare_all(&worlds, kuadrant::compare), differences::KUADRANT)
}

#[tokio::test]
async fn topology_agrees_with_istiod() -> Result<()> {
    let Some(cluster) = Cluster::start(&["pilot-discovery"]).await? else { return Ok(()) };
    let worlds = istio::apply_and_collect(&cluster, worlds::of_routes()).await?;
    fixtures::record(Fixture::Istio, &worlds)?;
    differences::check(&compare_all(&worlds, istio::compare), differences::ISTIO)
}

#[tokio::test]
async fn effective_agrees_with_the_operator() -> Result<()> {
    let Some(cluster) = Cluster::start(&["pilot-discovery", "kuadrant-operator"]).await? else {
        return Ok(());
    };
    let worlds = kuadrant::apply_and_collect(&cluster, worlds::of_policies()).await?;
    fixtures::record(Fixture::Kuadrant, &worlds)?;
    differences::check(&compare_all(&worlds, kuadrant::compare), differences::KUADRANT)
}
