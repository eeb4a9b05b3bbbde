//! Policy Sync (RFC 0007): policies of the configured kinds go to the spokes, and their status comes back.
//!
//! ```text
//! kinds ─▶ rows ─▶ index ──▶ View ──▶ desired ─▶ diff ──▶ write ─▶ hub
//!   what is kept of the hub   │  ╰───▶ status ───────────▶  ▲
//!                             ╰──────▶ explain (for people)  │
//! triggers: whose plan a change affects ──▶ keys ────────────╯
//! ```
//!
//! [kinds] is the registry of what is watched, [rows] is what is kept of each kind, and a [`View`] is a look at all of it.
//! [desired] and [status] are the plan: no client, no runtime, no clock. The controller, `policy-sync plan` and the tests call
//! the same functions, and [explain] tells people what they came to. [`mod@write`] carries it out, and is the only one with a client.

mod class_params;
mod counts;
pub(crate) mod definitions;
pub mod desired;
pub mod diff;
pub mod dry_run;
pub mod explain;
pub mod feedback;
pub mod found;
mod index;
mod key;
pub mod kinds;
pub mod metrics;
mod named;
mod offline;
mod planned_shares;
pub mod problem;
mod recent;
mod refused;
pub mod rows;
mod settings;
pub mod status;
pub mod topology;
pub mod triggers;
mod unplaced;
mod view;
mod waits;
mod work_key;
pub mod write;

use policy_sync_api::names::GroupResource;

pub use index::{CLASS_RETURNS, Index, PLACEMENT_SETTLES};
pub use key::{Key, Keys};
pub use offline::OfflineMirror;
pub use planned_shares::PlannedShares;
pub use unplaced::UnplacedSince;

pub use class_params::ClassParams;
pub use problem::Problem;
pub use refused::Refused;
pub use settings::{RESERVED_NAMESPACES, Settings};
pub use view::View;
pub use waits::Waits;
pub use work_key::WorkKey;

/// What is known of the hub.
pub type Mirror = policy_sync_mirror::Mirror<Index>;

/// What a change of it came to.
pub type Changes<'m> = policy_sync_mirror::Changes<'m, Index>;

/// A look at it.
pub type MirrorGuard<'m> = policy_sync_mirror::MirrorGuard<'m, Index>;

/// A kind of policies, as keys of tables name it.
pub type PolicyKind = GroupResource;

#[cfg(test)]
pub(crate) mod tests;
