//! Watches the objects of a topology with the user's rights: the rows of a mirror, and the Gateways that a
//! change affects.
//!
//! Rows are shared with the objects that a graph is built from, so that the mirror can change during the build.

mod index;
mod lines;

#[cfg(test)]
mod tests;

pub use index::{TopologyIndex, View};
pub use lines::{WatchedRow, source};
