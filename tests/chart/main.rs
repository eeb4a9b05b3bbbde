//! What an administrator puts on a hub: the chart, with the real Helm, and the samples beside it. Each does what it says, with
//! the rights that it gives and no others, and so do the pages that a newcomer follows.

mod alerts;
mod dashboard;
mod documentation;
mod helm;
mod kubectl;
mod played;
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
