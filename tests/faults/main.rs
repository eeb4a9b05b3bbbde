//! The controller in this process, under paused time, on an API server in memory whose answers and events go wrong.
//!
//! A *scenario* is what users do. Without faults it makes a number of requests, and its watches bring a number of
//! events; each of them, with each thing that can go wrong with it, is a *plan*. However a plan disturbs the scenario,
//! soon after it is over everything has to be as without faults, at the end of each step that users take, and once they
//! take none the controller only watches on. `POLICY_SYNC_FAULT_PLAN` runs the plans with that in their name.

#![allow(clippy::unwrap_used)]

mod departed;
mod hostile;
mod hub;
mod lagging;
mod late;
mod logging;
mod metrics;
mod oracle;
mod panics;
mod refusals;
mod requests;
mod rivals;
mod scenario;
mod settling;
mod sweep;
mod taken_back;
mod telling;
mod topology;
mod watches;
