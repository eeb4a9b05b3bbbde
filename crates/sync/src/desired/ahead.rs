//! What is to be made before a plan, and without a look at the hub: nothing there changes while a plan looks.
//!
//! ```text
//! look: unmade? ──▶ make, one after the other ──▶ look: plan
//! ```
//!
//! A plan is the same without it. It only takes longer then, and all else waits for it.

use super::order;
use super::policy::ahead::{self, AT_ONCE};
use crate::{Settings, View};
use policy_sync_api::names::Origin;

/// Copies that take too long to be made while a plan looks at the hub.
#[derive(Debug, Default)]
pub struct Unmade(Vec<ahead::Copies>);

/// What is to be made before the works of the Gateway or the policy `origin`, or what it says of them, are planned.
#[must_use]
pub fn unmade(view: View<'_>, settings: &Settings, origin: &Origin) -> Unmade {
    let copies = match origin {
        Origin::Gateway(key) => order::unmade(view, settings, key),
        Origin::Object(..) => {
            let large = |policy| ahead::glance(policy, view.clusters().count()) > AT_ONCE;
            let copies = || ahead::unmade(view, settings, origin);
            view.policy(origin).filter(|policy| large(policy)).and_then(|_| copies()).into_iter().collect()
        }
    };
    let bytes: usize = copies.iter().map(|copies| copies.bytes).sum();
    Unmade(if bytes > AT_ONCE { copies } else { Vec::new() })
}

impl Unmade {
    /// Whether a plan can be made at once.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes it: what the next plan needs of it is remembered with each policy.
    pub fn make(self) {
        self.0.into_iter().for_each(ahead::Copies::make);
    }
}
