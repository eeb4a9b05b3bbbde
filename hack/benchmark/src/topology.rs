//! What is attached to what: how long it takes, and what it takes, beside reading the same routes once.

pub(crate) mod beside;
pub(crate) mod command;
pub(crate) mod rebuild;
pub(crate) mod statuses;
mod world;

pub use world::{World, take};
