//! What tests stand on: servers that start and end as they should, and agents that do what they are there for.

#![allow(clippy::unwrap_used)]

mod agent;
mod control_plane;
mod crds;
mod external_agent;
mod fixtures;
mod spokes;
mod stand_in;
