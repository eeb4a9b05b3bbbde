//! Runs the fault plans for the watch events of the scenario.

use anyhow::Result;

use crate::sweep::{faultless, sweep};

#[test]
fn any_fault_of_a_watch_leads_to_the_same_final_state() -> Result<()> {
    let faultless = faultless()?;
    let plans = faultless.faults.event_plans();
    sweep(&faultless, plans, 200)
}
