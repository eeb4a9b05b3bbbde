//! Brings a real hub with spokes and controllers into the state that each alert of the chart detects, and scrapes the
//! controllers. The commands of the runbook must find the problem and fix it. Then promtool evaluates the alerts on the
//! scraped metrics. During a state, only its own alerts may fire, and only after their waiting time. Before and after a
//! state, no alert may fire.

mod scenario;
mod states;

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use scenario::Scenario;

// Worker threads run the agents while the test waits for Helm and kubectl.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alerts_fire_in_their_states_only_and_the_runbook_fixes_each() -> Result<()> {
    let mut scenario = Scenario::begin().await?;
    states::selector_is_bad(&mut scenario).await?;
    states::parameters_are_invalid(&mut scenario).await?;
    states::right_to_a_kind_is_gone(&mut scenario).await?;
    states::spoke_is_silent(&mut scenario).await?;
    states::right_to_write_is_gone(&mut scenario).await?;
    states::right_to_the_lease_is_gone(&mut scenario).await?;
    states::leader_is_killed(&mut scenario).await?;
    states::right_to_watch_is_gone(&mut scenario).await?;
    states::agent_does_not_run(&mut scenario).await?;

    let rules = scenario.rules()?;
    let fired: BTreeSet<&str> = scenario.fired();
    for rule in rules.alerts()? {
        ensure!(rule["alert"].as_str().is_some_and(|name| fired.contains(name)), "never fired: {rule}");
    }
    scenario.reader.ran_everything()?;
    rules.hold(&scenario.job(), &scenario.cases).await
}
