//! What this process has found out about texts, and what is in force.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::moment::Moment;
use crate::rego::bundle::Bundle;
use crate::rego::fault::Fault;
use crate::rego::module::ModuleId;
use crate::rego::settle::{InForce, Outcome};

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
    /// What is in force of it.
    pub in_force: Option<InForce>,
    /// What it most likely does not mean.
    pub advice: Vec<Fault>,
    /// What else its owner may want to know.
    pub notes: BTreeSet<String>,
}

/// All of that.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdicts {
    /// By module.
    pub modules: BTreeMap<ModuleId, Verdict>,
    /// What is in force.
    pub bundle: Bundle,
    /// What is in order, whether it counts already or waits for kinds to be listed.
    pub wanted: Bundle,
    /// Whether everything that was there at the start has been judged, and waits for nothing.
    pub is_whole: bool,
}
