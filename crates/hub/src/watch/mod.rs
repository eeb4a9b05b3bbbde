//! Watches the hub, with one task and one backoff for each source.
//!
//! ```text
//! needed kinds ─────────────────────▶ list, then watch ──prune──▶ mirror ──changes──▶ triggers
//! wanted sources ──▶ (look up?) ────▶ list, then watch ──prune──▶   "
//!                         ▲
//! definitions ────────────┘ a CustomResourceDefinition was created, deleted or changed
//! ```
//!
//! The tasks do not interpret objects: they prune them, pass them to the mirror, and forward the changes.

mod definitions;
mod feed;
mod follow;
mod page;
mod plurals;
mod response_timeout;
mod supervisor;

pub use definitions::CrdNotifications;
pub use feed::Feed;
pub use follow::{SourceWatchError, SourceWatcher};
pub use plurals::resolve_plurals;
pub use response_timeout::RESPONSE_TIMEOUT;
pub use response_timeout::with_response_timeout;
pub use supervisor::{Supervisor, WatchFn};
