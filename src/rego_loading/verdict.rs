//! What this process has found out about texts, and what is in force.

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

/// For how long a new module may wait as if it were not written yet, and before its owner is told.
pub(super) const MOMENT: Duration = Duration::from_secs(1);

/// What was found out about one module.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    /// The text that was judged.
    pub text: Arc<str>,
    /// What becomes of it.
    pub outcome: Outcome,
    /// Since when.
    pub since: Moment,
    /// Its package, where it parses.
    pub package: Option<String>,
    /// What its denials were to come to, where somebody knows.
    pub enforcement: Option<Enforcement>,
    /// What is in force of it.
    pub in_force: Option<InForce>,
    /// Whether nothing but waiting has ever become of the module.
    pub is_new: bool,
    /// What it most likely does not mean.
    pub advice: Vec<Fault>,
    /// What else its owner may want to know.
    pub notes: BTreeSet<String>,
}

impl Verdict {
    /// Whether the text is refused because all together are too large.
    pub(super) fn is_too_large(&self) -> bool {
        matches!(self.outcome, Outcome::Refused { cause: Cause::TooLarge, .. })
    }

    /// Until when it counts as not written yet; `None` where it waits for nothing, or is no new module's.
    pub(super) fn unwritten_until(&self) -> Option<Moment> {
        let waits = matches!(self.outcome, Outcome::Pending(_));
        (waits && self.is_new).then(|| self.since.after(MOMENT))
    }
}

/// All of that.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdicts {
    /// By module.
    pub modules: BTreeMap<ModuleId, Verdict>,
    /// What is in force.
    pub bundle: Bundle,
    /// The packages that are asked.
    pub packages: Packages,
    /// The plurals that all texts read that parse, whether or not they count: what a refused one may not read it may some day.
    pub reads: BTreeSet<String>,
    /// Of which kinds objects may be denied.
    pub denies: Denies,
    /// Whether policies may read the contents of Secrets.
    pub secrets: Contents,
    /// What is asked for placement.
    pub placing: Reached,
    /// Who decides instead, where no text is read.
    pub elsewhere: Option<Arc<str>>,
    /// Whether everything that was there at the start has been judged, and waits for nothing.
    pub is_whole: bool,
}
