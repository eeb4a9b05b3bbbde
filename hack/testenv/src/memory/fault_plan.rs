//! Plans: one thing that goes wrong, at one request or at one event.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use parking_lot::Mutex;
use policy_sync_hub::IDLE_TIMEOUT;
use policy_sync_hub::watch::ANSWERED_WITHIN;
use tokio::time::{Instant, sleep};

use super::{Asked, EventFate, Fate, Interposer, MemoryServer};

/// What can go wrong with a request.
pub const OF_REQUESTS: [(&str, Fate); 13] = [
    ("never sent", Fate::Lost),
    ("answer lost", Fate::AnswerLost),
    ("reset", Fate::Reset),
    ("403", Fate::Refused { code: 403, retry_after: None }),
    ("409", Fate::Refused { code: 409, retry_after: None }),
    ("413", Fate::Refused { code: 413, retry_after: None }),
    ("422", Fate::Refused { code: 422, retry_after: None }),
    ("429", Fate::Refused { code: 429, retry_after: Some(2) }),
    ("500", Fate::Refused { code: 500, retry_after: None }),
    ("503", Fate::Refused { code: 503, retry_after: None }),
    ("30 s late", Fate::Late(Duration::from_secs(30))),
    // Later than anybody waits for a write: it has been sent again by then.
    ("45 s late", Fate::Late(Duration::from_secs(45))),
    ("answer 20 s late", Fate::AnswerLate(Duration::from_secs(20))),
];

/// What can go wrong with an event of a watch, and with the watches that follow it.
pub const OF_EVENTS: [(&str, EventFate); 12] = [
    ("cut", EventFate::Cut),
    ("cut within", EventFate::CutWithin),
    ("expired", EventFate::Expired),
    (EXPIRED_AFTER_CUT, EventFate::Cut),
    (LIST_FAILS, EventFate::Expired),
    ("silence", EventFate::Silence),
    ("twice", EventFate::Twice),
    ("bookmarks only", EventFate::Withheld),
    ("garbled", EventFate::Garbled),
    ("5 s late", EventFate::Late(Duration::from_secs(5))),
    ("30 s late", EventFate::Late(Duration::from_secs(30))),
    ("15 s missed", EventFate::Missed(Duration::from_secs(15))),
];
/// The stream ends, and the next one is refused.
const EXPIRED_AFTER_CUT: &str = "cut, then expired";

/// The stream says that its version has expired, and the list that follows fails.
const LIST_FAILS: &str = "expired, then 500";

/// How many access reviews are disturbed: those of the start, and some more.
const REVIEWS: usize = 20;
/// How long a write is waited for.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a watch lasts.
const WATCH_LASTS: Duration = Duration::from_secs(290);
/// How often it is looked at whether a fault is over.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How much longer than a fault can last it may seem to: at each look, some other request may just be under way.
const SEEMS: Duration = Duration::from_secs(1);

/// What the names of events begin with.
const EVENT: &str = "event of ";

/// One plan: `patch manifestworks.… eu-1/limits#2 × answer lost`, `event of gateways.… shop/api#1 × silence`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plan {
    /// The request or the event.
    pub at: String,
    /// What goes wrong.
    pub fault: &'static str,
}

impl Plan {
    /// The kind of request or of event, as in `patch manifestworks.…`, whatever its object.
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

/// Disturbs as one plan says, or as none.
#[derive(Clone, Default)]
pub struct Faults(Arc<Inner>);

#[derive(Default)]
struct Inner {
    plan: Option<Plan>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Requests, in order.
    requests: Vec<String>,
    /// Events, in order.
    events: Vec<String>,
    ordinals: HashMap<String, usize>,
    /// The request that was disturbed, or the watch, and when.
    disturbed: Option<(Asked, Instant)>,
    /// A kind whose next watch has expired.
    expires: Option<String>,
    /// A kind whose next list fails.
    unlisted: Option<String>,
}

impl Faults {
    /// Faults with one `plan`.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        Self(Arc::new(Inner { plan: Some(plan.clone()), ..Inner::default() }))
    }

    /// What is to go wrong.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.0.plan.as_ref()
    }

    /// What was disturbed: the request, or the watch of the event.
    #[must_use]
    pub fn disturbed(&self) -> Option<Asked> {
        self.0.state.lock().disturbed.clone().map(|(asked, _)| asked)
    }

    /// Waits until what goes wrong on `server` is over; returns how long that was.
    ///
    /// # Errors
    ///
    /// Where that takes longer than the fault can last; where nothing has gone wrong within `limit`.
    pub async fn over(&self, server: &MemoryServer, limit: Duration) -> Result<Duration> {
        let start = Instant::now();
        loop {
            let struck = self.0.state.lock().disturbed.clone();
            match struck {
                Some((_, at)) if server.is_undisturbed() => return Ok(at.elapsed()),
                Some((asked, at)) => {
                    let lasts = self.lasts(&asked);
                    ensure!(
                        at.elapsed() <= lasts + SEEMS,
                        "it lasts longer than {} s: somebody waits too long",
                        lasts.as_secs()
                    );
                }
                None => ensure!(start.elapsed() <= limit, "it disturbed nothing"),
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// How long the fault can last that has struck at `asked`: for as long as the server holds something back, or as the
    /// controller waits for what does not come.
    fn lasts(&self, asked: &Asked) -> Duration {
        let Some(plan) = &self.0.plan else { return Duration::ZERO };
        if asked.verb == "watch" && plan.at.starts_with(EVENT) {
            return match fate_of(&OF_EVENTS, plan.fault) {
                Some(EventFate::Silence) => IDLE_TIMEOUT,
                Some(EventFate::Withheld) => WATCH_LASTS,
                Some(EventFate::Late(late) | EventFate::Missed(late)) => late,
                _ => Duration::ZERO,
            };
        }
        match fate_of(&OF_REQUESTS, plan.fault) {
            Some(Fate::Lost) if asked.is_write() => WRITE_TIMEOUT,
            Some(Fate::Lost) => ANSWERED_WITHIN,
            Some(Fate::Late(late) | Fate::AnswerLate(late)) => late,
            _ => Duration::ZERO,
        }
    }

    /// A plan for each request so far and each of its faults.
    #[must_use]
    pub fn request_plans(&self) -> Vec<Plan> {
        plans(&self.0.state.lock().requests, OF_REQUESTS.iter().map(|(fault, _)| *fault))
    }

    /// A plan for each event so far and each of its faults.
    #[must_use]
    pub fn event_plans(&self) -> Vec<Plan> {
        plans(&self.0.state.lock().events, OF_EVENTS.iter().map(|(fault, _)| *fault))
    }

    /// What is to go wrong at `at`, once.
    fn fault(&self, state: &State, at: &str) -> Option<&'static str> {
        let plan = self.0.plan.as_ref()?;
        (plan.at == at && state.disturbed.is_none()).then_some(plan.fault)
    }
}

fn plans(at: &[String], faults: impl Iterator<Item = &'static str> + Clone) -> Vec<Plan> {
    at.iter().flat_map(|at| faults.clone().map(|fault| Plan { at: at.clone(), fault })).collect()
}

fn fate_of<F: Clone>(table: &[(&str, F)], fault: &str) -> Option<F> {
    table.iter().find(|(name, _)| *name == fault).map(|(_, fate)| fate.clone())
}

impl Interposer for Faults {
    fn request(&self, request: &Asked) -> Fate {
        // Nothing depends on what becomes of an Event, and each has a name of its own.
        if request.resource == "events" {
            return Fate::Served;
        }
        let mut state = self.0.state.lock();
        let at = request.to_string();
        if request.verb == "watch" && state.expires.take_if(|kind| *kind == request.resource).is_some() {
            return Fate::Refused { code: 410, retry_after: None };
        }
        if request.verb == "list" && state.unlisted.take_if(|kind| *kind == request.resource).is_some() {
            return Fate::Refused { code: 500, retry_after: None };
        }
        let fault = self.fault(&state, &at);
        // What it may do it asks every now and then: each time is as the first ones.
        if request.resource != "selfsubjectaccessreviews" || request.ordinal <= REVIEWS {
            state.requests.push(at);
        }
        let fate = fault.and_then(|fault| fate_of(&OF_REQUESTS, fault));
        if fate.is_some() {
            state.disturbed = Some((request.clone(), Instant::now()));
        }
        fate.unwrap_or(Fate::Served)
    }

    fn event(&self, watch: &Asked, object: &str) -> EventFate {
        let mut state = self.0.state.lock();
        let about = format!("{EVENT}{}.{} {object}", watch.resource, watch.group);
        let ordinal = state.ordinals.entry(format!("{about} for {}", watch.namespace)).or_default();
        *ordinal += 1;
        let at = format!("{about}#{ordinal}");
        let fault = self.fault(&state, &at);
        state.events.push(at);
        let fate = fault.and_then(|fault| fate_of(&OF_EVENTS, fault));
        if fate.is_some() {
            state.disturbed = Some((watch.clone(), Instant::now()));
        }
        if fault == Some(EXPIRED_AFTER_CUT) {
            state.expires = Some(watch.resource.clone());
        }
        if fault == Some(LIST_FAILS) {
            state.unlisted = Some(watch.resource.clone());
        }
        fate.unwrap_or(EventFate::Sent)
    }
}
