//! The settings and the start of the periodic audit.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::audit_runner::AuditRunner;
use super::metrics::AuditMetrics;
use super::reconciler::{AuditReconciler, Key};
use super::reports;
use crate::admission::auditor::{Auditor, PlacementViolation};
use crate::rego_loading::Loaded;
use policy_sync_api::names::ControllerName;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{CapabilityContext, Queue, Requests, Worker};
use policy_sync_rego::exemptions::Exemptions;

/// Changes within this time are handled together.
const WINDOW: Duration = Duration::from_millis(50);
/// Delay from a Rego policy change to the next audit, because more changes may follow.
const SETTLE_DELAY: Duration = Duration::from_secs(5);

/// Settings of the periodic audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The time between audits. `None`: audits run only on request.
    pub interval: Option<Duration>,
    /// Whether audits can be requested over HTTP.
    pub is_served: bool,
    /// The name of each report.
    pub name: String,
}

impl Settings {
    /// Whether an audit can ever run.
    fn is_enabled(&self) -> bool {
        self.interval.is_some() || self.is_served
    }
}

/// The periodic audit, before its start.
#[derive(Debug)]
pub struct Auditing {
    loaded: Loaded,
    audit_runner: AuditRunner,
    settings: Settings,
    controller: ControllerName,
    clock: Clock,
    metrics: AuditMetrics,
}

impl Auditing {
    /// Creates the periodic audit of `controller`. It evaluates the Rego policies of `loaded` at the interval in
    /// `settings`, except for the objects named by `exemptions`. `placement_violations` returns the objects known to
    /// this process that violate placement policies.
    #[must_use]
    pub fn new(
        (loaded, exemptions): (Loaded, Exemptions),
        placement_violations: impl Fn() -> Vec<PlacementViolation> + Send + Sync + 'static,
        settings: Settings,
        controller: ControllerName,
        clock: Clock,
        metrics: AuditMetrics,
    ) -> Self {
        let discovered = [true, false].map(reports::kind).into();
        let auditor = Auditor::new(loaded.clone(), exemptions, settings.is_enabled()).discovering(discovered);
        let audit_runner = AuditRunner { auditor, placement_violations: Arc::new(placement_violations) };
        Self { loaded, audit_runner, settings, controller, clock, metrics }
    }

    /// A handle to run audits on request.
    #[must_use]
    pub fn audit_runner(&self) -> AuditRunner {
        self.audit_runner.clone()
    }

    /// Starts the audit. The returned future runs until `stop`, then finishes the current work.
    pub(crate) fn start(self, parts: CapabilityContext) -> BoxFuture<'static, ()> {
        let CapabilityContext { client, leadership, metrics, tasks, stop } = parts;
        let keeping = self.audit_runner.auditor.clone().keep();
        tokio::spawn(tasks.clone().watch("audit", {
            let stop = stop.clone();
            async move { stop.run_until_cancelled(keeping).await }
        }));
        let queue: Arc<Queue<Key>> = Arc::new(Queue::new(WINDOW, metrics.clone()));
        let following = follow(self.loaded.clone(), queue.clone());
        tokio::spawn(tasks.clone().watch("audit", {
            let stop = stop.clone();
            async move { stop.run_until_cancelled(following).await }
        }));
        let reconciler = AuditReconciler {
            loaded: self.loaded,
            audit_runner: self.audit_runner,
            settings: self.settings,
            controller: self.controller,
            requests: Requests::new(client, leadership.clone()),
            leadership: leadership.clone(),
            queue: queue.clone(),
            metrics: self.metrics,
            clock: self.clock,
            reports: Default::default(),
            stop: stop.clone(),
        };
        Worker::new(reconciler, queue, leadership, metrics, tasks).run(stop).boxed()
    }
}

/// Schedules an audit after each Rego policy change. Returns when the sender of snapshots is dropped.
async fn follow(loaded: Loaded, queue: Arc<Queue<Key>>) {
    let mut snapshots = loaded.snapshots();
    let mut known = None;
    loop {
        let policies = snapshots.borrow_and_update().policies();
        if known.as_ref() != Some(&policies) {
            known = Some(policies);
            queue.add_after(Key::Run, SETTLE_DELAY);
        }
        if snapshots.changed().await.is_err() {
            return;
        }
    }
}
