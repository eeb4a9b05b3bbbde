//! The controller in this process, under paused time, against an in-memory API server with injected faults.
//!
//! A *scenario* is a sequence of user actions. Without faults it causes a number of requests and watch
//! events. A *plan* combines one of them with one fault. After each plan, the state at the end of each later
//! step must be the same as without faults, and after the scenario the controller may only renew its watches.
//! `POLICY_SYNC_FAULT_PLAN` selects the plans whose name contains its value.

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
