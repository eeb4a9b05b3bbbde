//! What an administrator puts on a hub: the chart, with the real Helm, and the samples beside it. Each does what it says, with
//! the rights that it gives and no others.

mod alerts;
mod dashboard;
mod helm;
mod kubectl;
mod prometheus;
mod rendering;
mod rights;
mod runbook;
mod samples;
mod uninstall;
mod upgrade;
mod values;

/// The controller, as it was built for tests.
const BINARY: &str = env!("CARGO_BIN_EXE_policy-sync");
