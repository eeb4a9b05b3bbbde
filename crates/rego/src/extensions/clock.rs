//! Keeps the time constant during an evaluation.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use regorus::Value;

use super::or_undefined;

thread_local! {
    /// The time of the evaluation on this thread in nanoseconds since the epoch.
    static NOW: Cell<Option<i64>> = const { Cell::new(None) };
}

/// While this value exists, all calls of an evaluation on this thread get the same time.
pub(crate) struct FrozenClock;

impl FrozenClock {
    /// Stops the clock at the current time.
    pub(crate) fn now() -> Self {
        NOW.set(read());
        Self
    }
}

impl Drop for FrozenClock {
    fn drop(&mut self) {
        NOW.set(None);
    }
}

/// The time of the evaluation in nanoseconds since the epoch; `None` if it has more than 63 bits.
pub(super) fn nanoseconds() -> Option<i64> {
    NOW.get().or_else(read)
}

fn read() -> Option<i64> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since_epoch.as_nanos()).ok()
}

pub(super) fn now_ns(_: Vec<Value>) -> Result<Value> {
    Ok(or_undefined(nanoseconds()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evaluation_has_one_time() {
        let stopped = FrozenClock::now();
        let first = nanoseconds();
        while read() == first {}
        assert_eq!(nanoseconds(), first);
        drop(stopped);
        assert!(nanoseconds() > first);
    }
}
