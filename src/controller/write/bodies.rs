//! Large works on their way to the hub: how many bytes of them may be under way, and what is made for them.
//!
//! A work that is not held is made where it is sent, one at a time and on a thread of its own: whatever a tenant has
//! written, it takes neither the memory nor the threads that others need. A small work waits for nothing here.

use http::Request;
use kube::core::request;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tokio::task::{JoinError, spawn_blocking};

use super::works;
use policy_sync_sync::desired::ahead::Unmade;
use policy_sync_sync::diff::WorkAction;

/// From so many KiB on a work is large.
const LARGE: u32 = 64;
/// How many KiB of large works may be under way at once.
const ROOM: u32 = 8 * 1024;

/// What is under way of large works.
pub(super) struct Bodies {
    room: Semaphore,
    making: Semaphore,
}

impl Bodies {
    pub(super) fn new() -> Self {
        Self { room: Semaphore::new(ROOM as usize), making: Semaphore::new(1) }
    }

    /// Waits until `action` may be under way.
    pub(super) async fn room(
        &self,
        action: &WorkAction,
    ) -> Option<Result<SemaphorePermit<'_>, AcquireError>> {
        let kib = u32::try_from(action.bytes() / 1024).unwrap_or(ROOM).min(ROOM);
        if kib < LARGE { None } else { Some(self.room.acquire_many(kib).await) }
    }

    /// The request that carries `action` out.
    pub(super) async fn request(&self, action: &WorkAction) -> Result<Request<Vec<u8>>, request::Error> {
        if action.is_held() {
            return works::request(action);
        }
        let (action, _turn) = (action.clone(), self.turn().await);
        let made = spawn_blocking(move || works::request(&action)).await;
        made.unwrap_or_else(|error| Err(request::Error::Validation(error.to_string())))
    }

    /// Waits until nothing else is made.
    pub(super) async fn turn(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.making.acquire().await
    }

    /// Makes what a plan needs.
    pub(super) async fn make(&self, unmade: Unmade) -> Result<(), JoinError> {
        spawn_blocking(move || unmade.make()).await
    }
}

#[cfg(test)]
mod tests;
