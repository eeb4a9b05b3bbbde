//! Model checking of the stored topology: graphs are built while watches continue, and statuses and the
//! ConfigMap are written.
//!
//! The product's code makes all decisions: both mirrors, which changes require a new graph, the graph and its text,
//! which statuses differ, their order, and the exact requests. Not modeled: write intervals, the pause after repeated
//! edits by other clients, backoff times, leadership and paged lists. Not modeled either: kinds that appear or
//! disappear, and graphs that are abandoned because their inputs are incomplete.

mod hub;
mod mirrors;
mod state;
mod step;
mod take;
mod worlds;
