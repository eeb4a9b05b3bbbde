//! The controller in this process, under paused time, on an API server in memory whose answers and events go wrong.
//!
//! A *scenario* is what users do. However it is disturbed, it has to end as it does without faults.

#![allow(clippy::unwrap_used)]

mod hub;
mod lagging;
mod scenario;
mod settling;
