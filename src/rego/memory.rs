//! How much memory one evaluation may take.
//!
//! Two checks share the limit of [`LIMIT`] bytes:
//!
//! - A builtin is called only where what the evaluation holds and what the builtin will allocate are within it
//!   (`extensions/bounded.rs`).
//! - The interpreter compares what the evaluation holds with it at each statement and each element of a loop, a comprehension or a
//!   result. This is regorus's own check, of its feature `allocator-memory-limits`; `regorus-memory` supplies the numbers, and says
//!   why the published crate for them does not fit.
//!
//! Memory of values that the evaluation did not make, such as the documents of the hub, does not count. Shared values count once
//! while they are in memory, and each time they are written out ([`size`]).

pub(super) mod size;

use std::sync::Once;

use regorus::Value;
use regorus_mimalloc::{Evaluation, has_room};

/// The most bytes that an evaluation may hold at a time.
pub(super) const LIMIT: usize = 32 << 20;

/// The evaluation would hold more than [`LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the evaluation took more than {}", self.limit())]
pub(super) struct OverLimit;

impl OverLimit {
    /// The limit, for messages.
    pub(super) fn limit(self) -> String {
        format!("{} MiB of memory", LIMIT >> 20)
    }
}

/// Runs `evaluate` within the limit.
///
/// # Errors
///
/// Where it was over the limit, whatever the result: the engine drops some errors.
pub(super) fn limited<T>(evaluate: impl FnOnce() -> T) -> Result<T, (OverLimit, T)> {
    static ENGINES_OWN: Once = Once::new();
    // One number for all threads: each compares its own evaluation with it.
    ENGINES_OWN.call_once(|| regorus::set_global_memory_limit(Some(LIMIT as u64)));
    let evaluation = Evaluation::begin(LIMIT as u64);
    let result = evaluate();
    if evaluation.was_over() { Err((OverLimit, result)) } else { Ok(result) }
}

/// Whether the evaluation on this thread may allocate so many more bytes.
///
/// # Errors
///
/// Where that would be over the limit.
pub(super) fn check(bytes: usize) -> Result<(), OverLimit> {
    if has_room(bytes as u64) { Ok(()) } else { Err(OverLimit) }
}

/// Whether `value`, an answer, may be copied and written out.
///
/// # Errors
///
/// Where a copy without shared parts is over the limit.
pub(super) fn check_answer(value: &Value) -> Result<(), OverLimit> {
    check(size::copied(value, LIMIT).unwrap_or(usize::MAX))
}
