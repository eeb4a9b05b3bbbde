//! Fixtures of tests: a [`World`](world::World) that goes through the mirror as the objects of a hub do.

#![allow(clippy::unwrap_used, missing_docs)]

pub mod answers;
pub mod objects;
pub mod sizes;
pub mod works;
pub mod world;
