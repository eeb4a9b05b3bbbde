//! Finds changes that end the check process only in combination.

use super::{Candidate, Judge, Settling};
use crate::rego::confined::CheckError;
use crate::rego::fault::{Fault, Faults};

impl<'c, J: Judge> Settling<'c, J> {
    /// Removes the oldest of `changes` with which the check process ends early. If the process still ends early with the newer changes,
    /// removes all of these too: together they are too large.
    pub(super) async fn until_alive(
        &mut self,
        changes: &mut Vec<&'c Candidate>,
        how: &str,
    ) -> Result<(), CheckError> {
        // The check completes with the first `low` changes, or `low` is 0. It ends early with the first `high`.
        let (mut low, mut high) = (0, changes.len());
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.dies(&changes[..middle]).await? { high = middle } else { low = middle }
        }
        let newer = changes.split_off(high);
        let mut out: Vec<&Candidate> = changes.pop().into_iter().collect();
        let all = [changes.as_slice(), newer.as_slice()].concat();
        if !newer.is_empty() && self.dies(&all).await? {
            out.extend(newer);
        } else {
            *changes = all;
        }
        for change in out {
            let fault = Fault::new(change.id(), None, format!("{how}, with all others"));
            self.refuse(change.id(), Faults::of(fault), false);
        }
        Ok(())
    }

    /// Whether the check process ends early with these changes.
    async fn dies(&self, changes: &[&Candidate]) -> Result<bool, CheckError> {
        let texts = self.texts(changes);
        Ok(!texts.is_empty() && self.judge.check(&texts).await?.died.is_some())
    }
}
