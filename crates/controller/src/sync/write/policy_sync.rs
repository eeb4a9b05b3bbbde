//! The capability that syncs policies: plans its keys and carries out the plans.

mod folds;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::decide::{self, Decision, Delete};
use super::large_works::LargeWorkLimits;
use super::live::LiveReads;
use super::other_controllers::OtherControllerLookup;
use super::own_writes::{OwnWrites, annotated, conflicting_clusters};
use super::reports::Reports;
use super::works::{self, WriteLog};
use super::{WriteError, objects, regarding};
use crate::sync::metrics::HubMetrics;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, GroupResource, GroupVersionResource, ObjectKey, Origin};
use policy_sync_api::params::Role;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{Capability, Events, Expectations, Leadership, Queue, Requests, Slot};
use policy_sync_hub::tasks::Tasks;
use policy_sync_hub::tasks::send_if_changed;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_mirror::{Key as _, WatchedSources};
use policy_sync_sync::delete_guard::Precondition;
use policy_sync_sync::desired::covered::{ControllerScope, covered};
use policy_sync_sync::desired::{ahead, order, watches};
use policy_sync_sync::diff::WorkAction;
use policy_sync_sync::{Key, Keys, Mirror, PlannedShares, RejectedWorks, Settings, View, Waits, triggers};

/// The number of concurrent writes per key.
const CONCURRENT_WRITES: usize = 32;
/// The number of attempts to build the expensive parts of a plan. An attempt fails if the inputs change during it.
const MAX_TRIES: usize = 3;
/// The delay before a retry after all attempts failed.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Syncs policies and their Gateways to the spokes, and writes the spokes' reports to the hub.
pub struct PolicySync {
    mirror: Arc<Mirror>,
    settings: Settings,
    requests: Requests,
    live_reads: LiveReads,
    other_controllers: OtherControllerLookup,
    large_works: LargeWorkLimits,
    queue: Arc<Queue<Key>>,
    expectations: Expectations<Key, OwnWrites>,
    refused: RejectedWorks,
    shares: PlannedShares,
    waits: Waits,
    /// Serializes decisions on creates and deletes of different keys that may have to wait for each other. Held until
    /// the writes are recorded in `expectations`.
    transition_lock: Mutex<()>,
    reports: Reports,
    metrics: HubMetrics,
    clock: Clock,
    wanted: watch::Sender<WatchedSources>,
    others: watch::Sender<BTreeSet<(Role, GroupVersionResource)>>,
    covered: watch::Sender<Option<ControllerScope>>,
}

/// The settings and channels of a [`PolicySync`].
pub struct PolicySyncOptions {
    /// The configuration of this controller.
    pub settings: Settings,
    /// Whether this process is the leader and may write.
    pub leadership: Leadership,
    /// Publishes the kinds to watch.
    pub wanted: watch::Sender<WatchedSources>,
    /// Publishes the versions of kinds that are checked but not watched, each with its role in the parameters.
    pub others: watch::Sender<BTreeSet<(Role, GroupVersionResource)>>,
    /// Publishes the set of synced kinds.
    pub covered: watch::Sender<Option<ControllerScope>>,
    /// Supervises the tasks of the sync; a panic ends the process.
    pub tasks: Tasks,
    /// The metrics about the hub.
    pub hub_metrics: HubMetrics,
}

impl Capability for PolicySync {
    type Key = Key;
    type Error = WriteError;

    fn all_keys(&self) -> Keys {
        triggers::everything(self.mirror.read().view(self.clock.now()))
    }

    /// Followers only decide which kinds to watch.
    fn runs_on_followers(&self, key: &Key) -> bool {
        *key == Key::Watches
    }

    fn leadership_changed(&self) {
        self.reports.begin(self.clock.now());
        self.refused.clear();
        self.shares.clear();
        self.waits.clear();
        let guard = self.mirror.read();
        let view = guard.view(self.clock.now());
        self.metrics.begin(view);
        self.expectations.update(|key, own| own.forget_visible(view, key));
    }

    async fn reconcile(&self, key: &Key, slot: Slot) -> Result<(), WriteError> {
        let outcome = self.plan_and_write(key, Some(slot)).await;
        let refusal = outcome.as_ref().err().and_then(WriteError::refusal);
        let regarding = || regarding::object_reference(self.mirror.read().view(self.clock.now()), key);
        self.reports.refused(key, refusal, regarding);
        outcome
    }
}

impl PolicySync {
    /// Creates the capability. It plans from `mirror`, writes with `client`, and adds keys to plan again to `queue`.
    #[must_use]
    pub fn new(
        client: Client,
        mirror: Arc<Mirror>,
        queue: Arc<Queue<Key>>,
        clock: Clock,
        metrics: Metrics,
        options: PolicySyncOptions,
    ) -> Self {
        let PolicySyncOptions { settings, leadership, wanted, others, covered, tasks, hub_metrics } = options;
        let controller = mirror.read().view(clock.now()).controller().clone();
        let requests = Requests::new(client.clone(), leadership);
        Self {
            reports: Reports::new(Events::start(client, &tasks, metrics, "Sync"), hub_metrics.clone()),
            metrics: hub_metrics,
            other_controllers: OtherControllerLookup::new(requests.clone(), controller.clone()),
            live_reads: LiveReads::start(requests.clone(), controller, tasks),
            requests,
            large_works: LargeWorkLimits::new(),
            mirror,
            settings,
            queue,
            expectations: Expectations::default(),
            refused: RejectedWorks::default(),
            shares: PlannedShares::default(),
            waits: Waits::default(),
            transition_lock: Mutex::default(),
            clock,
            wanted,
            others,
            covered,
        }
    }

    async fn plan_and_write(&self, key: &Key, mut slot: Option<Slot>) -> Result<(), WriteError> {
        if let Key::Works(origin) | Key::Fold(origin) = key
            && !self.build_ahead(origin, &mut slot).await
        {
            // The object changes faster than its plan can be built.
            self.queue.add_after(key.clone(), RETRY_DELAY);
            return Ok(());
        }
        match key {
            Key::Watches => self.watches(),
            Key::Class(class) => return self.class(key, class).await,
            Key::Access(cluster) => {
                let decision = self.decide(key, |view, own| decide::access(view, own, cluster));
                return self.write_works(key, decision, slot).await;
            }
            Key::Works(origin) => return self.works(key, origin, slot).await,
            Key::Fold(Origin::Gateway(gateway)) => return self.gateway(key, gateway).await,
            Key::Fold(origin) => return self.fold(key, origin).await,
        }
        Ok(())
    }

    /// Builds the expensive parts of a plan of `origin` without a lock on the mirror, so that watches and other plans
    /// are not blocked. Releases `slot` if there are such parts. Returns whether the plan can now be made.
    async fn build_ahead(&self, origin: &Origin, slot: &mut Option<Slot>) -> bool {
        let unbuilt = || {
            let guard = self.mirror.read();
            ahead::unbuilt_copies(
                guard.view(self.clock.now()).with_shares(&self.shares),
                &self.settings,
                origin,
            )
        };
        for _ in 0..MAX_TRIES {
            if unbuilt().is_empty() {
                return true;
            }
            drop(slot.take());
            let _turn = self.large_works.turn().await;
            // Another key may have built these parts while this key waited for its turn.
            if self.large_works.build(unbuilt()).await.is_err() {
                return true;
            }
        }
        unbuilt().is_empty()
    }

    /// Makes a decision from one view of the mirror and the writes of `key` that the view does not show yet.
    fn decide<T>(&self, key: &Key, decide: impl FnOnce(View<'_>, &mut OwnWrites) -> T) -> T {
        let guard = self.mirror.read();
        let view = guard.view(self.clock.now()).with_rejections(&self.refused);
        let view = view.with_shares(&self.shares).with_waits(&self.waits);
        self.expectations.with(key, |own| decide(view, own))
    }

    fn watches(&self) {
        let (wanted, others, covered) = {
            let guard = self.mirror.read();
            let view = guard.view(self.clock.now());
            self.requeue_at(&Key::Watches, view, view.next_class_expiry());
            let is_annotated =
                |kind: &GroupResource| self.expectations.any(|key, own| annotated(view, kind, key, own));
            (decide::watches(view, is_annotated), watches::others(view), covered(view))
        };
        send_if_changed(&self.wanted, wanted);
        send_if_changed(&self.others, others);
        send_if_changed(&self.covered, covered);
    }

    async fn class(&self, key: &Key, class: &ObjectKey) -> Result<(), WriteError> {
        let status = self.decide(key, |view, own| decide::class(view, own, class));
        let Some(status) = status else { return Ok(()) };
        let manager = self.manager();
        let written =
            objects::class_status(&self.requests, &manager, class, &status.uid, &status.conditions).await?;
        self.expectations.note(key, |own| own.wrote_object(written));
        Ok(())
    }

    async fn works(&self, key: &Key, origin: &Origin, slot: Option<Slot>) -> Result<(), WriteError> {
        let decision = self.decide_works(key, origin);
        self.forget_rejections(origin, &decision.writes);
        let written = self.write_works(key, decision, slot).await;
        self.expectations.note(key, OwnWrites::clear_in_flight);
        written
    }

    fn decide_works(&self, key: &Key, origin: &Origin) -> Decision {
        let mut transition_lock = None;
        self.decide(key, |view, own| {
            let conflicting_clusters = || {
                transition_lock = Some(self.transition_lock.lock());
                self.expectations.collect(|other, own| conflicting_clusters(view, origin, other, own))
            };
            let mut decision = decide::works(view, &self.settings, own, origin, conflicting_clusters);
            let problems = std::mem::take(&mut decision.problems);
            self.reports.problems(key, regarding::object_reference(view, key), problems);
            self.requeue_at(key, view, decision.recheck);
            self.waits.note(origin, std::mem::take(&mut decision.waits));
            match decision.shares.take() {
                Some(shares) => self.shares.note(origin, shares),
                None if view.works_of(origin).next().is_none() => self.shares.forget(origin),
                None => {}
            }
            decision
        })
    }

    async fn write_works(&self, key: &Key, decision: Decision, slot: Option<Slot>) -> Result<(), WriteError> {
        let Decision { writes, deletes, .. } = decision;
        let log = WriteLog::new(match key {
            Key::Works(origin) => origin.to_string(),
            key => key.category().to_owned(),
        });
        if deletes.is_empty() {
            return self.write(key, writes, &log).await;
        }
        // The slot is released so that other keys can be decided, and their cause checks can join the same batch.
        drop(slot);
        // Creates and patches do not wait for the cause checks.
        let (writes, deletes) =
            futures::join!(self.write(key, writes, &log), self.delete(key, deletes, &log));
        WriteError::from_all([writes, deletes].into_iter().filter_map(Result::err).collect())
            .map_or(Ok(()), Err)
    }

    /// Deletes works. Each batch has the works with one cause. If the check of one cause fails, the other batches
    /// continue. Deletes that are no longer required are dropped.
    async fn delete(&self, key: &Key, deletes: Vec<Delete>, log: &WriteLog) -> Result<(), WriteError> {
        let mut batches: BTreeMap<BTreeSet<Precondition>, Vec<WorkAction>> = BTreeMap::new();
        for Delete { action, reads } in deletes {
            batches.entry(reads).or_default().push(action);
        }
        let results = futures::stream::iter(batches)
            .map(|(reads, actions)| async move {
                self.live_reads.check(reads).await?;
                let mut errors = Vec::new();
                for actions in actions.chunks(CONCURRENT_WRITES) {
                    errors
                        .extend(self.write(key, self.still_required(key, actions.to_vec()), log).await.err());
                }
                WriteError::from_all(errors).map_or(Ok(()), Err)
            })
            .buffer_unordered(CONCURRENT_WRITES)
            .filter_map(|result: Result<(), WriteError>| async { result.err() });
        WriteError::from_all(results.collect().await).map_or(Ok(()), Err)
    }

    /// If the key was queued again since the decision, filters `deletes` to those that are still required.
    fn still_required(&self, key: &Key, deletes: Vec<WorkAction>) -> Vec<WorkAction> {
        if !self.queue.is_re_added(key) {
            return deletes;
        }
        let guard = self.mirror.read();
        decide::still_required(guard.view(self.clock.now()), &self.settings, key, deletes)
    }

    async fn write(&self, key: &Key, actions: Vec<WorkAction>, log: &WriteLog) -> Result<(), WriteError> {
        let results = futures::stream::iter(actions)
            .map(|action| async move {
                let _room = self.large_works.memory(&action).await;
                let request = self.large_works.request(&action).await;
                let written = works::write(&self.requests, &action, request).await;
                if let (Err(error), WorkAction::Create { cluster, .. }) = (&written, &action)
                    && error.is_rejection()
                {
                    self.record_rejection(key, cluster);
                }
                let written = written?;
                log.wrote(&action);
                if let Some(written) = written {
                    let work = (action.name().clone(), action.cluster().clone());
                    self.expectations.note(key, |own| own.wrote(work, written));
                }
                Ok(())
            })
            .buffer_unordered(CONCURRENT_WRITES)
            .filter_map(|result: Result<(), WriteError>| async { result.err() });
        WriteError::from_all(results.collect().await).map_or(Ok(()), Err)
    }

    /// Records that the hub rejected the work of `key` in `cluster`. Objects that depend on this work then wait for it
    /// only for a limited time.
    fn record_rejection(&self, key: &Key, cluster: &ClusterName) {
        let Key::Works(origin) = key else { return };
        let now = self.clock.now();
        if !self.refused.note(origin, cluster, now) {
            return;
        }
        let awaiting: Vec<Origin> = order::waiting_gateways(self.mirror.read().view(now), origin).collect();
        for key in awaiting.into_iter().flat_map(|origin| [Key::Works(origin.clone()), Key::Fold(origin)]) {
            self.queue.enqueue([key]);
        }
    }

    /// Forgets the rejected works of `origin`, except those that `writes` creates again.
    fn forget_rejections(&self, origin: &Origin, writes: &[WorkAction]) {
        if self.refused.has(origin) {
            let creates = writes.iter().filter(|action| matches!(action, WorkAction::Create { .. }));
            self.refused.retain(origin, &creates.map(WorkAction::cluster).collect());
        }
    }

    fn requeue_at(&self, key: &Key, view: View<'_>, at: Option<Moment>) {
        if let Some(at) = at {
            self.queue.add_after(key.clone(), at.since(view.now));
        }
    }

    fn manager(&self) -> String {
        self.mirror.read().view(self.clock.now()).controller().hub_field_manager()
    }
}

#[cfg(test)]
mod tests;
