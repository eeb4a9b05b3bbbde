//! The results of checking modules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use policy_sync_api::moment::Moment;
use policy_sync_api::rego_policy::EnforcementAction;
use policy_sync_rego::bundle::{Bundle, Reachable};
use policy_sync_rego::fault::Fault;
use policy_sync_rego::module::ModuleId;
use policy_sync_rego::queries::QueriedPackages;
use policy_sync_rego::review::DeniedKinds;
use policy_sync_rego::secrets::SecretContents;
use policy_sync_rego::selection::{LoadOutcome, LoadedText, RejectionCause};

/// The time for which a new module may be pending without effect. After this time, requests are denied because of the
/// module, and its status reports the wait.
pub(super) const NEW_MODULE_WAIT: Duration = Duration::from_secs(1);

/// The result of checking one module.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    /// The text that was checked.
    pub text: Arc<str>,
    /// The result of the check.
    pub outcome: LoadOutcome,
    /// The time of the last change of the result.
    pub since: Moment,
    /// The package, if the text could be parsed.
    pub package: Option<String>,
    /// The configured enforcement; `None` if invalid.
    pub enforcement: Option<EnforcementAction>,
    /// The text in force. It may be older than the checked text.
    pub in_force: Option<LoadedText>,
    /// Whether the module was never loaded or rejected, only pending.
    pub is_new: bool,
    /// Warnings about likely mistakes.
    pub advice: Vec<Fault>,
    /// Notes for the owner of the carrier.
    pub notes: BTreeSet<String>,
}

impl Verdict {
    /// Whether the text is rejected because all texts together are too large.
    pub(super) fn is_too_large(&self) -> bool {
        matches!(self.outcome, LoadOutcome::Rejected { cause: RejectionCause::TooLarge, .. })
    }

    /// The time until which the module is ignored, as if it did not exist yet. `None` unless the module is new and
    /// pending.
    pub(super) fn ignored_until(&self) -> Option<Moment> {
        let waits = matches!(self.outcome, LoadOutcome::Pending(_));
        (waits && self.is_new).then(|| self.since.after(NEW_MODULE_WAIT))
    }
}

/// The results for all modules.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdicts {
    pub modules: BTreeMap<ModuleId, Verdict>,
    /// The modules in force.
    pub bundle: Bundle,
    /// The package queried for each purpose.
    pub packages: QueriedPackages,
    /// The plurals that all parsed texts read. Includes rejected texts, which may become valid.
    pub reads: BTreeSet<String>,
    /// The kinds whose objects may be denied.
    pub denies: DeniedKinds,
    /// Whether Rego policies may read the contents of Secrets.
    pub secrets: SecretContents,
    /// The modules and kinds that placement policies depend on.
    pub placing: Reachable,
    /// The address of the external engine. The external engine evaluates its own Rego policies, not the checked
    /// modules.
    pub external_engine: Option<Arc<str>>,
    /// Whether all Rego policies that existed at the start are checked, and none of their modules is pending.
    pub is_whole: bool,
}
