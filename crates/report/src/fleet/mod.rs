//! The state of the fleet for the web page: policies by clusters from the policies' annotations, kept up to
//! date by watches.
//!
//! ```text
//! classes, every ten seconds ──▶ kinds ─┐
//!                                       ├─▶ watches ──▶ rows ──▶ matrix
//! ManagedClusters ──────────────────────┘                 └─────▶ changes
//! ```
//!
//! The topology is watched once a page requests it: [`Attached`]. Files can replace the hub; they are read
//! once: [`Given`].
//!
//! No works are read, because a fleet has a hundred for each policy. A row stores states and short messages;
//! the page of one policy reads its complete [`PolicyReport`](super::PolicyReport).

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
