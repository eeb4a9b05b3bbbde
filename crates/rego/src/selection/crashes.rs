//! Finds changes that end the check process only in combination.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{BundleChecker, Candidate, LoadOutcome, ModuleSelector, RejectionCause};
use crate::confined::{CheckError, CheckResult};
use crate::fault::{Fault, Faults};
use crate::module::ModuleId;

/// The processor time from which parsing a module counts as slow. Most modules take less than a hundredth.
const SLOW_PARSE_TIME: Duration = Duration::from_millis(50);
/// The number of slow modules in one object after which the unread modules of the object are not checked.
const MANY: usize = 4;

impl<'c, J: BundleChecker> ModuleSelector<'c, J> {
    /// Removes the oldest change with which the check process ends early. If the process still ends early with the
    /// newer changes, removes all newer changes as well, because they are too large together.
    pub(super) async fn remove_crashing_combination(
        &mut self,
        changes: &mut Vec<&'c Candidate>,
        how: &str,
    ) -> Result<(), CheckError> {
        // The check completes with the first `low` changes, or `low` is 0. The check ends early with the first `high`
        // changes.
        let (mut low, mut high) = (0, changes.len());
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.crashes(&changes[..middle]).await? { high = middle } else { low = middle }
        }
        let newer = changes.split_off(high);
        let mut out: Vec<&Candidate> = changes.pop().into_iter().collect();
        let all = [changes.as_slice(), newer.as_slice()].concat();
        if !newer.is_empty() && self.crashes(&all).await? {
            out.extend(newer);
        } else {
            *changes = all;
        }
        for change in out {
            let fault = Fault::new(change.id(), None, format!("{how}, together with all other modules"));
            self.reject(change.id(), Faults::of(fault), RejectionCause::TooLarge);
        }
        Ok(())
    }

    /// Removes the slowest of `changes`, which account for most of the time until the check process ended. Leaves
    /// unread changes for a later check. Returns false if no change is slow.
    pub(super) fn remove_slow(
        &mut self,
        checked: &CheckResult,
        changes: &mut Vec<&'c Candidate>,
        how: &str,
    ) -> bool {
        let slow = SlowModules::of(checked, changes.iter().map(|change| change.id()));
        changes.retain(|change| match slow.fault(change.id(), checked, how) {
            _ if slow.times.is_empty() => true,
            Some(fault) => {
                self.reject(change.id(), Faults::of(fault), RejectionCause::TooLarge);
                false
            }
            None if checked.times.contains_key(change.id()) => true,
            None => {
                self.selected.is_partial = true;
                self.selected.outcomes.insert(change.id().clone(), LoadOutcome::Unchecked);
                false
            }
        });
        !slow.times.is_empty()
    }

    /// Whether the check process ends early with these changes.
    async fn crashes(&self, changes: &[&Candidate]) -> Result<bool, CheckError> {
        let texts = self.texts(changes);
        Ok(!texts.is_empty() && self.checker.check(&texts).await?.termination.is_some())
    }
}

/// The modules that account for most of the time of a check.
#[derive(Default)]
pub(super) struct SlowModules {
    /// The processor time of each slow module.
    pub(super) times: BTreeMap<ModuleId, Duration>,
    /// The objects with at least [`MANY`] slow modules.
    carriers: BTreeSet<String>,
}

impl SlowModules {
    /// The slowest of `modules`, beginning with those of the slowest objects. They account for three quarters of the
    /// time until the check ended. So the next check needs little time for the remaining modules, and has time for
    /// unread modules.
    pub(super) fn of<'m>(checked: &CheckResult, modules: impl Iterator<Item = &'m ModuleId>) -> Self {
        let (mut found, mut by_carrier) = (Vec::new(), BTreeMap::<&str, Duration>::new());
        for id in modules {
            if let Some(time) = checked.times.get(id) {
                *by_carrier.entry(id.carrier()).or_default() += *time;
                found.push((*time, id));
            }
        }
        found.retain(|(time, _)| *time >= SLOW_PARSE_TIME);
        found.sort_unstable_by_key(|(time, id)| (by_carrier[id.carrier()], *time, *id));
        let (mut slow, mut left) = (Self::default(), checked.times.values().sum::<Duration>() * 3 / 4);
        let mut counts = BTreeMap::<&str, usize>::new();
        while !left.is_zero()
            && let Some((time, id)) = found.pop()
        {
            left = left.saturating_sub(time);
            *counts.entry(id.carrier()).or_default() += 1;
            slow.times.insert(id.clone(), time);
        }
        let many = counts.into_iter().filter(|(_, count)| *count >= MANY);
        slow.carriers = many.map(|(carrier, _)| carrier.to_owned()).collect();
        slow
    }

    /// The fault of module `id`, if the module is slow, or is unread in an object with many slow modules.
    pub(super) fn fault(&self, id: &ModuleId, checked: &CheckResult, how: &str) -> Option<Fault> {
        let text = if let Some(time) = self.times.get(id) {
            format!("{how}, together with all other modules: this module took {} ms", time.as_millis())
        } else if self.carriers.contains(id.carrier()) && !checked.times.contains_key(id) {
            format!("not checked: {how}, and {MANY} modules of {} took most of the time", id.carrier())
        } else {
            return None;
        };
        Some(Fault::new(id, None, text))
    }
}
