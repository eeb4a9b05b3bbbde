//! The chart's alerts, each in the state that it is for: a real hub with spokes, and real controllers, are brought into it and
//! scraped; the runbook's commands find what is wrong, and mend it; and promtool finds that on what was scraped the alerts of this
//! state fire, after as long as they wait, and no others, neither before nor afterwards.

mod states;
mod story;

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use story::Story;

// The agents run while Helm and kubectl are waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_alert_fires_in_its_state_alone_and_the_runbook_mends_it() -> Result<()> {
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
