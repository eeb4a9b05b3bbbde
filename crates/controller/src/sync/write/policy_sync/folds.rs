//! Writes the annotations of policies, and the metadata and status of Gateways. Also reports state changes of policies
//! and Gateways. If several Policy Sync controllers could write an object, exactly one controller writes it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::PolicySync;
use crate::sync::write::other_controllers::OtherControllers;
use crate::sync::write::{WriteError, decide, objects, regarding};
use policy_sync_api::annotations::Summary;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ObjectKey, Origin};
use policy_sync_sync::Key;
use policy_sync_sync::View;
use policy_sync_sync::status::Notice;
use policy_sync_sync::status::contest::Contest;
use policy_sync_sync::status::gateway::GatewayFold;
use policy_sync_sync::status::policy::Fold;

/// The delay before the next check whether another controller still writes an object.
const CONTEST_RECHECK: Duration = Duration::from_secs(30);

impl PolicySync {
    pub(super) async fn fold(&self, key: &Key, origin: &Origin) -> Result<(), WriteError> {
        let fold = self.decide(key, |view, own| {
            let plan = decide::fold(view, &self.settings, own, origin)?;
            self.metrics.record_state(view, origin, plan.sync_state);
            let recheck = self.report(view, key, origin, plan.summary.as_ref(), plan.notices);
            self.requeue_at(key, view, Moment::earliest(recheck, plan.recheck));
            if plan.replan_works {
                self.queue.add(Key::Works(origin.clone()));
            }
            Some(plan.fold)
        });
        match fold {
            // The mirror does not show this controller's last write. The key is tried again after the batching window.
            None => self.queue.add_after_window(key.clone()),
            Some(Fold::Contested { contest, ours, theirs }) => {
                match self.wins(key, origin, &contest).await? {
                    None => {}
                    Some(true) => self.annotate(key, origin, *ours).await?,
                    Some(false) => self.annotate(key, origin, *theirs).await?,
                }
            }
            Some(fold) => {
                self.uncontested(key);
                self.annotate(key, origin, fold).await?;
            }
        }
        Ok(())
    }

    async fn annotate(&self, key: &Key, origin: &Origin, fold: Fold) -> Result<(), WriteError> {
        let Fold::Write { gvr, kind, uid, annotations } = fold else {
            self.metrics.status_written(origin, None);
            return Ok(());
        };
        let (requests, manager) = (&self.requests, self.manager());
        let written =
            objects::annotate(requests, &manager, (&gvr, &kind), origin, &uid, &annotations).await?;
        self.metrics.status_written(origin, Some(self.clock.now()));
        self.expectations.note(key, |own| own.wrote_object(written));
        Ok(())
    }

    /// Whether this controller writes the fields of `origin` that other controllers write, too. `None` if the lookup
    /// has no result yet. In that case, the key is queued again.
    async fn wins(&self, key: &Key, origin: &Origin, contest: &Contest) -> Result<Option<bool>, WriteError> {
        let manager = self.manager();
        let wins = contest.is_won_anyway(&manager)
            || match self.other_controllers.look_up(origin).await? {
                OtherControllers::Known(field_managers) => contest.is_won(&manager, &field_managers),
                OtherControllers::RetryAfter(wait) => {
                    self.queue.add_after(key.clone(), wait);
                    return Ok(None);
                }
            };
        if wins {
            self.uncontested(key);
        } else {
            let regarding = regarding::object_reference(self.mirror.read().view(self.clock.now()), key);
            self.reports.problems(key, regarding, [contest.problem()].into());
            // No event is delivered when the works of the other controllers cease to exist, so the key is queued again.
            self.queue.add_after(key.clone(), CONTEST_RECHECK);
        }
        Ok(Some(wins))
    }

    /// Clears the problem that other controllers write the fields of `key`. Either no other controller writes these
    /// fields, or this controller takes precedence.
    fn uncontested(&self, key: &Key) {
        self.reports.problems(key, None, BTreeSet::new());
    }

    /// If the labels and the annotation of a Gateway are outdated, writes only these. Otherwise writes the status. So
    /// there is one write in each batching window: the watch event of the first write triggers the second.
    pub(super) async fn gateway(&self, key: &Key, gateway: &ObjectKey) -> Result<(), WriteError> {
        let plan = self.decide(key, |view, own| {
            let mut plan = decide::gateway(view, &self.settings, own, gateway)?;
            let notices = std::mem::take(&mut plan.notices);
            let (origin, regarding) =
                (Origin::Gateway(gateway.clone()), || regarding::object_reference(view, key));
            self.metrics.record_state(view, &origin, plan.sync_state.take());
            if view.gateway(gateway).is_none() {
                self.reports.forget(&origin);
                return Some(plan);
            }
            let recheck = self.reports.notices(&origin, regarding, notices, false, view.now);
            let works = Key::Works(origin);
            // The key for the Gateway's works reports problems of these works. It is queued only if needed, not for
            // each report of a spoke.
            self.requeue_at(&works, view, plan.works_recheck);
            if plan.replan_works {
                self.queue.add(works);
            }
            self.requeue_at(key, view, Moment::earliest(recheck, plan.recheck));
            Some(plan)
        });
        let Some(GatewayFold { uid, mut metadata, contest, status, final_conditions, .. }) = plan else {
            self.queue.add_after_window(key.clone());
            return Ok(());
        };
        match contest {
            None => self.uncontested(key),
            Some((contest, theirs)) => {
                match self.wins(key, &Origin::Gateway(gateway.clone()), &contest).await? {
                    Some(true) => {}
                    Some(false) => metadata = theirs,
                    None => metadata = None,
                }
            }
        }
        let manager = self.manager();
        let mut refused = Ok(());
        if let Some(metadata) = metadata {
            let request = objects::label_request(&manager, gateway, &uid, &metadata);
            match objects::write_gateway(&self.requests, gateway, &uid, "label", request).await {
                Ok(written) => {
                    self.expectations.note(key, |own| own.wrote_object(written));
                    return Ok(());
                }
                // The status is still written, because it shows the error.
                Err(error) => refused = Err(error),
            }
        }
        let gateway_status_request =
            status.map(|status| objects::gateway_status_request(&manager, gateway, &uid, &status));
        let parting = final_conditions
            .map(|conditions| objects::clear_status_request(&manager, gateway, &uid, &conditions));
        let origin = Origin::Gateway(gateway.clone());
        if let Some(request) = gateway_status_request.or(parting) {
            let written = objects::write_gateway(&self.requests, gateway, &uid, "update", request).await?;
            self.expectations.note(key, |own| own.wrote_object(written));
            self.metrics.status_written(&origin, Some(self.clock.now()));
        } else {
            self.metrics.status_written(&origin, None);
        }
        refused
    }

    /// Records the metrics and Events of a policy, and returns the time of the next report.
    fn report(
        &self,
        view: View<'_>,
        key: &Key,
        origin: &Origin,
        summary: Option<&Summary>,
        notices: Vec<Notice>,
    ) -> Option<Moment> {
        let Some(policy) = view.policy(origin) else {
            self.reports.forget(origin);
            return None;
        };
        let changed = view.policy_changed(origin);
        if summary.is_some_and(|summary| summary.clusters > 0 && summary.synced) {
            self.reports.applied(origin, policy.generation, changed, view.last_applied(origin));
        }
        self.reports.notices(
            origin,
            || regarding::object_reference(view, key),
            notices,
            changed.is_some(),
            view.now,
        )
    }
}
