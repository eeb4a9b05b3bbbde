//! Rows of the topology: time and memory of its graph and of its statuses.

pub(crate) mod beside;
pub(crate) mod command;
pub(crate) mod rebuild;
pub(crate) mod statuses;
mod world;

pub use world::{World, take};
