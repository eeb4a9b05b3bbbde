//! Each event that the scenario's watches bring, with each thing that can go wrong with it and with its watch.

use anyhow::Result;

use crate::sweep::{faultless, sweep};

#[test]
fn whatever_goes_wrong_with_a_watch_ends_as_if_nothing_had() -> Result<()> {
    let faultless = faultless()?;
    let plans = faultless.faults.event_plans();
    sweep(&faultless, plans, 200)
}
