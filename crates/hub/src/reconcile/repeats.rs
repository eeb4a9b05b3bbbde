//! What was written last, so that the same is not written again and again where somebody else undoes it each time.

use std::hash::Hash;
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::Mutex;

use policy_sync_api::moment::Moment;
use policy_sync_api::shrink::give_back_shared;

/// How long the same waits.
const PAUSE: Duration = Duration::from_secs(10);

/// What was written last of each key, and when. What would not wait any longer is forgotten.
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
    /// For how long `write` has to wait, where it is what was written last of `key`.
    pub fn wait(&self, key: &K, write: &W, now: Moment) -> Option<Duration> {
        let last = self.last.get(key)?;
        let until = last.1.after(PAUSE);
        (last.0 == *write && until > now).then(|| until.since(now))
    }

    /// Notes that `write` was written of `key`.
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

    /// Forgets `key`, which is gone.
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
    fn the_same_waits_and_anything_else_does_not() {
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
    fn what_would_not_wait_any_longer_is_forgotten() {
        let (repeats, now) = (Repeats::default(), Moment(1_000));
        (0..100).for_each(|key| repeats.wrote(&key, (), now));
        repeats.wrote(&100, (), now.after(PAUSE));
        assert_eq!(repeats.last.len(), 1);
    }
}
