//! What was written last, so that the same is not written again and again where somebody else undoes it each time.

use std::time::Duration;

use dashmap::DashMap;

use super::Key;
use crate::api::moment::Moment;
use crate::shrink::give_back_shared;

/// How long the same waits.
const PAUSE: Duration = Duration::from_secs(10);

/// What was written last of each key, and when.
#[derive(Debug)]
pub(crate) struct Repeats<K: Key, W>(DashMap<K, (W, Moment)>);

impl<K: Key, W> Default for Repeats<K, W> {
    fn default() -> Self {
        Self(DashMap::new())
    }
}

impl<K: Key, W: PartialEq> Repeats<K, W> {
    /// For how long `write` has to wait, where it is what was written last of `key`.
    pub(crate) fn wait(&self, key: &K, write: &W, now: Moment) -> Option<Duration> {
        let last = self.0.get(key)?;
        let until = last.1.after(PAUSE);
        (last.0 == *write && until > now).then(|| until.since(now))
    }

    /// Notes that `write` was written of `key`.
    pub(crate) fn wrote(&self, key: &K, write: W, now: Moment) {
        self.0.insert(key.clone(), (write, now));
    }

    /// Forgets `key`, which is gone.
    pub(crate) fn forget(&self, key: &K) {
        if self.0.remove(key).is_some() {
            give_back_shared(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::Priority;

    #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    struct Name(&'static str);

    impl Key for Name {
        const CATEGORIES: &'static [&'static str] = &["name"];

        fn category(&self) -> &'static str {
            "name"
        }

        fn priority(&self) -> Priority {
            Priority::First
        }
    }

    #[test]
    fn the_same_waits_and_anything_else_does_not() {
        let (repeats, key) = (Repeats::default(), Name("a"));
        let now = Moment(1_000);
        assert_eq!(repeats.wait(&key, &1, now), None);
        repeats.wrote(&key, 1, now);
        assert_eq!(repeats.wait(&key, &1, now.after(PAUSE / 2)), Some(PAUSE / 2));
        assert_eq!(repeats.wait(&key, &1, now.after(PAUSE)), None);
        assert_eq!(repeats.wait(&key, &2, now), None, "something else");
        assert_eq!(repeats.wait(&Name("b"), &1, now), None, "another key");
        repeats.forget(&key);
        assert_eq!(repeats.wait(&key, &1, now), None, "it is gone");
        assert!(repeats.0.is_empty());
    }
}
