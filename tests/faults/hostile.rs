//! The same scenario beside a spoke and a tenant that write random values into everything that they may, while something
//! goes wrong: for the others everything has to be as without faults, and as without attackers.

use anyhow::Result;

use crate::sweep::{faultless, sweep_beside_attackers};

/// Of so many plans, one is run.
const SHARE: usize = 229;

#[test]
fn whatever_a_spoke_and_a_tenant_write_while_something_goes_wrong_others_go_on() -> Result<()> {
    sweep_beside_attackers(&faultless()?, SHARE)
}
