//! The one place where time comes in.

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use policy_sync_api::moment::Moment;

/// The wall clock of the process's start, carried on by a clock that never runs backwards.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Moment,
    started: Instant,
}

impl Clock {
    /// A clock that starts with the wall clock.
    #[must_use]
    pub fn start() -> Self {
        Self::starting_at(Moment(Timestamp::now().as_millisecond()))
    }

    /// A clock that now shows `moment`.
    #[must_use]
    pub fn starting_at(moment: Moment) -> Self {
        Self { start: moment, started: Instant::now() }
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.start.after(self.started.elapsed())
    }

    /// The same as the API writes it.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_millisecond(self.now().0).unwrap_or(Timestamp::MAX)
    }
}
