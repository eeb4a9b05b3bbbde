//! Without faults: it converges and then writes nothing, it starts again without a write, and it can be elected.

use anyhow::{Result, ensure};
use policy_sync_testenv::memory::Faultless;
use policy_sync_testenv::world::all_kinds;

use crate::hub::Hub;
use crate::scenario;

const SETTLED: [&str; 6] = [
    "eu-1/access",
    "eu-1/gateway-web",
    "eu-1/timeoutpolicy-timeouts",
    "us-1/access",
    "us-1/gateway-web",
    "us-1/timeoutpolicy-timeouts",
];

#[tokio::test(start_paused = true)]
async fn the_scenario_settles() -> Result<()> {
    let hub = Hub::new(&all_kinds()).await?;
    scenario::prepare(&hub).await?;
    hub.controller(Faultless)?;
    scenario::play(&hub).await?;
    hub.settled().await?;
    assert_eq!(hub.works(), SETTLED);
    let refused: Vec<String> =
        hub.writes().iter().filter(|asked| asked.code >= 300).map(ToString::to_string).collect();
    ensure!(refused.is_empty(), "the hub refused {refused:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_a_settled_hub_writes_nothing() -> Result<()> {
    let hub = Hub::new(&all_kinds()).await?;
    scenario::prepare(&hub).await?;
    let controller = hub.elected(Faultless)?;
    scenario::play(&hub).await?;
    hub.settled().await?;
    controller.terminate().await?;
    let before = hub.writes().len();
    ensure!(before > 0);
    hub.elected(Faultless)?;
    hub.settled().await?;
    assert_eq!(hub.writes().len(), before);
    assert_eq!(hub.works(), SETTLED);
    Ok(())
}
