//! Tests of the test environment: control planes, CRDs, fixtures and work agents on real servers.

#![allow(clippy::unwrap_used)]

mod agent;
mod control_plane;
mod crds;
mod external_agent;
mod fixtures;
mod spokes;
mod stand_in;
