//! Runs the fault plans for the requests of the scenario.

use anyhow::Result;

use crate::sweep::{faultless, sweep};

#[test]
fn any_fault_of_a_request_leads_to_the_same_final_state() -> Result<()> {
    let faultless = faultless()?;
    let plans = faultless.faults.request_plans();
    sweep(&faultless, plans, 250)
}
