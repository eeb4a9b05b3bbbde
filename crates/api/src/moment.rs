//! Points in time.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// A point in time, in milliseconds since 1970-01-01 UTC, by a clock that never runs backwards within a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// The moment `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The same in whole seconds, which is what the API keeps.
    #[must_use]
    pub fn whole_seconds(self) -> Timestamp {
        Timestamp::from_second(self.0.div_euclid(1000)).unwrap_or(Timestamp::MAX)
    }

    /// The same as annotations have it: whole seconds, in RFC 3339.
    #[must_use]
    pub fn rfc3339(self) -> String {
        format!("{:.0}", self.whole_seconds())
    }

    /// The earlier of two moments, where there are any.
    #[must_use]
    pub fn earliest(left: Option<Self>, right: Option<Self>) -> Option<Self> {
        left.into_iter().chain(right).min()
    }

    /// The time from `earlier` to this moment, zero where it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or_default())
    }
}
