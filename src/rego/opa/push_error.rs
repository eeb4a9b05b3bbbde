//! Why OPA has not what is in force.

use std::collections::BTreeMap;

use crate::json_client::AskError;
use crate::rego::fault::Fault;
use crate::rego::module_id::ModuleId;

/// Why OPA has not what is in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// It cannot be asked, or does not take it.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// It refuses modules.
    #[error("it refuses {}", .0.values().flatten().next().map(ToString::to_string).unwrap_or_default())]
    Refused(BTreeMap<ModuleId, Vec<Fault>>),
}
