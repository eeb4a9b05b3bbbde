//! The fleet at a glance: policies by clusters, as annotations say it, kept up to date while somebody looks.
//!
//! ```text
//! classes, every ten seconds ──▶ kinds ─┐
//!                                       ├─▶ watches ──▶ rows ──▶ matrix
//! ManagedClusters ──────────────────────┘                 └─────▶ what has changed
//! ```
//!
//! What is attached to what is watched beside it once somebody asks for that: [`Attached`]. In the place of a hub may be files,
//! which are read once: [`Given`].
//!
//! No works are read: a fleet has a hundred for each policy. A row keeps words and short messages; all that a policy's
//! clusters say is in [`PolicyReport`](super::PolicyReport), which is read where one policy is looked at.

mod asked;
mod attached;
mod given;
mod graphs;
mod inbox;
mod live;
mod matrix;
mod roster;
mod rows;
mod state;

pub use attached::{Attached, AttachedError};
pub use given::Given;
pub use graphs::GraphOf;
pub use inbox::Place;
pub use live::{Live, LiveError, Look};
pub use matrix::{Column, Matrix, MatrixQuery, MatrixRow};
pub use roster::Roster;
pub use rows::{ClusterRow, FleetRow};
pub use state::Cell;
