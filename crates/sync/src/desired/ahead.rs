//! Builds large copies before a plan, while the mirror is not locked. A plan locks the mirror, so that the mirror does
//! not change during the plan.
//!
//! ```text
//! locked: find unbuilt copies ──▶ unlocked: build them one by one ──▶ locked: plan
//! ```
//!
//! Without this step the plan would be the same, but the mirror would be locked for longer.

use super::order;
use super::policy::ahead::{self, LOCKED_BUILD_LIMIT};
use crate::{Settings, View};
use policy_sync_api::names::Origin;

/// Copies that take too long to build while the mirror is locked.
#[derive(Debug, Default)]
pub struct UnbuiltCopies(Vec<ahead::PolicyCopies>);

/// The copies that must be built before the works or the status of `origin` are planned.
#[must_use]
pub fn unbuilt_copies(view: View<'_>, settings: &Settings, origin: &Origin) -> UnbuiltCopies {
    let copies = match origin {
        Origin::Gateway(key) => order::unbuilt_copies(view, settings, key),
        Origin::Object(..) => {
            let large = |policy| ahead::estimate_bytes(policy, view.clusters().count()) > LOCKED_BUILD_LIMIT;
            let copies = || ahead::unbuilt_copies(view, settings, origin);
            view.policy(origin).filter(|policy| large(policy)).and_then(|_| copies()).into_iter().collect()
        }
    };
    let bytes: usize = copies.iter().map(|copies| copies.bytes).sum();
    UnbuiltCopies(if bytes > LOCKED_BUILD_LIMIT { copies } else { Vec::new() })
}

impl UnbuiltCopies {
    /// Whether a plan can be made without building copies first.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Builds the copies. Their hashes are stored beside the policies' rows for the next plan.
    pub fn build(self) {
        self.0.into_iter().for_each(ahead::PolicyCopies::build);
    }
}
