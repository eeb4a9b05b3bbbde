//! Delays a write that repeats the previous write, so that a conflict with another client does not become a tight loop.

use std::hash::Hash;
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::Mutex;

use policy_sync_api::moment::Moment;
use policy_sync_api::shrink::shrink_concurrent;

/// The minimum interval between two equal writes.
const PAUSE: Duration = Duration::from_secs(10);

/// The last write of each key, with the time of the write. Entries older than `PAUSE` are removed.
#[derive(Debug)]
pub struct WriteThrottle<K: Eq + Hash, W> {
    last: DashMap<K, (W, Moment)>,
    swept: Mutex<Moment>,
}

impl<K: Eq + Hash, W> Default for WriteThrottle<K, W> {
    fn default() -> Self {
        Self { last: DashMap::new(), swept: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash, W: PartialEq> WriteThrottle<K, W> {
    /// How long `write` must wait; `None` if it differs from the last write of `key`, or if the pause is over.
    pub fn wait(&self, key: &K, write: &W, now: Moment) -> Option<Duration> {
        let last = self.last.get(key)?;
        let until = last.1.after(PAUSE);
        (last.0 == *write && until > now).then(|| until.since(now))
    }

    /// Records a write.
    pub fn wrote(&self, key: &K, write: W, now: Moment) {
        {
            let mut swept = self.swept.lock();
            if swept.after(PAUSE) <= now {
                *swept = now;
                self.last.retain(|_, (_, at)| at.after(PAUSE) > now);
                shrink_concurrent(&self.last);
            }
        }
        self.last.insert(key.clone(), (write, now));
    }

    /// Discards the last write of `key`, for a deleted object.
    pub fn forget(&self, key: &K) {
        if self.last.remove(key).is_some() {
            shrink_concurrent(&self.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_repeated_write_waits() {
        let (throttle, key) = (WriteThrottle::default(), "a");
        let now = Moment(1_000);
        assert_eq!(throttle.wait(&key, &1, now), None);
        throttle.wrote(&key, 1, now);
        assert_eq!(throttle.wait(&key, &1, now.after(PAUSE / 2)), Some(PAUSE / 2));
        assert_eq!(throttle.wait(&key, &1, now.after(PAUSE)), None);
        assert_eq!(throttle.wait(&key, &2, now), None, "something else");
        assert_eq!(throttle.wait(&"b", &1, now), None, "another key");
        throttle.forget(&key);
        assert_eq!(throttle.wait(&key, &1, now), None, "it is gone");
        assert!(throttle.last.is_empty());
    }

    #[test]
    fn expired_writes_are_forgotten() {
        let (throttle, now) = (WriteThrottle::default(), Moment(1_000));
        (0..100).for_each(|key| throttle.wrote(&key, (), now));
        throttle.wrote(&100, (), now.after(PAUSE));
        assert_eq!(throttle.last.len(), 1);
    }
}
