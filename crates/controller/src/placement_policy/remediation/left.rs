//! Finds traces of former placement policies on objects. Kinds with traces stay in memory until remediation
//! has removed all traces.

use std::time::Duration;

use kube::api::ListParams;

use super::error::RemediationError;
use super::key::Key;
use super::remediator::Remediator;
use crate::placement_policy::question::PACKAGE;
use policy_sync_api::annotations::PLACED_BY_POLICY;
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_hub::Pages;
use policy_sync_mirror::Extent;

/// The delay of the first check.
const LOOK_SOON: Duration = Duration::from_secs(5);
/// The delay of further checks while there are traces.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// The page size of lists.
const PAGE: u32 = 500;

impl Remediator {
    /// Schedules a check of `kind` for traces of former placement policies, unless there are policies.
    pub(super) fn look_for_left_later(&self, kind: &GroupResource) {
        if !self.loaded.snapshot().is_asked(PACKAGE) {
            self.queue.add_after(Key::Left(kind.clone()), LOOK_SOON);
        }
    }

    /// Checks the API server for traces of placement policies on `kind`, since a watch may lag. Releases the
    /// kind if there are no policies and no traces. Keeps the kind if there are traces.
    pub(super) async fn look_for_left(
        &self,
        key: &Key,
        kind: &GroupResource,
    ) -> Result<(), RemediationError> {
        let is_asked = || self.loaded.snapshot().is_asked(PACKAGE);
        let settles = {
            let passes = self.passes.lock();
            if is_asked() || !passes.may_have_left(kind) {
                return Ok(());
            }
            passes.settles(self.clock.now())
        };
        if let Some(settles) = settles {
            self.queue.add_after(key.clone(), settles);
            return Ok(());
        }
        let Some((gvr, _)) = self.loaded.read_as(kind) else {
            match self.loaded.objects(kind) {
                // The hub has no such kind.
                Ok(_) => self.is_clean(kind),
                Err(_) => self.queue.add_after(key.clone(), LOOK_SOON),
            }
            return Ok(());
        };
        let mut pages = Pages::new(&gvr, "", ListParams::default().limit(PAGE), Extent::Metadata);
        let mut is_left = false;
        while !is_left {
            let page = self.requests.list(pages.request(), Extent::Metadata).await;
            let failed = |source| RemediationError { what: format!("list {kind}"), source };
            let (objects, token) = page.map_err(failed)?;
            is_left = objects.iter().any(|object| self.is_left(kind, object));
            if !pages.turn(token) {
                break;
            }
        }
        // Placement policies that were created during the check leave new traces.
        if is_asked() || self.passes.lock().settles(self.clock.now()).is_some() {
            return Ok(());
        }
        if is_left {
            self.passes.lock().has_left(kind);
            self.queue.affect([Key::Kinds]);
            self.queue.add_after(key.clone(), LOOK_AGAIN);
        } else {
            self.is_clean(kind);
        }
        Ok(())
    }

    fn is_clean(&self, kind: &GroupResource) {
        self.passes.lock().is_clean(kind);
        self.queue.affect([Key::Kinds]);
    }

    /// Whether former placement policies have left a trace on `object`, which has only metadata. If the
    /// object is not in memory, only exempt namespaces are excluded.
    fn is_left(&self, kind: &GroupResource, object: &HubObject) -> bool {
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
