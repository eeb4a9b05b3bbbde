//! Watches the hub, with one task and one backoff for each source.
//!
//! ```text
//! needed kinds ─────────────────────▶ list, then watch ──prune──▶ mirror ──changes──▶ triggers
//! wanted sources ──▶ (look up?) ────▶ list, then watch ──prune──▶   "
//!                         ▲
//! definitions ────────────┘ a CustomResourceDefinition was created, deleted or changed
//! ```
//!
//! The tasks do not interpret objects. They prune the objects, pass them to the mirror, and forward the changes.

mod definitions;
mod feed;
mod follow;
mod page;
mod plurals;
mod supervisor;

pub use crate::request_timeout::{RESPONSE_TIMEOUT, with_response_timeout};
pub use definitions::CrdNotifications;
pub use feed::Feed;
pub use follow::{SourceWatchError, SourceWatcher};
pub use plurals::resolve_plurals;
pub use supervisor::{Supervisor, WatchFn};
