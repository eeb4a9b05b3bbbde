//! Brings a real hub with spokes and controllers into the state of each alert of the chart, and scrapes it. The
//! commands of the runbook must find the problem and fix it. Then promtool evaluates the alerts on the scraped
//! metrics. Only the alerts of the state may fire, after their waiting time. No alert may fire before the state
//! or after it.

mod states;
mod story;

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use story::Story;

// The agents run while the test waits for Helm and kubectl.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alerts_fire_in_their_states_only_and_the_runbook_fixes_each() -> Result<()> {
    let mut story = Story::begin().await?;
    states::selector_is_bad(&mut story).await?;
    states::parameters_are_invalid(&mut story).await?;
    states::right_to_a_kind_is_gone(&mut story).await?;
    states::spoke_is_silent(&mut story).await?;
    states::right_to_write_is_gone(&mut story).await?;
    states::right_to_the_lease_is_gone(&mut story).await?;
    states::leader_is_killed(&mut story).await?;
    states::right_to_watch_is_gone(&mut story).await?;
    states::agent_does_not_run(&mut story).await?;

    let rules = story.rules()?;
    let fired: BTreeSet<&str> = story.fired();
    for rule in rules.alerts()? {
        ensure!(rule["alert"].as_str().is_some_and(|name| fired.contains(name)), "never fired: {rule}");
    }
    story.reader.ran_everything()?;
    rules.hold(&story.job(), &story.cases).await
}
