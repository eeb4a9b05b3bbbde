//! Groups the policies of each kind that have the same target, ordered as on the hub: by creation time, then by name.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use crate::PolicyKind;
use crate::rows::policy::{Policy, Target};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::shrink::shrink_if_sparse;

/// The position of a policy among others of its kind and namespace: its creation time and its name.
pub(crate) type AgeKey = (Moment, Arc<str>);

/// The order of the policies of each kind, namespace and target.
#[derive(Clone, Debug, Default)]
pub(crate) struct SameTarget(HashMap<(PolicyKind, Arc<str>, Target), Order>);

/// The policies with one target, divided into runs of ascending names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    policies: BTreeSet<AgeKey>,
    /// The first policy of each run except the first run.
    starts: BTreeSet<AgeKey>,
}

impl SameTarget {
    /// Updates the order after the policy `object` of `kind` was created, deleted or changed.
    pub(super) fn changed(
        &mut self,
        kind: &PolicyKind,
        object: &ObjectKey,
        before: Option<&Policy>,
        after: Option<&Policy>,
    ) {
        let of = |policy: Option<&Policy>| {
            policy.map(|policy| (age_key(object, policy), policy.targets.clone())).unwrap_or_default()
        };
        let (before, after) = (of(before), of(after));
        if before == after {
            return;
        }
        let key = |target: &Target| (kind.clone(), object.namespace.clone(), target.clone());
        for target in before.1.iter() {
            let key = key(target);
            if let Some(order) = self.0.get_mut(&key) {
                order.remove(&before.0);
                if order.policies.is_empty() {
                    self.0.remove(&key);
                    shrink_if_sparse(&mut self.0);
                }
            }
        }
        for target in after.1.iter() {
            self.0.entry(key(target)).or_default().insert(&after.0);
        }
    }

    /// The policies of `kind` in `namespace` that target `target`.
    pub(crate) fn of(&self, kind: &PolicyKind, namespace: &Arc<str>, target: &Target) -> Option<&Order> {
        self.0.get(&(kind.clone(), namespace.clone(), target.clone()))
    }
}

impl Order {
    fn insert(&mut self, age_key: &AgeKey) {
        self.policies.insert(age_key.clone());
        self.refresh(age_key);
        self.refresh_next(age_key);
    }

    fn remove(&mut self, age_key: &AgeKey) {
        self.policies.remove(age_key);
        self.starts.remove(age_key);
        self.refresh_next(age_key);
    }

    fn refresh_next(&mut self, age_key: &AgeKey) {
        let next = self.younger(age_key).next().cloned();
        if let Some(next) = next {
            self.refresh(&next);
        }
    }

    /// Updates whether a run starts at `age_key`.
    fn refresh(&mut self, age_key: &AgeKey) {
        let starts = self.older(age_key).next().is_some_and(|before| before.1 > age_key.1);
        if starts {
            self.starts.insert(age_key.clone());
        } else {
            self.starts.remove(age_key);
        }
    }

    /// The policies before `age_key`, the nearest first.
    pub(crate) fn older(&self, age_key: &AgeKey) -> impl Iterator<Item = &AgeKey> {
        self.policies.range(..age_key).rev()
    }

    /// The policies after `age_key`, the nearest first.
    pub(crate) fn younger(&self, age_key: &AgeKey) -> impl Iterator<Item = &AgeKey> {
        self.policies.range((Bound::Excluded(age_key), Bound::Unbounded))
    }

    /// The last policy of the run before the run of `age_key`; `None` if `age_key` is in the first run.
    pub(crate) fn end_of_run_before(&self, age_key: &AgeKey) -> Option<&AgeKey> {
        let start = self.starts.range(..=age_key).next_back()?;
        self.older(start).next()
    }

    /// The policies of the run that ends with `last`, the last one first.
    pub(crate) fn run_to(&self, last: &AgeKey) -> impl Iterator<Item = &AgeKey> {
        let start = self.starts.range(..=last).next_back();
        let policies = self.policies.range(..=last).rev();
        policies.take_while(move |age_key| start.is_none_or(|start| *age_key >= start))
    }

    /// The policies of the runs after the run of `age_key`.
    pub(crate) fn later_runs(&self, age_key: &AgeKey) -> impl Iterator<Item = &AgeKey> {
        let start = self.starts.range((Bound::Excluded(age_key), Bound::Unbounded)).next();
        start.into_iter().flat_map(|start| self.policies.range(start..))
    }

    /// Whether there is only one policy.
    pub(crate) fn is_single(&self) -> bool {
        self.policies.len() == 1
    }
}

/// The position of `policy` among the policies of its kind and namespace.
pub(crate) fn age_key(object: &ObjectKey, policy: &Policy) -> AgeKey {
    (policy.created.unwrap_or_default(), object.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn age_key(second: i64, name: &str) -> AgeKey {
        (Moment(second), name.into())
    }

    fn names<'p>(places: impl Iterator<Item = &'p AgeKey>) -> String {
        places.map(|(_, name)| &**name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn runs_follow_each_change() {
        // The runs are `b d | a c | b2`.
        let all = [age_key(0, "b"), age_key(1, "d"), age_key(2, "a"), age_key(3, "c"), age_key(4, "b2")];
        let mut order = Order::default();
        for index in [3, 0, 4, 1, 2] {
            order.insert(&all[index]);
        }
        let before = |order: &Order, age_key: &AgeKey| {
            names(order.end_of_run_before(age_key).into_iter().flat_map(|last| order.run_to(last)))
        };
        assert_eq!(all.each_ref().map(|age_key| before(&order, age_key)), ["", "", "d b", "d b", "c a"]);
        assert_eq!(
            all.each_ref().map(|age_key| names(order.later_runs(age_key))),
            ["a c b2", "a c b2", "b2", "b2", ""]
        );
        order.remove(&all[1]);
        // The runs are now `b | a c | b2`.
        assert_eq!(all.each_ref().map(|age_key| before(&order, age_key)), ["", "", "b", "b", "c a"]);
        order.remove(&all[2]);
        // The runs are now `b c | b2`.
        assert_eq!(before(&order, &all[4]), "c b");
        assert_eq!(before(&order, &all[3]), "");
    }
}
