//! Runs the scenario with a fault, beside a spoke and a tenant that write random values wherever they have
//! permission. For all other objects, the result has to be the same as without faults and attackers.

use anyhow::Result;

use crate::sweep::{faultless, sweep_beside_attackers};

/// The tests run one in `SHARE` plans.
const SHARE: usize = 229;

#[test]
fn attackers_and_faults_together_do_not_affect_others() -> Result<()> {
    sweep_beside_attackers(&faultless()?, SHARE)
}
