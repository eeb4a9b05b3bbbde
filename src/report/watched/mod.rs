//! What a graph is made of, watched with the rights of whoever asks: the rows of a mirror, and which Gateways a change bears on.
//!
//! The rows are shared with the objects that a graph is built of, so that the mirror goes on meanwhile.

mod index;
mod lines;

#[cfg(test)]
mod tests;

pub use index::{Index, View};
pub use lines::{WatchedRow, source};
