//! B5: a cluster joins many policies, and leaves them.
//!
//! A scene of its own: many policies whose Gateway is on one cluster, and then on one more. Joining is timed from the
//! decision, leaving from the end of the rule about clusters that disappear: the Gateway goes first, and its policies once
//! it is gone.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::api::{Api, DeleteParams, ListParams, Preconditions};
use policy_sync::api::work::ManifestWork;
use policy_sync::mirror::PLACEMENT_SETTLES;

use super::agents;
use super::fan_out::by_raw;
use super::observer::Observer;
use super::raw::{self, Ready};
use super::report::{Measure, progress};
use super::sample::Sample;
use super::scene::Scene;
use super::stage::{CLASS, Stage, Stored, register};

/// The cluster that joins and leaves.
const CLUSTER: &str = "comes-and-goes";

/// Joining and leaving against raw creates and deletes.
pub(super) async fn measure(stage: &mut Stage, runs: usize, policies: usize) -> Result<Vec<Measure>> {
    stage.settle().await?;
    let clusters = ["stays".to_owned(), CLUSTER.to_owned()];
    register(&stage.client, &clusters).await?;
    let scene = Scene::set(&stage.client, "wide", CLASS, &clusters[..1]).await?;
    scene.add(0..policies).await?;

    let mut arena = Arena { observer: stage.observe().await?, stage, scene, clusters, policies };
    let works = arena.works().await?;
    let mut at_once = [(Duration::MAX, 0); 2];
    for tried in raw::TRIED {
        let took = arena.raw(&works, [tried; 2]).await?;
        at_once = [0, 1].map(|index| at_once[index].min((took[index], tried)));
    }
    let at_once = at_once.map(|(_, tried)| tried);
    let (mut raw, mut controller) = (Vec::new(), Vec::new());
    for run in 1..=runs {
        raw.push(arena.raw(&works, at_once).await?);
        controller.push(arena.controller().await?);
        progress(&format!(
            "membership {run} of {runs}: raw {:?}, controller {:?}",
            raw[run - 1],
            controller[run - 1]
        ));
    }
    arena.clear().await?;
    let row = |index: usize, what: &str| {
        let of = |times: &[[Duration; 2]]| Sample::of(times.iter().map(|time| time[index].as_secs_f64()));
        let measure = format!("a cluster {what} {policies} policies, {} raw at once", at_once[index]);
        Measure::ratio("B5", measure, &of(&controller), &of(&raw), 1.15)
    };
    Ok(vec![row(0, "joins"), row(1, "leaves")])
}

struct Arena<'s> {
    stage: &'s Stage,
    observer: Observer,
    scene: Scene,
    clusters: [String; 2],
    policies: usize,
}

impl Arena<'_> {
    /// The works that joining makes. The cluster has left again then, and no controller runs.
    async fn works(&mut self) -> Result<Vec<Stored>> {
        let controller = self.stage.launch()?;
        self.stage.quiet().await?;
        self.join().await?;
        let works = self.list().await?.into_iter().map(Stored::of).collect();
        self.leave().await?;
        controller.terminate().await?;
        works
    }

    /// How long the controller takes to join and to leave.
    async fn controller(&mut self) -> Result<[Duration; 2]> {
        let controller = self.stage.launch()?;
        self.stage.quiet().await?;
        let joined = self.join().await?;
        self.answer().await?;
        self.stage.quiet().await?;
        let left = self.leave().await?;
        controller.terminate().await?;
        Ok([joined, left])
    }

    async fn join(&mut self) -> Result<Duration> {
        let placed = self.scene.place(&self.clusters).await?;
        let last =
            self.observer.until(self.policies, |seen| seen.came() && seen.namespace == CLUSTER).await?;
        Ok(last.saturating_duration_since(placed.decided))
    }

    async fn leave(&mut self) -> Result<Duration> {
        let placed = self.scene.place(&self.clusters[..1]).await?;
        let last = self.gone().await?;
        Ok(last.saturating_duration_since(placed.counted + PLACEMENT_SETTLES))
    }

    /// Answers for the cluster's agent, so that its Gateway follows the policies.
    async fn answer(&self) -> Result<()> {
        let works = self.list().await?;
        let answers = works.iter().map(|work| agents::answer(work, "all is well")).collect::<Result<_>>()?;
        raw::send(&self.stage.client, answers, agents::AT_ONCE).await.map(drop)
    }

    async fn gone(&mut self) -> Result<Instant> {
        self.observer.until(self.policies, |seen| seen.gone() && seen.namespace == CLUSTER).await
    }

    /// How long raw creates and deletes of the same works take.
    async fn raw(&mut self, works: &[Stored], at_once: [usize; 2]) -> Result<[Duration; 2]> {
        let created = by_raw(self.stage, works, at_once[0]).await?;
        self.answer().await?;
        let deletes = self.list().await?.iter().map(delete).collect::<Result<Vec<_>>>()?;
        let started = Instant::now();
        let (_, last) = tokio::try_join!(raw::send(&self.stage.client, deletes, at_once[1]), self.gone())?;
        Ok([created, last - started])
    }

    async fn list(&self) -> Result<Vec<ManifestWork>> {
        let works: Api<ManifestWork> = Api::namespaced(self.stage.client.clone(), CLUSTER);
        let list = ListParams::default().labels(&self.stage.policy_works());
        Ok(works.list(&list).await.context("listing works")?.items)
    }

    /// Removes what the other rows do not expect.
    async fn clear(self) -> Result<()> {
        self.scene.remove(0..self.policies).await?;
        self.scene.place(&[]).await?;
        self.stage.delete_works(&self.clusters).await
    }
}

/// As the controller deletes: only the work that was seen.
fn delete(work: &ManifestWork) -> Result<Ready> {
    let preconditions = Preconditions { uid: work.metadata.uid.clone(), resource_version: None };
    let parameters = DeleteParams::background().preconditions(preconditions);
    let name = work.metadata.name.as_deref().unwrap_or_default();
    let delete = raw::works_of(CLUSTER).delete(name, &parameters).context("making a delete")?;
    Ok(raw::answered_by_metadata(delete))
}
