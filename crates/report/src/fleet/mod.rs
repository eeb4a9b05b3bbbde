//! The state of the fleet for the web page, kept up to date by watches. The policies' annotations contain the state of
//! each policy on each cluster.
//!
//! ```text
//! classes, every ten seconds ──▶ kinds ─┐
//!                                       ├─▶ watches ──▶ rows ──▶ matrix
//! ManagedClusters ──────────────────────┘                 └─────▶ changes
//! ```
//!
//! The topology is watched once a page requests it: [`WatchedTopology`]. Files can replace the hub; they are read
//! once: [`FileObjects`].
//!
//! Works are not read, because a fleet of 100 clusters has 100 works for each policy. A row stores states and short
//! messages; the page of one policy reads its complete [`PolicyReport`](super::PolicyReport).

mod file_objects;
mod graphs;
mod inbox;
mod live;
mod matrix;
mod reads;
mod rows;
mod state;
mod watched_kinds;
mod watched_topology;

pub use file_objects::FileObjects;
pub use graphs::GraphSnapshot;
pub use inbox::ChangedPart;
pub use live::{FleetView, Live, LiveError};
pub use matrix::{Column, Matrix, MatrixQuery, MatrixRow};
pub use rows::{ClusterRow, FleetRow};
pub use state::Cell;
pub use watched_kinds::WatchedKinds;
pub use watched_topology::{TopologyError, WatchedTopology};
