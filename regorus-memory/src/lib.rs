//! Measures the memory that one evaluation of Rego holds, for the memory limit of [regorus](https://docs.rs/regorus).
//!
//! With the feature `allocator-memory-limits`, the interpreter of regorus compares the memory in use with a global
//! limit. The comparison takes place at each statement, and at each element of a loop, a comprehension or a result.
//! Above the limit, the interpreter ends the evaluation with `LimitError::MemoryLimitExceeded`. The interpreter gets
//! the memory in use from the crate `regorus-mimalloc`, which does not fit this project:
//!
//! - It makes mimalloc the allocator of the process, which has jemalloc.
//! - It counts the memory of the whole process. Here, many evaluations share a process with copies of a hub's objects,
//!   and one evaluation must not fail because of the memory of other evaluations.
//!
//! This crate has the same functions, which the compiler checks. It counts the bytes that the current thread has
//! allocated and not freed since its [`Evaluation`] began. An evaluation stays on one thread. The counters are those of
//! jemalloc. With another allocator, the counters do not change, so there is no limit.

use std::cell::Cell;

use tikv_jemalloc_ctl::thread::{ThreadLocal, allocatedp, deallocatedp};

/// Regorus calls this macro to declare its own allocator. Here, the macro declares none.
#[macro_export]
macro_rules! assign_global {
    () => {};
}

thread_local! {
    /// All bytes that this thread has allocated, and all that it has freed.
    static COUNTERS: Option<(ThreadLocal<u64>, ThreadLocal<u64>)> =
        allocatedp::read().ok().zip(deallocatedp::read().ok());
    static CURRENT: Cell<Option<EvaluationState>> = const { Cell::new(None) };
}

/// The evaluation on this thread.
#[derive(Clone, Copy, Debug)]
struct EvaluationState {
    /// The bytes that the thread held when the evaluation began.
    start_bytes: u64,
    limit: u64,
    exceeded_limit: bool,
}

/// The bytes that this thread has allocated minus those that it has freed, modulo 2^64. The difference may be negative,
/// because a thread may free memory of other threads.
fn thread_bytes() -> u64 {
    COUNTERS.with(|counters| {
        counters.as_ref().map_or(0, |(allocated, freed)| allocated.get().wrapping_sub(freed.get()))
    })
}

/// An evaluation on this thread, until it is dropped. A nested evaluation has its own count.
#[derive(Debug)]
pub struct Evaluation {
    outer: Option<EvaluationState>,
}

impl Evaluation {
    /// Counts from now on, up to `limit` bytes.
    #[must_use]
    pub fn begin(limit: u64) -> Self {
        Self {
            outer: CURRENT.replace(Some(EvaluationState {
                start_bytes: thread_bytes(),
                limit,
                exceeded_limit: false,
            })),
        }
    }

    /// Whether the evaluation exceeded its limit at any time. The engine may have dropped the error: it drops errors of
    /// a function if another definition of the function has a value.
    #[must_use]
    pub fn exceeded_limit(&self) -> bool {
        CURRENT.get().is_some_and(|evaluation| evaluation.exceeded_limit)
    }
}

impl Drop for Evaluation {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}

/// Whether an evaluation runs on this thread.
#[must_use]
pub fn is_evaluating() -> bool {
    CURRENT.get().is_some()
}

/// Bytes that the evaluation on this thread holds; 0 if no evaluation runs.
#[must_use]
pub fn in_use() -> u64 {
    let grown = CURRENT
        .get()
        .map_or(0, |evaluation| thread_bytes().wrapping_sub(evaluation.start_bytes).cast_signed());
    u64::try_from(grown).unwrap_or(0)
}

/// Whether the evaluation on this thread may allocate this number of bytes. After one refusal, the evaluation counts as
/// over its limit.
#[must_use]
pub fn may_allocate(bytes: u64) -> bool {
    let Some(evaluation) = CURRENT.get() else { return true };
    let exceeds = evaluation.exceeded_limit || in_use().saturating_add(bytes) > evaluation.limit;
    CURRENT.set(Some(EvaluationState { exceeded_limit: exceeds, ..evaluation }));
    !exceeds
}

/// The number that regorus compares with the limit.
#[derive(Clone, Copy, Debug)]
pub struct Allocated {
    /// Bytes in use.
    pub allocated: u64,
}

/// The memory in use, or the maximum once an evaluation has exceeded its limit.
#[must_use]
pub fn allocation_stats_snapshot() -> (Allocated, ()) {
    (Allocated { allocated: if may_allocate(0) { in_use() } else { u64::MAX } }, ())
}

/// The memory in use, as a signed number.
#[must_use]
pub fn current_thread_live_bytes() -> i64 {
    in_use().cast_signed()
}

/// Replaces functions for the counters of regorus' own allocator, which are flushed at intervals. The counters of this
/// crate are always current.
pub mod limits {
    /// Does nothing: there is nothing to flush.
    pub fn flush_thread_counters() {}

    /// Does nothing: there is no threshold.
    pub fn set_thread_flush_threshold(_bytes: Option<u64>) {}

    /// Returns `None`: there is no threshold.
    #[must_use]
    pub fn thread_flush_threshold() -> Option<u64> {
        None
    }

    /// Whether to check the limit now. Always true, because reading two counters takes a few nanoseconds.
    #[must_use]
    pub fn take_thread_flushed_since_check_flag() -> bool {
        true
    }

    /// Returns 0: nothing is pending.
    #[must_use]
    pub fn thread_allocation_pending_delta() -> i64 {
        0
    }

    /// Runs `operation`. Unlike the original crate, counts the memory that `operation` allocates.
    pub fn with_unowned_memory_budget_scope<R>(operation: impl FnOnce() -> R) -> R {
        operation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

    #[test]
    fn an_evaluation_counts_what_its_own_thread_holds() {
        let before = vec![0_u8; 1 << 20];
        assert_eq!(in_use(), 0);
        let evaluation = Evaluation::begin(8 << 20);
        let held = vec![0_u8; 1 << 20];
        std::thread::spawn(|| assert_eq!(in_use(), 0)).join().unwrap();
        assert!((1 << 20..2 << 20).contains(&in_use()), "{}", in_use());
        {
            let _inner = Evaluation::begin(8 << 20);
            assert_eq!(in_use(), 0);
        }
        drop(held);
        assert!(in_use() < 1 << 16, "{}", in_use());
        drop(before);
        assert_eq!(in_use(), 0);
        drop(evaluation);
        assert_eq!(in_use(), 0);
    }

    #[test]
    fn an_evaluation_that_was_over_its_limit_stays_over_it() {
        let evaluation = Evaluation::begin(1 << 20);
        assert!(may_allocate(1 << 19) && !evaluation.exceeded_limit());
        let held = vec![0_u8; 1 << 21];
        assert_eq!(allocation_stats_snapshot().0.allocated, u64::MAX);
        drop(held);
        assert!(evaluation.exceeded_limit() && !may_allocate(0));
        assert_eq!(allocation_stats_snapshot().0.allocated, u64::MAX);
        drop(evaluation);
        assert!(may_allocate(u64::MAX));
    }
}
