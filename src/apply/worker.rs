//! Takes keys from the queue, plans them and carries the plans out.

mod ahead;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::bodies::Bodies;
use super::cause::Causes;
use super::decide::{self, Decision};
use super::events::Events;
use super::leadership::Turn;
use super::pending::{Pending, Unseen};
use super::reports::Reports;
use super::requests::Requests;
use super::{ApplyError, Leadership, Queue, objects, subject, works};
use crate::api::annotations::Summary;
use crate::api::names::{ObjectKey, Parent};
use crate::clock::Clock;
use crate::mirror::{Key, Mirror, Moment, View};
use crate::plan::diff::WorkAction;
use crate::plan::fold::Fold;
use crate::plan::gateway::fold::GatewayFold;
use crate::plan::watches::Wanted;
use crate::plan::{Notice, Settings};
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
    bodies: Bodies,
    queue: Arc<Queue>,
    pending: Pending,
    reports: Reports,
    clock: Clock,
    metrics: Metrics,
    fold_window: Duration,
    wanted: watch::Sender<Wanted>,
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
    pub wanted: watch::Sender<Wanted>,
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
        let requests = Requests::new(client.clone(), options.leadership.clone(), metrics.clone());
        Self {
            reports: Reports::new(Events::start(client), metrics.clone()),
            causes: Causes::start(requests.clone()),
            requests,
            bodies: Bodies::new(),
            leadership: options.leadership,
            mirror,
            settings: options.settings,
            queue,
            pending: Pending::default(),
            clock,
            metrics,
            fold_window: options.fold_window,
            wanted: options.wanted,
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
            tasks.spawn(async move { worker.work(&key, slot).await });
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
                    error if error.is_routine() => debug!(?key, %error, "will be planned again"),
                    error => warn!(?key, error = error as &dyn std::error::Error, "will be planned again"),
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
        let guard = self.mirror.read();
        let view = guard.view(self.clock.now());
        self.pending.with(key, |unseen| decide(view, unseen))
    }

    fn watches(&self) {
        let wanted = {
            let guard = self.mirror.read();
            let view = guard.view(self.clock.now());
            decide::watches(view, |kind| self.pending.annotated(view, kind))
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
        let written = self.write_works(key, decision, slot).await;
        self.pending.note(key, Unseen::sent);
        written
    }

    async fn write_works(&self, key: &Key, decision: Decision, slot: Option<Slot>) -> Result<(), ApplyError> {
        let Decision { writes, deletes, reads, .. } = decision;
        if deletes.is_empty() {
            return self.write(key, writes).await;
        }
        // Others are decided meanwhile, and the more ask for the cause of their deletes together, the fewer reads it takes.
        drop(slot);
        // What is no delete does not wait with them.
        let (writes, cause) = futures::join!(self.write(key, writes), self.causes.check(reads));
        let deletes = match cause {
            Ok(()) => self.write(key, deletes).await,
            Err(error) => Err(error),
        };
        writes.and(deletes)
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
                let written = works::write(&self.requests, object, &action, request).await?;
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

    async fn fold(&self, key: &Key, parent: &Parent) -> Result<(), ApplyError> {
        let fold = self.decide(key, |view, unseen| {
            let plan = decide::fold(view, &self.settings, unseen, parent)?;
            let recheck = self.report(view, key, parent, plan.summary.as_ref(), plan.notices);
            self.look_again(key, view, Moment::earliest(recheck, plan.recheck));
            Some(plan.fold)
        });
        match fold {
            // Our own last write is still on its way back; what it missed is one window later.
            None => self.queue.add_after(key.clone(), self.fold_window),
            Some(Fold::Settled) => {}
            Some(Fold::OwnedBy(owners)) => {
                warn!(object = %parent, ?owners, "another controller owns the annotations: they are left alone");
            }
            Some(Fold::Write { gvr, kind, uid, annotations }) => {
                let manager = self.manager();
                let written =
                    objects::annotate(&self.requests, &manager, (&gvr, &kind), parent, &uid, &annotations)
                        .await?;
                self.pending.note(key, |unseen| unseen.wrote_object(written));
            }
        }
        Ok(())
    }

    /// Writes what a Gateway says of its clusters: its labels and annotation, or else its status. So it is one write a
    /// window, and the watch that brings the first has the second planned.
    async fn gateway(&self, key: &Key, gateway: &ObjectKey) -> Result<(), ApplyError> {
        let plan = self.decide(key, |view, unseen| {
            let mut plan = decide::gateway(view, &self.settings, unseen, gateway)?;
            let notices = std::mem::take(&mut plan.notices);
            let (parent, subject) = (Parent::gateway(gateway.clone()), || subject::of(view, key));
            let recheck = self.reports.notices(&parent, subject, notices, false, view.now);
            if plan.comes {
                self.queue.add(Key::Works(parent));
            }
            self.look_again(key, view, Moment::earliest(recheck, plan.recheck));
            Some(plan)
        });
        let Some(GatewayFold { uid, metadata, owners, status, .. }) = plan else {
            self.queue.add_after(key.clone(), self.fold_window);
            return Ok(());
        };
        if !owners.is_empty() {
            warn!(object = %gateway, ?owners, "another controller owns the labels: they are left alone");
        }
        let manager = self.manager();
        let mut refused = Ok(());
        if let Some(metadata) = metadata {
            let request = objects::labelling(&manager, gateway, &uid, &metadata);
            match objects::write_gateway(&self.requests, gateway, "label", request).await {
                Ok(written) => {
                    self.pending.note(key, |unseen| unseen.wrote_object(written));
                    return Ok(());
                }
                // Whatever keeps the labels from being written, the status can say what is wrong.
                Err(error) => refused = Err(error),
            }
        }
        if let Some(status) = status {
            let request = objects::telling(&manager, gateway, &uid, &status);
            let written = objects::write_gateway(&self.requests, gateway, "update", request).await?;
            self.pending.note(key, |unseen| unseen.wrote_object(written));
        }
        refused
    }

    /// Reports how a policy fares, and returns when there may be more to report.
    fn report(
        &self,
        view: View<'_>,
        key: &Key,
        parent: &Parent,
        summary: Option<&Summary>,
        notices: Vec<Notice>,
    ) -> Option<Moment> {
        let Some(policy) = view.policy(parent) else {
            self.reports.forget(parent);
            return None;
        };
        if summary.is_some_and(|summary| summary.clusters > 0 && summary.synced) {
            self.reports.applied(parent, policy.generation, policy.changed.0, view.now);
        }
        let fresh = policy.changed.0.is_some();
        self.reports.notices(parent, || subject::of(view, key), notices, fresh, view.now)
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
