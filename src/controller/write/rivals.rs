//! Which other controllers of this make have works for an object: looked up only where they own fields that this one would
//! write, because their works are none of the mirror's.
//!
//! One look at the metadata of all others' works answers everybody who has asked by then, and is not repeated for a while:
//! whoever may write a policy may pretend that another controller owns its annotations, as often as it likes. Nobody waits
//! for it with a key in hand.

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

/// How long after one look the next one may begin.
const PAUSE: Duration = Duration::from_secs(5);
/// When to ask again while somebody else looks.
const SOON: Duration = Duration::from_secs(1);
/// After so long, nobody asks any more.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// How many works a page has.
const PAGE: u32 = 500;
/// How controllers' managers begin.
const MANAGER: &str = "policy-sync-";

/// What is known of an object.
#[derive(Debug)]
pub(super) enum Look {
    /// The managers of the controllers that have works for it.
    Standing(BTreeSet<Arc<str>>),
    /// Nothing yet: ask again after so long.
    Later(Duration),
}

/// Looks others' works up.
pub(super) struct Rivals {
    requests: Requests,
    controller: ControllerName,
    /// Who asked when, until it is answered.
    asked: Mutex<HashMap<Origin, Instant>>,
    found: Mutex<Found>,
    /// Held by who looks: when the last look began.
    looking: tokio::sync::Mutex<Option<Instant>>,
}

/// What the last look has found of those that had asked.
#[derive(Default)]
struct Found {
    began: Option<Instant>,
    standing: HashMap<Origin, BTreeSet<Arc<str>>>,
}

impl Rivals {
    /// Of the works of all controllers but `controller`.
    pub(super) fn new(requests: Requests, controller: ControllerName) -> Self {
        Self {
            requests,
            controller,
            asked: Mutex::default(),
            found: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
        }
    }

    /// Which other controllers have works for `origin`, by what is found after this was first asked.
    ///
    /// # Errors
    ///
    /// Where works cannot be listed.
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

    /// What was found of `origin` by a look that began after it was asked for.
    fn answer(&self, origin: &Origin) -> Option<BTreeSet<Arc<str>>> {
        let (mut asked, mut found) = (self.asked.lock(), self.found.lock());
        let at = asked.get(origin)?;
        found.began.filter(|began| *began >= *at)?;
        asked.remove(origin);
        Some(found.standing.remove(origin).unwrap_or_default())
    }

    /// The managers that have works for those that are asked for.
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
