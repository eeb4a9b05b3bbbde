//! The moment of the last event for each of many keys, kept only for a limited time.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use policy_sync_api::moment::Moment;

/// Moments by key. Recording a moment removes moments that are older than the span, so that deleted keys leave no
/// entries.
#[derive(Clone, Debug)]
pub(super) struct Recent<K> {
    span: Duration,
    moments: HashMap<K, Moment>,
    /// All recorded moments in order of time, including moments that a later event of the same key has replaced.
    order: VecDeque<(Moment, K)>,
}

impl<K: Clone + Eq + Hash> Recent<K> {
    /// Creates an empty table that keeps moments for `span`.
    pub(super) fn within(span: Duration) -> Self {
        Self { span, moments: HashMap::new(), order: VecDeque::new() }
    }

    /// Records an event for `key` at `now`.
    pub(super) fn note(&mut self, key: K, now: Moment) {
        while let Some((moment, _)) = self.order.front()
            && moment.after(self.span) < now
        {
            if let Some((moment, key)) = self.order.pop_front()
                && self.moments.get(&key) == Some(&moment)
            {
                self.moments.remove(&key);
            }
        }
        if self.moments.insert(key.clone(), now) != Some(now) {
            self.order.push_back((now, key));
        }
    }

    /// The moment of the last event for `key`. `None` if the event is older than the span, or if there was no event.
    pub(super) fn last<Q>(&self, key: &Q) -> Option<Moment>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.moments.get(key).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_older_than_the_span_are_removed() {
        let mut recent: Recent<usize> = Recent::within(Duration::from_secs(5));
        recent.note(0, Moment(0));
        recent.note(1, Moment(4_000));
        recent.note(0, Moment(4_000));
        recent.note(2, Moment(9_000));
        assert_eq!([0, 1, 2].map(|key| recent.last(&key)), [4_000, 4_000, 9_000].map(|at| Some(Moment(at))));
        for name in 10..10_010 {
            recent.note(name, Moment(10_000 + i64::try_from(name).unwrap() * 1_000));
        }
        assert!(recent.moments.len() <= 7 && recent.order.len() <= 7, "{recent:?}");
        assert_eq!(recent.last(&0), None);
    }
}
