//! What the plan decides, told over a [`world::World`] that goes through the mirror as the hub's own objects do.

pub(crate) mod answers;
pub(crate) mod objects;
pub(crate) mod sizes;
pub(crate) mod works;
pub(crate) mod world;

mod access;
mod ancestors;
mod causes;
mod classes;
mod copies;
mod departed;
mod diffs;
mod explaining;
mod folding;
mod freezing;
mod gateways;
mod grace;
mod idempotence;
mod limits;
mod notices;
mod order;
mod overrides;
mod panics;
mod placement;
mod problems;
mod secrets;
mod snapshots;
mod telling;
mod watching;
