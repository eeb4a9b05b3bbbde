//! The controller in this process, under paused time, against an in-memory API server with injected faults.
//!
//! A *scenario* is a sequence of user actions. Without faults it causes a number of requests and watch events. A
//! *plan* combines one of these requests or events with one fault. After the fault, each step must end in the
//! same state as without faults. After the scenario, the controller may only renew its watches.
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
mod passing_time;
mod refusals;
mod requests;
mod rivals;
mod scenario;
mod settling;
mod sweep;
mod taken_back;
mod topology;
mod watches;
