//! Changes with which the check ends before it should, though none of them ends it by itself.

use super::{Candidate, Judge, Settling};
use crate::rego::confined::CheckError;
use crate::rego::fault::{Fault, Faults};

impl<'c, J: Judge> Settling<'c, J> {
    /// Takes the first of `changes` out with which the check ends before it should, though none ends it by itself; and all newer ones where
    /// it still does: they are too many.
    pub(super) async fn until_alive(
        &mut self,
        changes: &mut Vec<&'c Candidate>,
        how: &str,
    ) -> Result<(), CheckError> {
        // With the first `low` changes it does not, or that is what is in force; with the first `high` it does.
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

    /// Whether the check ends before it should with these changes.
    async fn dies(&self, changes: &[&Candidate]) -> Result<bool, CheckError> {
        let texts = self.texts(changes);
        Ok(!texts.is_empty() && self.judge.check(&texts).await?.died.is_some())
    }
}
