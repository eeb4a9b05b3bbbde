//! Takes keys from the queue, plans them and carries the plans out.

mod ahead;
mod folds;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use parking_lot::RwLock;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::bodies::Bodies;
use super::cause::Causes;
use super::decide::{self, Decision, Delete};
use super::events::Events;
use super::leadership::Turn;
use super::pending::{Pending, Unseen};
use super::reports::Reports;
use super::requests::Requests;
use super::rivals::Rivals;
use super::{ApplyError, Leadership, Queue, objects, subject, works};
use crate::api::names::{ClusterName, ObjectKey, Parent};
use crate::api::text::with_causes;
use crate::clock::Clock;
use crate::mirror::{Key, Mirror, Moment, Refused, View, Wants};
use crate::plan::cause::Read;
use crate::plan::diff::WorkAction;
use crate::plan::{Settings, order, watches};
use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;

/// How many keys are worked on at once.
const CONCURRENT_KEYS: usize = 32;
/// How many writes of one key are under way at once.
const CONCURRENT_WRITES: usize = 32;
/// The right to work on a key.
type Slot = Result<OwnedSemaphorePermit, AcquireError>;

/// Works keys off.
pub struct Worker {
    mirror: Arc<Mirror>,
    settings: Settings,
    leadership: Leadership,
    requests: Requests,
    causes: Causes,
    rivals: Rivals,
    bodies: Bodies,
    queue: Arc<Queue>,
    pending: Pending,
    refused: RwLock<Refused>,
    reports: Reports,
    clock: Clock,
    metrics: Metrics,
    fold_window: Duration,
    wanted: watch::Sender<Wants>,
    tasks: Tasks,
}

/// What a worker needs to know.
pub struct WorkerOptions {
    /// How this controller is set up.
    pub settings: Settings,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// Within this time, changes of a policy's answers are one write.
    pub fold_window: Duration,
    /// Where it says what should be watched.
    pub wanted: watch::Sender<Wants>,
    /// What notices that a task of it panics.
    pub tasks: Tasks,
}

impl Worker {
    /// A worker for the keys of `queue`.
    #[must_use]
    pub fn new(
        client: Client,
        mirror: Arc<Mirror>,
        queue: Arc<Queue>,
        clock: Clock,
        metrics: Metrics,
        options: WorkerOptions,
    ) -> Self {
        let controller = mirror.read().view(clock.now()).controller().clone();
        let requests = Requests::new(client.clone(), options.leadership.clone(), metrics.clone());
        Self {
            reports: Reports::new(Events::start(client, &options.tasks), metrics.clone()),
            rivals: Rivals::new(requests.clone(), controller.clone()),
            causes: Causes::start(requests.clone(), controller, options.tasks.clone()),
            requests,
            bodies: Bodies::new(),
            leadership: options.leadership,
            mirror,
            settings: options.settings,
            queue,
            pending: Pending::default(),
            refused: RwLock::default(),
            clock,
            metrics,
            fold_window: options.fold_window,
            wanted: options.wanted,
            tasks: options.tasks,
        }
    }

    /// Queues the keys that watches report until they stop. A fold waits for its window, so that many
    /// answers become one write.
    pub async fn enqueue(
        queue: Arc<Queue>,
        fold_window: Duration,
        mut affected: mpsc::UnboundedReceiver<Key>,
    ) {
        while let Some(key) = affected.recv().await {
            Self::enqueue_one(&queue, fold_window, key);
        }
    }

    fn enqueue_one(queue: &Queue, fold_window: Duration, key: Key) {
        match key {
            Key::Fold(_) => queue.add_after(key, fold_window),
            _ => queue.add(key),
        }
    }

    /// A term began or ended. While another led, keys were dropped: now each is planned.
    fn turned(&self, turn: Turn) {
        self.reports.begin(self.clock.now());
        self.refused.write().clear();
        self.pending.forget_visible(self.mirror.read().view(self.clock.now()));
        if turn == Turn::Gained {
            for key in self.mirror.everything() {
                Self::enqueue_one(&self.queue, self.fold_window, key);
            }
        }
    }

    /// Works until `stop`, then finishes the keys in hand.
    pub async fn run(self, stop: CancellationToken) {
        let worker = Arc::new(self);
        let slots = Arc::new(Semaphore::new(CONCURRENT_KEYS));
        let tasks = TaskTracker::new();
        let mut leadership = worker.leadership.clone();
        loop {
            let next = async {
                let slot = slots.clone().acquire_owned().await;
                (slot, worker.queue.next().await)
            };
            let (slot, key) = tokio::select! {
                () = stop.cancelled() => break,
                turn = leadership.turn() => {
                    worker.turned(turn);
                    continue;
                }
                next = next => next,
            };
            let worker = worker.clone();
            let watched = worker.tasks.clone();
            tasks.spawn(watched.watch("key", async move { worker.work(&key, slot).await }));
        }
        tasks.close();
        tasks.wait().await;
    }

    async fn work(&self, key: &Key, slot: Slot) {
        // A follower decides what it watches, and nothing else.
        if *key != Key::Watches && !self.leadership.leads() {
            return self.queue.done(key);
        }
        let started = Instant::now();
        let outcome = self.carry_out(key, Some(slot)).await;
        let result = outcome.as_ref().map_or_else(ApplyError::category, |()| "success");
        self.metrics.reconciled(key.category(), result, started.elapsed().as_secs_f64());
        let refusal = outcome.as_ref().err().and_then(ApplyError::refusal);
        let subject = || subject::of(self.mirror.read().view(self.clock.now()), key);
        self.reports.refused(key, refusal, subject);
        match outcome {
            Ok(()) => self.queue.done(key),
            Err(error) => {
                match &error {
                    error if error.is_routine() => {
                        debug!(?key, error = with_causes(error), "will be planned again");
                    }
                    error => warn!(?key, error = with_causes(error), "will be planned again"),
                }
                self.queue.failed(key);
            }
        }
    }

    async fn carry_out(&self, key: &Key, mut slot: Option<Slot>) -> Result<(), ApplyError> {
        if let Key::Works(parent) | Key::Fold(parent) = key
            && !self.made_ahead(parent, &mut slot).await
        {
            // Its owner changes it faster than it can be planned.
            self.queue.add_after(key.clone(), ahead::CHANGES);
            return Ok(());
        }
        match key {
            Key::Watches => self.watches(),
            Key::Class(class) => return self.class(key, class).await,
            Key::Access(cluster) => {
                let decision = self.decide(key, |view, unseen| decide::access(view, unseen, cluster));
                return self.write_works(key, decision, slot).await;
            }
            Key::Works(parent) => return self.works(key, parent, slot).await,
            Key::Fold(parent) if parent.is_gateway() => return self.gateway(key, &parent.object).await,
            Key::Fold(parent) => return self.fold(key, parent).await,
        }
        Ok(())
    }

    /// Decides from one look at the mirror, and from what `key` wrote that is not in it yet.
    fn decide<T>(&self, key: &Key, decide: impl FnOnce(View<'_>, &mut Unseen) -> T) -> T {
        let (guard, refused) = (self.mirror.read(), self.refused.read());
        let view = guard.view(self.clock.now()).refusing(&refused);
        self.pending.with(key, |unseen| decide(view, unseen))
    }

    fn watches(&self) {
        let wanted = {
            let guard = self.mirror.read();
            let view = guard.view(self.clock.now());
            self.look_again(&Key::Watches, view, view.next_departure());
            let watched = decide::watches(view, |kind| self.pending.annotated(view, kind));
            Wants { watched, others: watches::others(view) }
        };
        self.wanted.send_if_modified(|current| {
            let changed = *current != wanted;
            *current = wanted;
            changed
        });
    }

    async fn class(&self, key: &Key, class: &ObjectKey) -> Result<(), ApplyError> {
        let status = self.decide(key, |view, unseen| decide::class(view, unseen, class));
        let Some(status) = status else { return Ok(()) };
        let manager = self.manager();
        let written =
            objects::class_status(&self.requests, &manager, class, &status.uid, &status.conditions).await?;
        self.pending.note(key, |unseen| unseen.wrote_object(written));
        Ok(())
    }

    async fn works(&self, key: &Key, parent: &Parent, slot: Option<Slot>) -> Result<(), ApplyError> {
        let decision = self.decide(key, |view, unseen| {
            let crossed = || self.pending.crossed(view, parent);
            let mut decision = decide::works(view, &self.settings, unseen, parent, crossed);
            let problems = std::mem::take(&mut decision.problems);
            self.reports.problems(key, subject::of(view, key), problems);
            self.look_again(key, view, decision.recheck);
            decision
        });
        self.forget_refused(parent, &decision.writes);
        let written = self.write_works(key, decision, slot).await;
        self.pending.note(key, Unseen::sent);
        written
    }

    async fn write_works(&self, key: &Key, decision: Decision, slot: Option<Slot>) -> Result<(), ApplyError> {
        let Decision { writes, deletes, .. } = decision;
        if deletes.is_empty() {
            return self.write(key, writes).await;
        }
        // Others are decided meanwhile, and the more ask for the cause of their deletes together, the fewer reads it takes.
        drop(slot);
        // What is no delete does not wait with them.
        let (writes, deletes) = futures::join!(self.write(key, writes), self.delete(key, deletes));
        ApplyError::from_all([writes, deletes].into_iter().filter_map(Result::err).collect())
            .map_or(Ok(()), Err)
    }

    /// Deletes works, those of one cause together: what is doubtful of another holds them up no more than what was
    /// decided anew meanwhile.
    async fn delete(&self, key: &Key, deletes: Vec<Delete>) -> Result<(), ApplyError> {
        let mut batches: BTreeMap<BTreeSet<Read>, Vec<WorkAction>> = BTreeMap::new();
        for Delete { action, reads } in deletes {
            batches.entry(reads).or_default().push(action);
        }
        let results = futures::stream::iter(batches)
            .map(|(reads, actions)| async move {
                self.causes.check(reads).await?;
                let mut errors = Vec::new();
                for actions in actions.chunks(CONCURRENT_WRITES) {
                    errors.extend(self.write(key, self.still(key, actions.to_vec())).await.err());
                }
                ApplyError::from_all(errors).map_or(Ok(()), Err)
            })
            .buffer_unordered(CONCURRENT_WRITES)
            .filter_map(|result: Result<(), ApplyError>| async { result.err() });
        ApplyError::from_all(results.collect().await).map_or(Ok(()), Err)
    }

    /// Those of `deletes` that are wanted still, where what they were decided from has changed.
    fn still(&self, key: &Key, deletes: Vec<WorkAction>) -> Vec<WorkAction> {
        if !self.queue.is_added_again(key) {
            return deletes;
        }
        let guard = self.mirror.read();
        decide::still(guard.view(self.clock.now()), &self.settings, key, deletes)
    }

    async fn write(&self, key: &Key, actions: Vec<WorkAction>) -> Result<(), ApplyError> {
        let object = match key {
            Key::Works(parent) => parent.to_string(),
            key => key.category().to_owned(),
        };
        let object = object.as_str();
        let results = futures::stream::iter(actions)
            .map(|action| async move {
                let _room = self.bodies.room(&action).await;
                let request = self.bodies.request(&action).await;
                let written = works::write(&self.requests, object, &action, request).await;
                if let (Err(error), WorkAction::Create { cluster, .. }) = (&written, &action)
                    && error.says_no()
                {
                    self.was_refused(key, cluster);
                }
                let written = written?;
                if let Some(written) = written {
                    let work = (action.name().clone(), action.cluster().clone());
                    self.pending.note(key, |unseen| unseen.wrote(work, written));
                }
                Ok(())
            })
            .buffer_unordered(CONCURRENT_WRITES)
            .filter_map(|result: Result<(), ApplyError>| async { result.err() });
        ApplyError::from_all(results.collect().await).map_or(Ok(()), Err)
    }

    /// Notes that the work of `key` in `cluster` cannot be made. From now on, who waits for it waits for so long only.
    fn was_refused(&self, key: &Key, cluster: &ClusterName) {
        let Key::Works(parent) = key else { return };
        let now = self.clock.now();
        if !self.refused.write().note(parent, cluster, now) {
            return;
        }
        let awaiting: Vec<Parent> = order::awaiting(self.mirror.read().view(now), parent).collect();
        for key in awaiting.into_iter().flat_map(|parent| [Key::Works(parent.clone()), Key::Fold(parent)]) {
            Self::enqueue_one(&self.queue, self.fold_window, key);
        }
    }

    /// Forgets what was refused of `parent`, but what is among its `writes` again.
    fn forget_refused(&self, parent: &Parent, writes: &[WorkAction]) {
        if self.refused.read().has(parent) {
            let creates = writes.iter().filter(|action| matches!(action, WorkAction::Create { .. }));
            self.refused.write().retain(parent, &creates.map(WorkAction::cluster).collect());
        }
    }

    fn look_again(&self, key: &Key, view: View<'_>, at: Option<Moment>) {
        if let Some(at) = at {
            self.queue.add_after(key.clone(), at.since(view.now));
        }
    }

    fn manager(&self) -> String {
        self.mirror.read().view(self.clock.now()).controller().hub_field_manager()
    }
}
