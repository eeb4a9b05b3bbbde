//! Why an engine has no answer.

use super::fault::Fault;

/// An evaluation that gives no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct Failure {
    /// Whether it took more than a second.
    pub too_long: bool,
    /// Whether it took more memory than there is for one.
    pub too_large: bool,
    /// What is wrong, and where.
    pub fault: Fault,
}

/// Why an engine has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The evaluation failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The engine cannot be reached, or has not what is in force.
    #[error("{0}")]
    Unreached(String),
}
