//! The results of checking modules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use policy_sync_api::moment::Moment;
use policy_sync_api::rego_policy::Enforcement;
use policy_sync_rego::asked::Packages;
use policy_sync_rego::bundle::{Bundle, Reached};
use policy_sync_rego::fault::Fault;
use policy_sync_rego::module::ModuleId;
use policy_sync_rego::review::Denies;
use policy_sync_rego::secrets::Contents;
use policy_sync_rego::settle::{Cause, InForce, Outcome};

/// How long a new module may wait before it denies requests and before the wait is reported.
pub(super) const MOMENT: Duration = Duration::from_secs(1);

/// The result for one module.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    /// The checked text.
    pub text: Arc<str>,
    /// The result.
    pub outcome: Outcome,
    /// The time of the last change of the result.
    pub since: Moment,
    /// The package, if the text could be parsed.
    pub package: Option<String>,
    /// The configured enforcement; `None` if invalid.
    pub enforcement: Option<Enforcement>,
    /// The text in force, which may be an earlier one.
    pub in_force: Option<InForce>,
    /// Whether the module was never loaded or rejected, only pending.
    pub is_new: bool,
    /// Warnings about likely mistakes.
    pub advice: Vec<Fault>,
    /// Information for the owner.
    pub notes: BTreeSet<String>,
}

impl Verdict {
    /// Whether the text is rejected because all texts together are too large.
    pub(super) fn is_too_large(&self) -> bool {
        matches!(self.outcome, Outcome::Refused { cause: Cause::TooLarge, .. })
    }

    /// Until when the module is ignored as if not written yet; `None` unless it is new and waits.
    pub(super) fn unwritten_until(&self) -> Option<Moment> {
        let waits = matches!(self.outcome, Outcome::Pending(_));
        (waits && self.is_new).then(|| self.since.after(MOMENT))
    }
}

/// The results for all modules.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdicts {
    pub modules: BTreeMap<ModuleId, Verdict>,
    /// The modules in force.
    pub bundle: Bundle,
    /// The package queried for each purpose.
    pub packages: Packages,
    /// The plurals that all parsed texts read. Includes rejected texts, which may become valid.
    pub reads: BTreeSet<String>,
    /// The kinds whose objects may be denied.
    pub denies: Denies,
    /// Whether Rego policies may read the contents of Secrets.
    pub secrets: Contents,
    /// The modules and kinds that placement depends on.
    pub placing: Reached,
    /// The address of the external engine that decides instead of the texts.
    pub elsewhere: Option<Arc<str>>,
    /// Whether all Rego policies that existed at the start are checked and none waits.
    pub is_whole: bool,
}
