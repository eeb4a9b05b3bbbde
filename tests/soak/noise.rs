//! Random faults, determined by the seed and the content of each request or event.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;

use policy_sync_testenv::memory::{EventOutcome, Interposer, RequestInfo, RequestOutcome};

/// Of 256 requests or events, this many are disturbed.
const OFTEN: u8 = 50;

/// The source of faults. Clones share their state.
#[derive(Clone)]
pub(crate) struct Noise(Arc<Mutex<State>>);

struct State {
    seed: u64,
    on: bool,
    faults: usize,
    events: HashMap<String, usize>,
}

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State { seed, on: false, faults: 0, events: HashMap::new() })))
    }

    pub(crate) fn begin(&self) {
        self.0.lock().on = true;
    }

    pub(crate) fn end(&self) {
        self.0.lock().on = false;
    }

    pub(crate) fn faults(&self) -> usize {
        self.0.lock().faults
    }
}

impl State {
    /// A random generator that depends only on the seed and `text`.
    fn rng(&self, text: &str) -> Rng {
        let hash = blake3::hash(format!("{} {text}", self.seed).as_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hash.as_bytes()[..8]);
        Rng::with_seed(u64::from_le_bytes(bytes))
    }
}

impl Interposer for Noise {
    fn request(&self, request: &RequestInfo) -> RequestOutcome {
        let mut state = self.0.lock();
        let mut rng = state.rng(&request.to_string());
        if !state.on || rng.u8(..) >= OFTEN {
            return RequestOutcome::Served;
        }
        state.faults += 1;
        let refused = |code| RequestOutcome::Refused { code, retry_after: None };
        match rng.u8(..13) {
            0 | 1 => RequestOutcome::ResponseLost,
            2 => RequestOutcome::Reset,
            3 => RequestOutcome::Late(Duration::from_secs(rng.u64(1..40))),
            4 => refused(403),
            5 => refused(409),
            6 => refused(413),
            7 => refused(422),
            8 => RequestOutcome::Refused { code: 429, retry_after: Some(rng.u32(1..5)) },
            9 => refused(500),
            10 => refused(503),
            11 if request.verb == "watch" => refused(410),
            11 => refused(504),
            _ => RequestOutcome::Lost,
        }
    }

    fn event(&self, watch: &RequestInfo, object: &str) -> EventOutcome {
        let mut state = self.0.lock();
        let about = format!("event of {}.{} {object}", watch.resource, watch.group);
        let ordinal = state.events.entry(about.clone()).or_default();
        *ordinal += 1;
        let about = format!("{about}#{ordinal}");
        let mut rng = state.rng(&about);
        if !state.on || rng.u8(..) >= OFTEN {
            return EventOutcome::Sent;
        }
        state.faults += 1;
        match rng.u8(..9) {
            0 => EventOutcome::Twice,
            1 => EventOutcome::Cut,
            2 => EventOutcome::CutWithin,
            3 => EventOutcome::Expired,
            4 => EventOutcome::Garbled,
            5 => EventOutcome::Dropped(Duration::from_secs(rng.u64(1..20))),
            6 => EventOutcome::BookmarksOnly,
            _ => EventOutcome::Late(Duration::from_secs(rng.u64(1..40))),
        }
    }
}
