//! Finds other Policy Sync controllers that have works for an object. This is needed only if another controller owns
//! fields that this one would write, because the mirror does not contain the works of other controllers.
//!
//! One list of the metadata of these works serves all pending lookups, and the next list starts after a pause. Otherwise
//! a user could trigger any number of lists by faking the field manager of annotations. Only the key that lists
//! waits for it.

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
use policy_sync_mirror::Extent;
use policy_sync_sync::kinds::WORKS;

/// The minimum time between the starts of two lists.
const PAUSE: Duration = Duration::from_secs(5);
/// The delay before a retry while another key lists.
const SOON: Duration = Duration::from_secs(1);
/// The time after which a pending lookup is dropped.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// The number of works per page.
const PAGE: u32 = 500;
/// The prefix of the controllers' field managers.
const MANAGER: &str = "policy-sync-";

/// The result of a lookup.
#[derive(Debug)]
pub(super) enum Look {
    /// The field managers of the controllers that have works for the object.
    Standing(BTreeSet<Arc<str>>),
    /// No result yet: retry after this time.
    Later(Duration),
}

/// Looks up the works of other controllers.
pub(super) struct Rivals {
    requests: Requests,
    controller: ControllerName,
    /// The start of each pending lookup.
    asked: Mutex<HashMap<Origin, Instant>>,
    found: Mutex<Found>,
    /// Held during a list; contains the start of the last list.
    looking: tokio::sync::Mutex<Option<Instant>>,
}

/// The results of the last list for the lookups that were pending.
#[derive(Default)]
struct Found {
    began: Option<Instant>,
    standing: HashMap<Origin, BTreeSet<Arc<str>>>,
}

impl Rivals {
    /// Looks up the works of all controllers except `controller`.
    pub(super) fn new(requests: Requests, controller: ControllerName) -> Self {
        Self {
            requests,
            controller,
            asked: Mutex::default(),
            found: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
        }
    }

    /// Returns which other controllers have works for `origin`, from a list that starts after the first call.
    ///
    /// # Errors
    ///
    /// If the works cannot be listed.
    pub(super) async fn look(&self, origin: &Origin) -> Result<Look, WriteError> {
        self.asked.lock().entry(origin.clone()).or_insert_with(Instant::now);
        if let Some(standing) = self.answer(origin) {
            return Ok(Look::Standing(standing));
        }
        let Ok(mut last) = self.looking.try_lock() else { return Ok(Look::Later(SOON)) };
        let now = Instant::now();
        if let Some(next) = last.map(|last| last + PAUSE).filter(|next| *next > now) {
            return Ok(Look::Later(next - now));
        }
        *last = Some(now);
        self.asked.lock().retain(|_, at| now.duration_since(*at) < FORGOTTEN);
        self.asked.lock().entry(origin.clone()).or_insert(now);
        let standing = self.list().await?;
        *self.found.lock() = Found { began: Some(now), standing };
        Ok(self.answer(origin).map_or(Look::Later(SOON), Look::Standing))
    }

    /// Takes the result for `origin` from a list that began after its lookup.
    fn answer(&self, origin: &Origin) -> Option<BTreeSet<Arc<str>>> {
        let (mut asked, mut found) = (self.asked.lock(), self.found.lock());
        let at = asked.get(origin)?;
        found.began.filter(|began| *began >= *at)?;
        asked.remove(origin);
        Some(found.standing.remove(origin).unwrap_or_default())
    }

    /// The field managers with works for the objects of pending lookups.
    async fn list(&self) -> Result<HashMap<Origin, BTreeSet<Arc<str>>>, WriteError> {
        let works = WORKS.gvr();
        let labels = format!("{MANAGED_BY}={MANAGED_BY_US},{CONTROLLER}!={}", self.controller.hash());
        let params = ListParams::default().labels(&labels).limit(PAGE);
        let mut pages = Pages::new(&works, "", params, Extent::Metadata);
        let mut standing: HashMap<Origin, BTreeSet<Arc<str>>> = HashMap::new();
        loop {
            let page = self.requests.list(pages.request(), Extent::Metadata).await;
            let (found, next) = page.map_err(|source| WriteError::Request {
                verb: "list",
                object: "the ManifestWorks of other controllers".to_owned(),
                source,
            })?;
            let asked = self.asked.lock();
            for work in found.into_iter().map(|work| work.metadata) {
                let origin = work.annotations.get(PARENT).and_then(|text| Origin::parse(text));
                let Some(origin) = origin.filter(|origin| asked.contains_key(origin)) else { continue };
                let Some(hash) = work.labels.get(CONTROLLER) else { continue };
                standing.entry(origin).or_default().insert(format!("{MANAGER}{hash}").into());
            }
            drop(asked);
            if !pages.turn(next) {
                return Ok(standing);
            }
        }
    }
}
