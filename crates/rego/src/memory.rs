//! The memory limit of one evaluation.
//!
//! Two checks share the limit of [`LIMIT`] bytes:
//!
//! - Before each call of a builtin, the memory that the evaluation holds plus the memory bound of the call must be
//!   within the limit (`extensions/bounded.rs`).
//! - The interpreter compares the memory of the evaluation with the limit at each statement and each element of a loop,
//!   a comprehension or a result. This check is part of regorus, with the feature `allocator-memory-limits`. The crate
//!   `regorus-memory` supplies the numbers and documents why the published crate does not fit.
//!
//! Values that the evaluation did not create, such as the documents of the hub, do not count. A shared value counts
//! once while it is in memory, and at each occurrence when it is serialized (`size`).

pub(super) mod size;

use std::sync::Once;

use regorus::Value;
use regorus_mimalloc::{Evaluation, may_allocate};

/// The maximum number of bytes that an evaluation may hold at a time.
pub const LIMIT: usize = 32 << 20;

/// The evaluation would hold more than [`LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the evaluation took more than {}", self.limit())]
pub struct OverLimit;

impl OverLimit {
    /// The limit, for messages.
    pub fn limit(self) -> String {
        format!("{} MiB of memory", LIMIT >> 20)
    }
}

/// Runs `evaluate` within the limit.
///
/// # Errors
///
/// If the evaluation exceeded the limit at any time. The result alone does not show this, because the engine drops some
/// errors.
pub(super) fn limited<T>(evaluate: impl FnOnce() -> T) -> Result<T, (OverLimit, T)> {
    static ENGINES_OWN: Once = Once::new();
    // The limit is global for all threads; each thread compares its own evaluation with it.
    ENGINES_OWN.call_once(|| regorus::set_global_memory_limit(Some(LIMIT as u64)));
    let evaluation = Evaluation::begin(LIMIT as u64);
    let result = evaluate();
    if evaluation.exceeded_limit() { Err((OverLimit, result)) } else { Ok(result) }
}

/// Checks whether the evaluation on this thread may allocate `bytes` more.
///
/// # Errors
///
/// If this would exceed the limit.
pub(super) fn check(bytes: usize) -> Result<(), OverLimit> {
    if may_allocate(bytes as u64) { Ok(()) } else { Err(OverLimit) }
}

/// Checks whether the result `value` may be copied and serialized.
///
/// # Errors
///
/// If a copy without shared parts exceeds the limit.
pub(super) fn check_result(value: &Value) -> Result<(), OverLimit> {
    check(size::copied(value, LIMIT).unwrap_or(usize::MAX))
}
