//! The same scenario beside a spoke and a tenant that write random values into everything that they may, while something
//! goes wrong: for the others everything has to be as without faults, and as without attackers.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use policy_sync_testenv::fixtures::{managed_cluster, namespace};
use policy_sync_testenv::memory::Attackers;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::hub::Hub;
use crate::sweep::{faultless, sweep_beside_attackers};

/// The hostile spoke, where the tenant alone places anything.
pub(crate) const ROGUE: &str = "rogue";
/// The hostile tenant, who also places what it has on the clusters of the others.
pub(crate) const MOB: &str = "mob";
/// How often they do something.
const EVERY: Duration = Duration::from_millis(700);
/// Of so many plans, one is run.
const SHARE: usize = 149;

/// Attackers at work.
pub(crate) struct Attack {
    working: JoinHandle<Result<Attackers>>,
    stop: CancellationToken,
}

impl Attack {
    /// Has them begin.
    pub(crate) async fn begin(hub: &Hub, seed: u64) -> Result<Self> {
        for object in [namespace(ROGUE), managed_cluster(ROGUE, &BTreeMap::new()), namespace(MOB)] {
            hub.apply(&object).await?;
        }
        let attackers = Attackers::new(&hub.server, seed, ROGUE, MOB, &["eu-1", "us-1", ROGUE]);
        let stop = CancellationToken::new();
        Ok(Self { working: attackers.go_on(EVERY, stop.clone()), stop })
    }

    /// Has them take away what they have.
    pub(crate) async fn end(self) -> Result<()> {
        self.stop.cancel();
        self.working.await??.leave().await
    }
}

#[test]
fn whatever_a_spoke_and_a_tenant_write_while_something_goes_wrong_others_go_on() -> Result<()> {
    sweep_beside_attackers(&faultless()?, SHARE)
}
