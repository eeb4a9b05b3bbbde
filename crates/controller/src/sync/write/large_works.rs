//! Limits the memory for large works while they are sent to the hub.
//!
//! A work that is not kept in memory is built when it is sent. Such works are built one at a time, on a blocking
//! thread. So a large policy of one tenant takes neither memory nor threads from other tenants. Small works do not wait
//! for memory.

use http::Request;
use kube::core::request;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tokio::task::{JoinError, spawn_blocking};

use super::works;
use policy_sync_sync::desired::ahead::UnbuiltCopies;
use policy_sync_sync::diff::WorkAction;

/// The size from which a work is large, in KiB.
const MIN_LARGE_KIB: u32 = 64;
/// The total size of large works in flight, in KiB.
const MAX_IN_FLIGHT_KIB: u32 = 8 * 1024;

/// The limits for large works in flight and for works being built.
pub(super) struct LargeWorkLimits {
    memory: Semaphore,
    building: Semaphore,
}

impl LargeWorkLimits {
    pub(super) fn new() -> Self {
        Self { memory: Semaphore::new(MAX_IN_FLIGHT_KIB as usize), building: Semaphore::new(1) }
    }

    /// Waits until there is memory for the work of `action`. `None` if the work is small.
    pub(super) async fn memory(
        &self,
        action: &WorkAction,
    ) -> Option<Result<SemaphorePermit<'_>, AcquireError>> {
        let kib = u32::try_from(action.bytes() / 1024).unwrap_or(MAX_IN_FLIGHT_KIB).min(MAX_IN_FLIGHT_KIB);
        if kib < MIN_LARGE_KIB { None } else { Some(self.memory.acquire_many(kib).await) }
    }

    /// Builds the request for `action`. A work that is not in memory is built first, on a blocking thread.
    pub(super) async fn request(&self, action: &WorkAction) -> Result<Request<Vec<u8>>, request::Error> {
        if action.is_in_memory() {
            return works::request(action);
        }
        let (action, _turn) = (action.clone(), self.turn().await);
        let built = spawn_blocking(move || works::request(&action)).await;
        built.unwrap_or_else(|error| Err(request::Error::Validation(error.to_string())))
    }

    /// Waits until no other work is being built. Returns the permit to build one.
    pub(super) async fn turn(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.building.acquire().await
    }

    /// Builds the content that a plan needs, on a blocking thread.
    pub(super) async fn build(&self, unbuilt: UnbuiltCopies) -> Result<(), JoinError> {
        spawn_blocking(move || unbuilt.build()).await
    }
}

#[cfg(test)]
mod tests;
