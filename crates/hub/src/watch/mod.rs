//! The watch: connections to the hub, one task for each source, each with its own backoff.
//!
//! ```text
//! needed kinds ─────────────────────▶ list, then watch ──prune──▶ mirror ──changes──▶ triggers
//! wanted sources ──▶ (found out?) ──▶ list, then watch ──prune──▶   "
//!                         ▲
//! definitions ────────────┘ a CustomResourceDefinition came, went or changed
//! ```
//!
//! Tasks know nothing of what an object is for: they prune it, hand it to the mirror and pass on what that changed.

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
