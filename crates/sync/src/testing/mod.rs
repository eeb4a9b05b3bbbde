//! Test fixtures around a [`World`](world::World), whose objects pass through the mirror like those of a hub.

#![allow(clippy::unwrap_used, missing_docs)]

pub mod objects;
pub mod reports;
pub mod sizes;
pub mod works;
pub mod world;
