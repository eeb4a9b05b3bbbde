//! Finds traces of former placement policies on objects. Kinds with traces stay in memory until remediation
//! has removed all traces.

use std::time::Duration;

use kube::api::ListParams;

use super::key::Key;
use super::remediator::{RemediationError, Remediator};
use crate::placement_policy::evaluation::PACKAGE;
use policy_sync_api::annotations::PLACED_BY_POLICY;
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_hub::Pages;
use policy_sync_mirror::Projection;

/// The delay of the first check.
const FIRST_CHECK_DELAY: Duration = Duration::from_secs(5);
/// The delay of further checks while there are traces.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// The page size of lists.
const PAGE: u32 = 500;

impl Remediator {
    /// Schedules a check of `kind` for traces of former placement policies, unless there are placement policies.
    pub(super) fn schedule_trace_check(&self, kind: &GroupResource) {
        if !self.loaded.snapshot().has_policies_for(PACKAGE) {
            self.queue.add_after(Key::Traces(kind.clone()), FIRST_CHECK_DELAY);
        }
    }

    /// Looks for traces of placement policies on objects of `kind` on the API server, because a watch may lag. The kind
    /// stays in memory if there are traces. It is released if there are neither placement policies nor traces.
    pub(super) async fn check_traces(&self, key: &Key, kind: &GroupResource) -> Result<(), RemediationError> {
        let is_asked = || self.loaded.snapshot().has_policies_for(PACKAGE);
        let settle_time = {
            let passes = self.passes.lock();
            if is_asked() || !passes.may_have_traces(kind) {
                return Ok(());
            }
            passes.settle_time(self.clock.now())
        };
        if let Some(settle_time) = settle_time {
            self.queue.add_after(key.clone(), settle_time);
            return Ok(());
        }
        let Some((gvr, _)) = self.loaded.gvr_and_version(kind) else {
            match self.loaded.objects(kind) {
                // The hub does not serve the kind.
                Ok(_) => self.record_no_traces(kind),
                Err(_) => self.queue.add_after(key.clone(), FIRST_CHECK_DELAY),
            }
            return Ok(());
        };
        let mut pages = Pages::new(&gvr, "", ListParams::default().limit(PAGE), Projection::Metadata);
        let mut has_trace = false;
        while !has_trace {
            let page = self.requests.list(pages.request(), Projection::Metadata).await;
            let failed = |source| RemediationError { action: format!("list {kind}"), source };
            let (objects, token) = page.map_err(failed)?;
            has_trace = objects.iter().any(|object| self.has_trace(kind, object));
            if !pages.advance(token) {
                break;
            }
        }
        // Placement policies that were created during the check may leave new traces.
        if is_asked() || self.passes.lock().settle_time(self.clock.now()).is_some() {
            return Ok(());
        }
        if has_trace {
            self.passes.lock().record_traces(kind);
            self.queue.enqueue([Key::Kinds]);
            self.queue.add_after(key.clone(), CHECK_INTERVAL);
        } else {
            self.record_no_traces(kind);
        }
        Ok(())
    }

    fn record_no_traces(&self, kind: &GroupResource) {
        self.passes.lock().record_no_traces(kind);
        self.queue.enqueue([Key::Kinds]);
    }

    /// Whether former placement policies have left a trace on `object`, which has only metadata. If the object is not
    /// in memory, its annotation with the original values counts as a trace, unless its namespace is exempt.
    fn has_trace(&self, kind: &GroupResource, object: &HubObject) -> bool {
        let metadata = &object.metadata;
        if !metadata.annotations.contains_key(PLACED_BY_POLICY) || metadata.deletion_timestamp.is_some() {
            return false;
        }
        let space =
            self.loaded.object(&GroupResource::namespaces(), &ObjectKey::new("", &metadata.namespace));
        match (self.loaded.object(kind, &object.key()), space) {
            (Some(found), Some(space)) => self.is_placed(kind, &found, Some(&space)),
            _ => !self.settings.exemptions.names(&metadata.namespace),
        }
    }
}
