//! What the sync knows of the hub: its [kinds], what it keeps of each in [rows], what it derives from these, and how a plan
//! [looks](View) at all of it.

mod counts;
pub(crate) mod definitions;
mod displaced;
pub mod dry_run;
pub mod feedback;
pub mod found;
mod index;
mod interned;
pub mod kinds;
mod offline;
mod recent;
mod refused;
pub mod rows;
mod view;
mod work_key;

use crate::api::names::GroupResource;
use crate::hub;

pub use displaced::Displacement;
pub use index::{CLASS_RETURNS, Index, PLACEMENT_SETTLES};
pub use offline::OfflineMirror;
pub use refused::Refused;
pub use view::{ClassParams, View};
pub use work_key::WorkKey;

/// What is known of the hub.
pub type Mirror = hub::Mirror<Index>;

/// What a change of it came to.
pub type Changes<'m> = hub::Changes<'m, Index>;

/// A look at it.
pub type MirrorGuard<'m> = hub::MirrorGuard<'m, Index>;

/// A kind of policies, as keys of tables name it.
pub type PolicyKind = GroupResource;

#[cfg(test)]
mod tests;
