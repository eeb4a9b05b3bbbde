//! Groups the policies of each kind that have the same target, ordered as on the hub: by creation time, then by name.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use crate::PolicyKind;
use crate::rows::policy::{Policy, Target};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::shrink::give_back;

/// The position of a policy among others of its kind and namespace: its creation time and its name.
pub(crate) type Place = (Moment, Arc<str>);

/// Policies by their targets.
#[derive(Clone, Debug, Default)]
pub(crate) struct SameTarget(HashMap<(PolicyKind, Arc<str>, Target), Order>);

/// The policies with one target, divided into runs of ascending names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    policies: BTreeSet<Place>,
    /// The first policy of each run except the first run.
    starts: BTreeSet<Place>,
}

impl SameTarget {
    /// The policy `object` of `kind` was created, deleted or changed.
    pub(super) fn changed(
        &mut self,
        kind: &PolicyKind,
        object: &ObjectKey,
        before: Option<&Policy>,
        after: Option<&Policy>,
    ) {
        let of = |policy: Option<&Policy>| {
            policy.map(|policy| (place(object, policy), policy.targets.clone())).unwrap_or_default()
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
                    give_back(&mut self.0);
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
    fn insert(&mut self, place: &Place) {
        self.policies.insert(place.clone());
        self.refresh(place);
        self.refresh_next(place);
    }

    fn remove(&mut self, place: &Place) {
        self.policies.remove(place);
        self.starts.remove(place);
        self.refresh_next(place);
    }

    fn refresh_next(&mut self, place: &Place) {
        let next = self.younger(place).next().cloned();
        if let Some(next) = next {
            self.refresh(&next);
        }
    }

    /// Updates whether a run starts at `place`.
    fn refresh(&mut self, place: &Place) {
        let starts = self.older(place).next().is_some_and(|before| before.1 > place.1);
        if starts {
            self.starts.insert(place.clone());
        } else {
            self.starts.remove(place);
        }
    }

    /// The policies before `place`, the nearest first.
    pub(crate) fn older(&self, place: &Place) -> impl Iterator<Item = &Place> {
        self.policies.range(..place).rev()
    }

    /// The policies after `place`, the nearest first.
    pub(crate) fn younger(&self, place: &Place) -> impl Iterator<Item = &Place> {
        self.policies.range((Bound::Excluded(place), Bound::Unbounded))
    }

    /// The last policy of the run before the one of `place`; `None` if that is the first run.
    pub(crate) fn end_of_run_before(&self, place: &Place) -> Option<&Place> {
        let start = self.starts.range(..=place).next_back()?;
        self.older(start).next()
    }

    /// The policies of the run that ends with `last`, this one first.
    pub(crate) fn run_to(&self, last: &Place) -> impl Iterator<Item = &Place> {
        let start = self.starts.range(..=last).next_back();
        let policies = self.policies.range(..=last).rev();
        policies.take_while(move |place| start.is_none_or(|start| *place >= start))
    }

    /// The policies of the runs after the one of `place`.
    pub(crate) fn later_runs(&self, place: &Place) -> impl Iterator<Item = &Place> {
        let start = self.starts.range((Bound::Excluded(place), Bound::Unbounded)).next();
        start.into_iter().flat_map(|start| self.policies.range(start..))
    }

    /// Whether there is only one policy.
    pub(crate) fn is_single(&self) -> bool {
        self.policies.len() == 1
    }
}

/// The position of `policy` among others.
pub(crate) fn place(object: &ObjectKey, policy: &Policy) -> Place {
    (policy.created.unwrap_or_default(), object.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(second: i64, name: &str) -> Place {
        (Moment(second), name.into())
    }

    fn names<'p>(places: impl Iterator<Item = &'p Place>) -> String {
        places.map(|(_, name)| &**name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn runs_follow_each_change() {
        // b d | a c | b2
        let all = [place(0, "b"), place(1, "d"), place(2, "a"), place(3, "c"), place(4, "b2")];
        let mut order = Order::default();
        for index in [3, 0, 4, 1, 2] {
            order.insert(&all[index]);
        }
        let before = |order: &Order, place: &Place| {
            names(order.end_of_run_before(place).into_iter().flat_map(|last| order.run_to(last)))
        };
        assert_eq!(all.each_ref().map(|place| before(&order, place)), ["", "", "d b", "d b", "c a"]);
        assert_eq!(
            all.each_ref().map(|place| names(order.later_runs(place))),
            ["a c b2", "a c b2", "b2", "b2", ""]
        );
        order.remove(&all[1]);
        // b | a c | b2
        assert_eq!(all.each_ref().map(|place| before(&order, place)), ["", "", "b", "b", "c a"]);
        order.remove(&all[2]);
        // b c | b2
        assert_eq!(before(&order, &all[4]), "c b");
        assert_eq!(before(&order, &all[3]), "");
    }
}
