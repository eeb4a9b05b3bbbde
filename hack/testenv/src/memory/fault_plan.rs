//! Fault plans: each injects a single fault at one request or one watch event.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use parking_lot::Mutex;
use policy_sync_hub::IDLE_TIMEOUT;
use policy_sync_hub::watch::RESPONSE_TIMEOUT;
use tokio::time::{Instant, sleep};

use super::{EventOutcome, Interposer, MemoryServer, RequestInfo, RequestOutcome};

/// Faults of a request.
pub const REQUEST_FAULTS: [(&str, RequestOutcome); 13] = [
    ("never sent", RequestOutcome::Lost),
    ("response lost", RequestOutcome::ResponseLost),
    ("reset", RequestOutcome::Reset),
    ("403", RequestOutcome::Refused { code: 403, retry_after: None }),
    ("409", RequestOutcome::Refused { code: 409, retry_after: None }),
    ("413", RequestOutcome::Refused { code: 413, retry_after: None }),
    ("422", RequestOutcome::Refused { code: 422, retry_after: None }),
    ("429", RequestOutcome::Refused { code: 429, retry_after: Some(2) }),
    ("500", RequestOutcome::Refused { code: 500, retry_after: None }),
    ("503", RequestOutcome::Refused { code: 503, retry_after: None }),
    ("30 s late", RequestOutcome::Late(Duration::from_secs(30))),
    // Longer than the timeout of any write: by then, the client has sent the write again.
    ("45 s late", RequestOutcome::Late(Duration::from_secs(45))),
    ("response 20 s late", RequestOutcome::ResponseLate(Duration::from_secs(20))),
];

/// Faults of a watch event, and of the requests that follow it.
pub const EVENT_FAULTS: [(&str, EventOutcome); 12] = [
    ("cut", EventOutcome::Cut),
    ("cut within a line", EventOutcome::CutWithin),
    ("expired", EventOutcome::Expired),
    (EXPIRED_AFTER_CUT, EventOutcome::Cut),
    (LIST_FAILS, EventOutcome::Expired),
    ("stalled", EventOutcome::Stalled),
    ("twice", EventOutcome::Twice),
    ("bookmarks only", EventOutcome::BookmarksOnly),
    ("garbled", EventOutcome::Garbled),
    ("5 s late", EventOutcome::Late(Duration::from_secs(5))),
    ("30 s late", EventOutcome::Late(Duration::from_secs(30))),
    ("15 s missed", EventOutcome::Dropped(Duration::from_secs(15))),
];
/// The stream ends, and the next watch is rejected as expired.
const EXPIRED_AFTER_CUT: &str = "cut, then expired";

/// The stream reports an expired version, and the list that follows fails.
const LIST_FAILS: &str = "expired, then 500";

/// Number of access reviews with faults. The number covers all reviews at the start, and some later reviews.
const REVIEWS: usize = 20;
/// Time limit of a write in the controller.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum duration of a watch.
const WATCH_DURATION: Duration = Duration::from_secs(290);
/// Poll interval while waiting for the end of a fault.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Tolerance for the duration of a fault, because unrelated requests may be in progress at a poll.
const END_TOLERANCE: Duration = Duration::from_secs(1);

/// Prefix of [`Plan::at`] for watch events.
const EVENT: &str = "event of ";

/// One fault at one request or event, printed as `patch manifestworks.… eu-1/limits#2 × response lost` or `event of
/// gateways.… shop/api#1 × stalled`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plan {
    /// The request or the event.
    pub at: String,
    /// The fault, from [`REQUEST_FAULTS`] or [`EVENT_FAULTS`].
    pub fault: &'static str,
}

impl Plan {
    /// The kind of request or event without its object, such as `patch manifestworks.…`.
    #[must_use]
    pub fn kind(&self) -> String {
        let at = self.at.rsplit_once('#').map_or(&*self.at, |(at, _)| at);
        let words = if at.starts_with(EVENT) { 3 } else { 2 };
        at.split(' ').take(words).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.at, self.fault)
    }
}

/// Injects the fault of a plan, or only records requests and events.
#[derive(Clone, Default)]
pub struct Faults(Arc<Inner>);

#[derive(Default)]
struct Inner {
    plan: Option<Plan>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// All requests so far, in order.
    requests: Vec<String>,
    /// All watch events so far, in order.
    events: Vec<String>,
    ordinals: HashMap<String, usize>,
    /// The request with the fault, or the watch request if an event has the fault; and the time of the fault.
    disturbed: Option<(RequestInfo, Instant)>,
    /// The kind whose next watch is rejected as expired.
    expires: Option<String>,
    /// The kind whose next list fails.
    unlisted: Option<String>,
}

impl Faults {
    /// Injects the fault of `plan`.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        Self(Arc::new(Inner { plan: Some(plan.clone()), ..Inner::default() }))
    }

    /// The plan, if any.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.0.plan.as_ref()
    }

    /// The request with the fault, or the watch request if an event has the fault.
    #[must_use]
    pub fn disturbed(&self) -> Option<RequestInfo> {
        self.0.state.lock().disturbed.clone().map(|(info, _)| info)
    }

    /// Waits until the fault on `server` has ended. Returns the duration of the fault.
    ///
    /// # Errors
    ///
    /// Returns an error if the fault does not end in time, or if no fault occurs within `limit`.
    pub async fn over(&self, server: &MemoryServer, limit: Duration) -> Result<Duration> {
        let start = Instant::now();
        loop {
            let struck = self.0.state.lock().disturbed.clone();
            match struck {
                Some((_, at)) if server.is_undisturbed() => return Ok(at.elapsed()),
                Some((info, at)) => {
                    let lasts = self.lasts(&info);
                    ensure!(
                        at.elapsed() <= lasts + END_TOLERANCE,
                        "the fault lasts longer than {} s",
                        lasts.as_secs()
                    );
                }
                None => ensure!(start.elapsed() <= limit, "the fault did not occur"),
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Maximum duration of the fault at `info`: the delay on the server, or the controller's timeout.
    fn lasts(&self, info: &RequestInfo) -> Duration {
        let Some(plan) = &self.0.plan else { return Duration::ZERO };
        if info.verb == "watch" && plan.at.starts_with(EVENT) {
            return match outcome_of(&EVENT_FAULTS, plan.fault) {
                Some(EventOutcome::Stalled) => IDLE_TIMEOUT,
                Some(EventOutcome::BookmarksOnly) => WATCH_DURATION,
                Some(EventOutcome::Late(late) | EventOutcome::Dropped(late)) => late,
                _ => Duration::ZERO,
            };
        }
        match outcome_of(&REQUEST_FAULTS, plan.fault) {
            Some(RequestOutcome::Lost) if info.is_write() => WRITE_TIMEOUT,
            Some(RequestOutcome::Lost) => RESPONSE_TIMEOUT,
            Some(RequestOutcome::Late(late) | RequestOutcome::ResponseLate(late)) => late,
            _ => Duration::ZERO,
        }
    }

    /// All plans for the requests recorded so far.
    #[must_use]
    pub fn request_plans(&self) -> Vec<Plan> {
        plans(&self.0.state.lock().requests, REQUEST_FAULTS.iter().map(|(fault, _)| *fault))
    }

    /// All plans for the events recorded so far.
    #[must_use]
    pub fn event_plans(&self) -> Vec<Plan> {
        plans(&self.0.state.lock().events, EVENT_FAULTS.iter().map(|(fault, _)| *fault))
    }

    /// The fault at `at`. `None` if the plan's fault was injected already.
    fn fault(&self, state: &State, at: &str) -> Option<&'static str> {
        let plan = self.0.plan.as_ref()?;
        (plan.at == at && state.disturbed.is_none()).then_some(plan.fault)
    }
}

fn plans(at: &[String], faults: impl Iterator<Item = &'static str> + Clone) -> Vec<Plan> {
    at.iter().flat_map(|at| faults.clone().map(|fault| Plan { at: at.clone(), fault })).collect()
}

fn outcome_of<F: Clone>(table: &[(&str, F)], fault: &str) -> Option<F> {
    table.iter().find(|(name, _)| *name == fault).map(|(_, outcome)| outcome.clone())
}

impl Interposer for Faults {
    fn request(&self, request: &RequestInfo) -> RequestOutcome {
        // Nothing depends on Events, and each Event has a unique name.
        if request.resource == "events" {
            return RequestOutcome::Served;
        }
        let mut state = self.0.state.lock();
        let at = request.to_string();
        if request.verb == "watch" && state.expires.take_if(|kind| *kind == request.resource).is_some() {
            return RequestOutcome::Refused { code: 410, retry_after: None };
        }
        if request.verb == "list" && state.unlisted.take_if(|kind| *kind == request.resource).is_some() {
            return RequestOutcome::Refused { code: 500, retry_after: None };
        }
        let fault = self.fault(&state, &at);
        // Access reviews are repeated periodically; the first reviews suffice.
        if request.resource != "selfsubjectaccessreviews" || request.ordinal <= REVIEWS {
            state.requests.push(at);
        }
        let outcome = fault.and_then(|fault| outcome_of(&REQUEST_FAULTS, fault));
        if outcome.is_some() {
            state.disturbed = Some((request.clone(), Instant::now()));
        }
        outcome.unwrap_or(RequestOutcome::Served)
    }

    fn event(&self, watch: &RequestInfo, object: &str) -> EventOutcome {
        let mut state = self.0.state.lock();
        let about = format!("{EVENT}{}.{} {object}", watch.resource, watch.group);
        let ordinal = state.ordinals.entry(format!("{about} for {}", watch.namespace)).or_default();
        *ordinal += 1;
        let at = format!("{about}#{ordinal}");
        let fault = self.fault(&state, &at);
        state.events.push(at);
        let outcome = fault.and_then(|fault| outcome_of(&EVENT_FAULTS, fault));
        if outcome.is_some() {
            state.disturbed = Some((watch.clone(), Instant::now()));
        }
        if fault == Some(EXPIRED_AFTER_CUT) {
            state.expires = Some(watch.resource.clone());
        }
        if fault == Some(LIST_FAILS) {
            state.unlisted = Some(watch.resource.clone());
        }
        outcome.unwrap_or(EventOutcome::Sent)
    }
}
