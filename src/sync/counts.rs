//! How many works there are. Counted as they come, change and go: to count them all, while nobody else may look at the
//! mirror, would take the longer the more there are.

use std::collections::BTreeMap;

use super::rows::work::{Purpose, Work};
use crate::api::names::Origin;

/// How many works there are, by what they are for and by the state they are in.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(BTreeMap<(&'static str, &'static str), usize>);

impl Counts {
    /// A work is there now.
    pub(super) fn add(&mut self, work: &Work) {
        *self.0.entry(group(work)).or_default() += 1;
    }

    /// A work is there no longer as it was.
    pub(super) fn take(&mut self, work: &Work) {
        let group = group(work);
        if let Some(count) = self.0.get_mut(&group) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(&group);
            }
        }
    }

    pub(super) fn all(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        self.0.clone()
    }
}

fn group(work: &Work) -> (&'static str, &'static str) {
    let purpose = match &work.purpose {
        Purpose::Access(_) => "access",
        Purpose::Foreign => "foreign",
        Purpose::Copy(origin) => match **origin {
            Origin::Gateway(_) => "gateway",
            Origin::Policy(..) => "policy",
        },
    };
    (purpose, work.state())
}
