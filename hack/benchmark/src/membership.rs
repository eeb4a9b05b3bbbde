//! B5: a cluster joins many policies, and leaves them.
//!
//! A separate scene has many policies whose Gateway is on one cluster, and then also on a second cluster. The time to
//! join starts with the decision of the Placement. The time to leave starts after the delay for clusters that
//! disappear. When the cluster leaves, the controller deletes the work of the Gateway first, and then the works of the
//! policies.
//!
//! There are two baselines. One baseline writes only the works. The other baseline also writes the annotations in which
//! the controller reports the clusters of each policy.

use std::iter;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::api::{Api, DeleteParams, ListParams, Preconditions};
use policy_sync_api::work::ManifestWork;
use policy_sync_sync::PLACEMENT_SETTLE_TIME;

use super::agents;
use super::hub::{CLASS, MeasuredHub, WorkBody, register};
use super::observer::Observer;
use super::raw::{self, PreparedRequest};
use super::report::{Measure, progress};
use super::sample::Sample;
use super::scene::Scene;

/// The cluster that joins and leaves.
const CLUSTER: &str = "comes-and-goes";

/// Measures joining and leaving, and raw creates and deletes of the same works.
pub(super) async fn measure(hub: &mut MeasuredHub, runs: usize, policies: usize) -> Result<Vec<Measure>> {
    hub.settle().await?;
    let clusters = ["stays".to_owned(), CLUSTER.to_owned()];
    register(&hub.client, &clusters).await?;
    let scene = Scene::set(&hub.client, "wide", CLASS, &clusters[..1]).await?;
    scene.add(0..policies).await?;

    let mut arena = MembershipRun { observer: hub.observe().await?, hub, scene, clusters, policies };
    let RecordedWrites { works, annotations } = arena.written().await?;
    let none = [Vec::new(), Vec::new()];
    let mut at_once = [(Duration::MAX, 0); 2];
    for tried in raw::CONCURRENCIES {
        let took = arena.raw(&works, &none, [tried; 2]).await?;
        at_once = [0, 1].map(|index| at_once[index].min((took[index], tried)));
    }
    let at_once = at_once.map(|(_, tried)| tried);
    let (mut raw, mut annotated, mut controller) = (Vec::new(), Vec::new(), Vec::new());
    for run in 1..=runs {
        raw.push(arena.raw(&works, &none, at_once).await?);
        controller.push(arena.controller().await?);
        annotated.push(arena.raw(&works, &annotations, at_once).await?);
        progress(&format!(
            "membership {run} of {runs}: raw {:?}, controller {:?}, raw with annotations {:?}",
            raw[run - 1],
            controller[run - 1],
            annotated[run - 1],
        ));
    }
    arena.clear().await?;
    let row = |index: usize, what: &str, raw: &[[Duration; 2]], and: &str| {
        let of = |times: &[[Duration; 2]]| Sample::new(times.iter().map(|time| time[index].as_secs_f64()));
        let measure = format!("a cluster {what} {policies} policies, {} raw at once{and}", at_once[index]);
        Measure::ratio("B5", measure, &of(&controller), &of(raw), 1.15)
    };
    let and = ", with annotations";
    Ok(vec![
        row(0, "joins", &raw, ""),
        row(1, "leaves", &raw, ""),
        row(0, "joins", &annotated, and),
        row(1, "leaves", &annotated, and),
    ])
}

/// The controller's writes for joining and leaving.
struct RecordedWrites {
    works: Vec<WorkBody>,
    /// Requests that annotate the policies after the cluster has joined, and after the cluster has left.
    annotations: [Vec<PreparedRequest>; 2],
}

struct MembershipRun<'s> {
    hub: &'s MeasuredHub,
    observer: Observer,
    scene: Scene,
    clusters: [String; 2],
    policies: usize,
}

impl MembershipRun<'_> {
    /// Records the controller's writes. Afterwards the cluster has left, and no controller runs.
    async fn written(&mut self) -> Result<RecordedWrites> {
        let (_, controller) = self.hub.start_controller().await?;
        self.hub.quiet().await?;
        self.join().await?;
        self.hub.quiet().await?;
        let joined = self.scene.annotations(&self.hub.controller()).await?;
        let works = self.list().await?.into_iter().map(WorkBody::new).collect::<Result<_>>()?;
        self.leave().await?;
        self.hub.quiet().await?;
        let left = self.scene.annotations(&self.hub.controller()).await?;
        controller.terminate().await?;
        Ok(RecordedWrites { works, annotations: [joined, left] })
    }

    /// The times for the controller to join and to leave.
    async fn controller(&mut self) -> Result<[Duration; 2]> {
        let (_, controller) = self.hub.start_controller().await?;
        self.hub.quiet().await?;
        let joined = self.join().await?;
        self.report().await?;
        self.hub.quiet().await?;
        let left = self.leave().await?;
        controller.terminate().await?;
        Ok([joined, left])
    }

    async fn join(&mut self) -> Result<Duration> {
        let placed = self.scene.place(&self.clusters).await?;
        let last =
            self.observer.until(self.policies, |seen| seen.added() && seen.namespace == CLUSTER).await?;
        Ok(last.saturating_duration_since(placed.decided))
    }

    async fn leave(&mut self) -> Result<Duration> {
        let placed = self.scene.place(&self.clusters[..1]).await?;
        let last = self.deleted().await?;
        Ok(last.saturating_duration_since(placed.counted + PLACEMENT_SETTLE_TIME))
    }

    /// Writes the statuses of the cluster's works, so that the Gateway is created after the policies.
    async fn report(&self) -> Result<()> {
        let works = self.list().await?;
        let reports = works.iter().map(|work| agents::report(work, "all is well")).collect::<Result<_>>()?;
        raw::send(&self.hub.client, reports, agents::AT_ONCE).await.map(drop)
    }

    async fn deleted(&mut self) -> Result<Instant> {
        self.observer.until(self.policies, |seen| seen.deleted() && seen.namespace == CLUSTER).await
    }

    /// The times for raw creates and deletes of the same works, interleaved with `annotations`.
    async fn raw(
        &mut self,
        works: &[WorkBody],
        annotations: &[Vec<PreparedRequest>; 2],
        at_once: [usize; 2],
    ) -> Result<[Duration; 2]> {
        let creates = works.iter().map(WorkBody::create).collect::<Result<Vec<_>>>()?;
        let started = Instant::now();
        let creates = raw::send(&self.hub.client, in_turn(creates, &annotations[0]), at_once[0]);
        let added = self.observer.until(self.policies, |seen| seen.added() && seen.namespace == CLUSTER);
        let created = tokio::try_join!(creates, added)?.1 - started;
        self.report().await?;
        let deletes = self.list().await?.iter().map(delete).collect::<Result<Vec<_>>>()?;
        let started = Instant::now();
        let deletes = raw::send(&self.hub.client, in_turn(deletes, &annotations[1]), at_once[1]);
        let deleted = tokio::try_join!(deletes, self.deleted())?.1 - started;
        Ok([created, deleted])
    }

    async fn list(&self) -> Result<Vec<ManifestWork>> {
        let works: Api<ManifestWork> = Api::namespaced(self.hub.client.clone(), CLUSTER);
        let list = ListParams::default().labels(&self.hub.policy_works());
        Ok(works.list(&list).await.context("listing works")?.items)
    }

    /// Deletes the objects of this row.
    async fn clear(self) -> Result<()> {
        self.scene.remove(0..self.policies).await?;
        self.scene.place(&[]).await?;
        self.hub.delete_works(&self.clusters).await
    }
}

/// The requests in `first`. A request from `second` follows each request, until `second` has no more requests.
fn in_turn(first: Vec<PreparedRequest>, second: &[PreparedRequest]) -> Vec<PreparedRequest> {
    let second = second.iter().cloned().map(Some).chain(iter::repeat(None));
    first.into_iter().zip(second).flat_map(|(first, second)| iter::once(first).chain(second)).collect()
}

/// A delete as the controller sends it, guarded by the work's uid.
fn delete(work: &ManifestWork) -> Result<PreparedRequest> {
    let preconditions = Preconditions { uid: work.metadata.uid.clone(), resource_version: None };
    let parameters = DeleteParams::background().preconditions(preconditions);
    let name = work.metadata.name.as_deref().unwrap_or_default();
    let delete = raw::works_of(CLUSTER).delete(name, &parameters).context("building a delete request")?;
    Ok(raw::with_metadata_response(delete))
}
