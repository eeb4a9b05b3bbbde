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

mod answer;
mod definitions;
mod feed;
mod follow;
mod page;
mod plurals;
mod supervisor;

pub use answer::ANSWERED_WITHIN;
pub use answer::answered;
pub use definitions::Definitions;
pub use feed::Feed;
pub use follow::{FollowError, Followed};
pub use plurals::look_up_plurals;
pub use supervisor::{Follow, Supervisor};
