//! Errors of pushes to OPA.

use std::collections::BTreeMap;

use crate::fault::Fault;
use crate::module_id::ModuleId;
use policy_sync_hub::json_client::JsonClientError;

/// Why a push to OPA failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// OPA is unreachable or rejected a request.
    #[error(transparent)]
    Ask(#[from] JsonClientError),
    /// OPA rejected modules, with the faults of each.
    #[error("it refuses {}", .0.values().flatten().next().map(ToString::to_string).unwrap_or_default())]
    Rejected(BTreeMap<ModuleId, Vec<Fault>>),
}
