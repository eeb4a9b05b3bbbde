//! The only source of the current time, so that tests can replace it.

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use policy_sync_api::moment::Moment;

/// The wall-clock time at start plus the monotonic time since then. The clock never runs backwards.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Moment,
    started: Instant,
}

impl Clock {
    /// A clock that starts at the wall-clock time.
    #[must_use]
    pub fn start() -> Self {
        Self::starting_at(Moment(Timestamp::now().as_millisecond()))
    }

    /// A clock that starts at `moment`.
    #[must_use]
    pub fn starting_at(moment: Moment) -> Self {
        Self { start: moment, started: Instant::now() }
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.start.after(self.started.elapsed())
    }

    /// The current time as the Kubernetes API represents it.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_millisecond(self.now().0).unwrap_or(Timestamp::MAX)
    }
}
