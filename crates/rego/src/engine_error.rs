//! Errors of engines.

use super::fault::Fault;

/// A failed evaluation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct Failure {
    /// Whether it exceeded the time limit.
    pub exceeded_time: bool,
    /// Whether it exceeded the memory limit.
    pub exceeded_memory: bool,
    /// The error and its place.
    pub fault: Fault,
}

/// An error of an engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The evaluation failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The engine is unreachable, or lacks the current modules or data.
    #[error("{0}")]
    Unreachable(String),
}
