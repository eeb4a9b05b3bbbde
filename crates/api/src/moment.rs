//! Points in time.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// A point in time, in milliseconds since 1970-01-01 UTC. Within a process, the clock never runs backwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// The moment that is `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Rounded down to whole seconds, the precision of timestamps in the Kubernetes API.
    #[must_use]
    pub fn whole_seconds(self) -> Timestamp {
        Timestamp::from_second(self.0.div_euclid(1000)).unwrap_or(Timestamp::MAX)
    }

    /// The time in RFC 3339 with whole seconds, as in annotations.
    #[must_use]
    pub fn rfc3339(self) -> String {
        format!("{:.0}", self.whole_seconds())
    }

    /// The earlier of two optional times.
    #[must_use]
    pub fn earliest(left: Option<Self>, right: Option<Self>) -> Option<Self> {
        left.into_iter().chain(right).min()
    }

    /// The time elapsed since `earlier`; zero if `earlier` is later than this moment.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or_default())
    }
}
