//! Why OPA has not what is in force.

use std::collections::BTreeMap;

use crate::fault::Fault;
use crate::module_id::ModuleId;
use policy_sync_hub::json_client::AskError;

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
