//! Finds other Policy Sync controllers that have works for an object. The mirror does not contain these works. The
//! lookup is needed only if another controller owns fields that this controller would write.
//!
//! One list of the metadata of these works serves all pending lookups, and the next list starts after a pause.
//! Otherwise a user could trigger any number of lists by faking the field manager of annotations. Only the key that
//! runs the list waits for it; other keys are tried again later.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::WriteError;
use policy_sync_api::annotations::{CONTROLLER, MANAGED_BY, MANAGED_BY_US, PARENT};
use policy_sync_api::names::{ControllerName, Origin};
use policy_sync_hub::Pages;
use policy_sync_hub::reconcile::Requests;
use policy_sync_mirror::Projection;
use policy_sync_sync::kinds::WORKS;

/// The minimum time between the starts of two lists.
const MIN_LIST_INTERVAL: Duration = Duration::from_secs(5);
/// The delay before a retry while the lookup of another key lists works.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The time after which a pending lookup is dropped.
const LOOKUP_EXPIRY: Duration = Duration::from_secs(60);
/// The number of works per page.
const PAGE: u32 = 500;
/// The prefix of the field managers of controllers.
const MANAGER: &str = "policy-sync-";

/// The result of a lookup.
#[derive(Debug)]
pub(super) enum OtherControllers {
    /// The field managers of the controllers that have works for the object.
    Known(BTreeSet<Arc<str>>),
    /// No result yet: retry after this time.
    RetryAfter(Duration),
}

/// Looks up the works of other controllers.
pub(super) struct OtherControllerLookup {
    requests: Requests,
    controller: ControllerName,
    /// The start of each pending lookup.
    pending: Mutex<HashMap<Origin, Instant>>,
    found: Mutex<LookupResults>,
    /// The start of the last list. The lock is held during a list.
    last_list: tokio::sync::Mutex<Option<Instant>>,
}

/// The results of the last list for the lookups that were pending.
#[derive(Default)]
struct LookupResults {
    began: Option<Instant>,
    field_managers: HashMap<Origin, BTreeSet<Arc<str>>>,
}

impl OtherControllerLookup {
    /// Looks up the works of all controllers except `controller`.
    pub(super) fn new(requests: Requests, controller: ControllerName) -> Self {
        Self {
            requests,
            controller,
            pending: Mutex::default(),
            found: Mutex::default(),
            last_list: tokio::sync::Mutex::default(),
        }
    }

    /// Returns which other controllers have works for `origin`. The result comes from a list that started after the
    /// first call.
    ///
    /// # Errors
    ///
    /// If the works cannot be listed.
    pub(super) async fn look_up(&self, origin: &Origin) -> Result<OtherControllers, WriteError> {
        self.pending.lock().entry(origin.clone()).or_insert_with(Instant::now);
        if let Some(field_managers) = self.take_result(origin) {
            return Ok(OtherControllers::Known(field_managers));
        }
        let Ok(mut last) = self.last_list.try_lock() else {
            return Ok(OtherControllers::RetryAfter(RETRY_DELAY));
        };
        let now = Instant::now();
        if let Some(next) = last.map(|last| last + MIN_LIST_INTERVAL).filter(|next| *next > now) {
            return Ok(OtherControllers::RetryAfter(next - now));
        }
        *last = Some(now);
        self.pending.lock().retain(|_, at| now.duration_since(*at) < LOOKUP_EXPIRY);
        self.pending.lock().entry(origin.clone()).or_insert(now);
        let field_managers = self.list().await?;
        *self.found.lock() = LookupResults { began: Some(now), field_managers };
        Ok(self
            .take_result(origin)
            .map_or(OtherControllers::RetryAfter(RETRY_DELAY), OtherControllers::Known))
    }

    /// Takes the result for `origin` from the last list. `None` unless that list began after the lookup of `origin`.
    fn take_result(&self, origin: &Origin) -> Option<BTreeSet<Arc<str>>> {
        let (mut pending, mut found) = (self.pending.lock(), self.found.lock());
        let at = pending.get(origin)?;
        found.began.filter(|began| *began >= *at)?;
        pending.remove(origin);
        Some(found.field_managers.remove(origin).unwrap_or_default())
    }

    /// Lists the works of other controllers. Returns their field managers for each object.
    async fn list(&self) -> Result<HashMap<Origin, BTreeSet<Arc<str>>>, WriteError> {
        let works = WORKS.gvr();
        let labels = format!("{MANAGED_BY}={MANAGED_BY_US},{CONTROLLER}!={}", self.controller.hash());
        let params = ListParams::default().labels(&labels).limit(PAGE);
        let mut pages = Pages::new(&works, "", params, Projection::Metadata);
        let mut field_managers: HashMap<Origin, BTreeSet<Arc<str>>> = HashMap::new();
        loop {
            let page = self.requests.list(pages.request(), Projection::Metadata).await;
            let (found, next) = page.map_err(|source| WriteError::Request {
                verb: "list",
                object: "the ManifestWorks of other controllers".to_owned(),
                source,
            })?;
            let pending = self.pending.lock();
            for work in found.into_iter().map(|work| work.metadata) {
                let origin = work.annotations.get(PARENT).and_then(|text| Origin::parse(text));
                let Some(origin) = origin.filter(|origin| pending.contains_key(origin)) else { continue };
                let Some(hash) = work.labels.get(CONTROLLER) else { continue };
                field_managers.entry(origin).or_default().insert(format!("{MANAGER}{hash}").into());
            }
            drop(pending);
            if !pages.advance(next) {
                return Ok(field_managers);
            }
        }
    }
}
