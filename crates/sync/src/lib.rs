//! Plans the works of each cluster, and the status that the hub shows of policies, Gateways and GatewayClasses.
//!
//! ```text
//! hub ─▶ rows ─▶ index ──▶ View ──▶ desired ──▶ diff ──▶ requests
//!                           │  ╰───▶ status ─────────────▶ requests
//!                           ╰──────▶ explain, dry_run ───▶ people
//! a change ─▶ triggers ─▶ keys to plan again
//! ```
//!
//! [`kinds`] lists the watched kinds, and [`rows`] defines the fields that are kept of each. A [`View`] is a
//! consistent view of all rows at one moment. [`desired`] and [`status`] are functions of a view and a [`Key`]: they
//! need no client, no async runtime, and no clock except [`View::now`]. The controller, the commands and the tests
//! call the same functions.
//!
//! ```
//! use policy_sync_sync::{Mirror, Settings, desired::plan_works};
//! use policy_sync_api::moment::Moment;
//! use policy_sync_api::names::{ControllerName, Origin};
//!
//! let mirror = Mirror::new(ControllerName::new("kuadrant.io/policy-sync"));
//! let limits = Origin::named("kuadrant.io", "ratelimitpolicies", "shop", "limits");
//! let guard = mirror.read();
//! let plan = plan_works(guard.view(Moment(0)), &Settings::default(), &limits);
//! assert!(plan.outcomes.is_empty(), "the mirror has no Gateway that the policy could target");
//! ```

pub mod counts;
pub mod delete_guard;
pub mod desired;
pub mod diff;
pub mod dry_run;
pub mod explain;
pub mod feedback;
pub mod found;
mod index;
mod key;
pub mod kinds;
mod offline;
pub mod problem;
mod recent;
mod refused;
pub mod rows;
pub mod status;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod topology;
pub mod triggers;
mod unplaced;
mod view;
mod waits;

#[cfg(test)]
mod tests;

use policy_sync_api::names::GroupResource;

pub use desired::replicas::PlannedShares;
pub use desired::{RESERVED_NAMESPACES, Settings};
pub use index::{CLASS_DELETION_DELAY, Index, PLACEMENT_SETTLE_TIME};
pub use key::{Key, Keys, WorkKey, work_key};
pub use offline::OfflineMirror;
pub use problem::Problem;
pub use refused::RejectedWorks;
pub use unplaced::UnplacedRecord;
pub use view::{ClassParams, View};
pub use waits::{Wait, Waits};

/// The rows of a hub, with their index.
pub type Mirror = policy_sync_mirror::Mirror<Index>;

/// The changes that one operation made to a [`Mirror`].
pub type Changes<'m> = policy_sync_mirror::Changes<'m, Index>;

/// A lock on a [`Mirror`] for reading.
pub type MirrorGuard<'m> = policy_sync_mirror::MirrorGuard<'m, Index>;

/// The kind of a policy or resource, as a key of tables.
pub type PolicyKind = GroupResource;
