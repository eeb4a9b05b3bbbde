//! Rows of the topology: time and memory of the graph, in comparison with reading its routes once.

pub(crate) mod beside;
pub(crate) mod command;
pub(crate) mod rebuild;
pub(crate) mod statuses;
mod world;

pub use world::{World, take};
