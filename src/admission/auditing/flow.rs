//! Starts what audits from time to time.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::audited::Audited;
use super::inspector::Inspector;
use super::key::Key;
use super::metrics::AuditMetrics;
use super::reports;
use super::settings::Settings;
use crate::admission::auditor::{Auditor, Misplaced};
use crate::rego_loading::Loaded;
use policy_sync_api::names::ControllerName;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{Parts, Queue, Requests, Worker};
use policy_sync_rego::exemptions::Exemptions;

/// Changes within this time are audited together.
const WINDOW: Duration = Duration::from_millis(50);
/// How soon is audited after policies have changed: others may follow.
const SETTLES: Duration = Duration::from_secs(5);

/// What audits, not started yet.
#[derive(Debug)]
pub struct Auditing {
    loaded: Loaded,
    audited: Audited,
    settings: Settings,
    controller: ControllerName,
    clock: Clock,
    metrics: AuditMetrics,
}

impl Auditing {
    /// What audits what is `loaded` for `controller`, as often as `settings` say, and leaves out whom `exemptions` name. `misplaced` says
    /// whose place policies refuse, as far as this process knows.
    #[must_use]
    pub fn new(
        (loaded, exemptions): (Loaded, Exemptions),
        misplaced: impl Fn() -> Vec<Misplaced> + Send + Sync + 'static,
        settings: Settings,
        controller: ControllerName,
        clock: Clock,
        metrics: AuditMetrics,
    ) -> Self {
        let named = [true, false].map(reports::kind).into();
        let auditor = Auditor::new(loaded.clone(), exemptions, settings.is_wanted()).naming(named);
        let audited = Audited { auditor, misplaced: Arc::new(misplaced) };
        Self { loaded, audited, settings, controller, clock, metrics }
    }

    /// Who is asked what stands and breaks policies.
    #[must_use]
    pub fn audited(&self) -> Audited {
        self.audited.clone()
    }

    /// Starts it. What is returned works until `stop`, and then ends what is in hand.
    pub(crate) fn start(self, parts: Parts) -> BoxFuture<'static, ()> {
        let Parts { client, leadership, metrics, tasks, stop } = parts;
        let keeping = self.audited.auditor.clone().keep();
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
        let inspector = Inspector {
            loaded: self.loaded,
            audited: self.audited,
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
        Worker::new(inspector, queue, leadership, metrics, tasks).run(stop).boxed()
    }
}

/// Has it audited a while after policies have changed, for ever.
async fn follow(loaded: Loaded, queue: Arc<Queue<Key>>) {
    let mut snapshots = loaded.snapshots();
    let mut known = None;
    loop {
        let policies = snapshots.borrow_and_update().policies();
        if known.as_ref() != Some(&policies) {
            known = Some(policies);
            queue.add_after(Key::Run, SETTLES);
        }
        if snapshots.changed().await.is_err() {
            return;
        }
    }
}
