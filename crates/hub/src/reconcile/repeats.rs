//! Delays a write that repeats the previous one, so that a conflict with another client does not become a tight loop.

use std::hash::Hash;
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::Mutex;

use policy_sync_api::moment::Moment;
use policy_sync_api::shrink::give_back_shared;

/// The minimum interval between two equal writes.
const PAUSE: Duration = Duration::from_secs(10);

/// The last write of each key and its time. Entries older than the pause are removed.
#[derive(Debug)]
pub struct Repeats<K: Eq + Hash, W> {
    last: DashMap<K, (W, Moment)>,
    swept: Mutex<Moment>,
}

impl<K: Eq + Hash, W> Default for Repeats<K, W> {
    fn default() -> Self {
        Self { last: DashMap::new(), swept: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash, W: PartialEq> Repeats<K, W> {
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
                give_back_shared(&self.last);
            }
        }
        self.last.insert(key.clone(), (write, now));
    }

    /// Discards the last write of `key`, for a deleted object.
    pub fn forget(&self, key: &K) {
        if self.last.remove(key).is_some() {
            give_back_shared(&self.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_repeated_write_waits() {
        let (repeats, key) = (Repeats::default(), "a");
        let now = Moment(1_000);
        assert_eq!(repeats.wait(&key, &1, now), None);
        repeats.wrote(&key, 1, now);
        assert_eq!(repeats.wait(&key, &1, now.after(PAUSE / 2)), Some(PAUSE / 2));
        assert_eq!(repeats.wait(&key, &1, now.after(PAUSE)), None);
        assert_eq!(repeats.wait(&key, &2, now), None, "something else");
        assert_eq!(repeats.wait(&"b", &1, now), None, "another key");
        repeats.forget(&key);
        assert_eq!(repeats.wait(&key, &1, now), None, "it is gone");
        assert!(repeats.last.is_empty());
    }

    #[test]
    fn expired_writes_are_forgotten() {
        let (repeats, now) = (Repeats::default(), Moment(1_000));
        (0..100).for_each(|key| repeats.wrote(&key, (), now));
        repeats.wrote(&100, (), now.after(PAUSE));
        assert_eq!(repeats.last.len(), 1);
    }
}
