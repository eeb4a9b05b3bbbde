//! Each request that the scenario makes, with each thing that can go wrong with it.

use anyhow::Result;

use crate::sweep::{faultless, sweep};

#[test]
fn whatever_goes_wrong_with_a_request_ends_as_if_nothing_had() -> Result<()> {
    let faultless = faultless()?;
    let plans = faultless.faults.request_plans();
    sweep(&faultless, plans, 250)
}
