//! Rows of the topology: time and memory for its graph, and for the statuses of routes.

pub(crate) mod beside;
pub(crate) mod command;
pub(crate) mod rebuild;
pub(crate) mod statuses;
mod world;

pub use world::{World, take};
