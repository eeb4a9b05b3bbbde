//! The first three invariants of `docs/architecture.md`: the controller converges and then stops writing, a
//! restart writes nothing, and a change causes only the necessary writes.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use policy_sync_testenv::audit::Request;
use policy_sync_testenv::fixtures::{auth_policy, rate_limit_policy, timeout_policy};
use policy_sync_testenv::tenant::WorkReport;
use serde_json::json;

use crate::tenant;

/// The number of writes by verb and resource, such as `create manifestworks`.
fn counted(writes: &[Request]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for write in writes {
        *counts.entry(format!("{} {}", write.verb, write.object().resource)).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn controller_converges_and_then_writes_nothing() -> Result<()> {
    let tenant = tenant("converges", &["eu-1", "us-1"]).await?;
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.apply(&auth_policy(tenant.name(), "auth", "web")).await?;
    tenant.apply(&timeout_policy(tenant.name(), "timeouts", &["web", "elsewhere"])).await?;
    tenant
        .until_works(&[
            "eu-1/access",
            "eu-1/authpolicy-auth",
            "eu-1/gateway-web",
            "eu-1/ratelimitpolicy-limits",
            "eu-1/timeoutpolicy-timeouts",
            "us-1/access",
            "us-1/authpolicy-auth",
            "us-1/gateway-web",
            "us-1/ratelimitpolicy-limits",
            "us-1/timeoutpolicy-timeouts",
        ])
        .await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == 2).await?;
    for write in tenant.settled(&controller).await? {
        ensure!(!write.is_rejected(), "the hub rejected {write:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_restart_writes_nothing() -> Result<()> {
    let tenant = tenant("restarts", &["eu-1", "us-1"]).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    // Values that the server stores in another form must not look like a difference.
    let mut timeouts = timeout_policy(tenant.name(), "timeouts", &["web"]);
    timeouts["spec"]["odd"] = json!({
        "null": null, "whole": 1.0, "large": 9_007_199_254_740_993_i64, "larger": 1e300, "negative": -0.0,
        "größe": "ß", "empty": {}, "list": [],
    });
    tenant.apply(&limits).await?;
    tenant.apply(&timeouts).await?;
    let controller = tenant.controller().await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == 2).await?;
    let work = tenant.until_work("eu-1", "ratelimitpolicy-limits", |_| true).await?;
    tenant.report(&work, &WorkReport::applied()).await?;
    tenant.until_folded(&limits, |_, summary| summary.applied == 1).await?;
    tenant.settled(&controller).await?;
    controller.terminate().await?;

    let controller = tenant.controller().await?;
    let writes = tenant.settled(&controller).await?;
    ensure!(writes.is_empty(), "the restarted controller wrote {writes:?}");
    Ok(())
}

#[tokio::test]
async fn one_change_causes_one_write_per_cluster_and_one_status_write() -> Result<()> {
    let tenant = tenant("costs", &["eu-1", "us-1"]).await?;
    let controller = tenant.controller().await?;
    let mut limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == 2).await?;
    for cluster in ["eu-1", "us-1"] {
        let work = tenant.until_work(cluster, "ratelimitpolicy-limits", |_| true).await?;
        tenant.report(&work, &WorkReport::applied()).await?;
    }
    tenant.until_folded(&limits, |_, summary| summary.applied == 2).await?;
    let before = tenant.settled(&controller).await?.len();

    limits["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(20);
    tenant.apply(&limits).await?;
    tenant.until_folded(&limits, |_, summary| summary.pending == 2).await?;
    let after = tenant.settled(&controller).await?;
    ensure!(
        counted(&after[before..])
            == BTreeMap::from([
                ("patch manifestworks".to_owned(), 2),
                ("patch ratelimitpolicies".to_owned(), 1)
            ]),
        "the change caused {:?}",
        &after[before..]
    );
    Ok(())
}

#[tokio::test]
async fn feedback_within_one_window_causes_one_status_write() -> Result<()> {
    let tenant = tenant("storms", &["eu-1", "us-1"]).await?;
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == 2).await?;
    let before = tenant.settled(&controller).await?.len();

    let started = std::time::Instant::now();
    for round in 0..20 {
        for cluster in ["eu-1", "us-1"] {
            let work = tenant.until_work(cluster, "ratelimitpolicy-limits", |_| true).await?;
            let report =
                WorkReport::applied().condition("Enforced", "False", "Unknown", &format!("round {round}"));
            tenant.report(&work, &report).await?;
        }
    }
    let windows = usize::try_from(started.elapsed().as_secs())? + 2;
    tenant
        .until_folded(&limits, |entries, _| {
            entries
                .iter()
                .all(|entry| entry.conditions.iter().any(|c| c.message.as_deref() == Some("round 19")))
        })
        .await?;
    let folds = tenant.settled(&controller).await?.len() - before;
    ensure!(folds <= windows, "{folds} writes in {windows} windows");
    Ok(())
}

#[tokio::test]
async fn controller_stops_within_five_seconds() -> Result<()> {
    let tenant = tenant("stops", &["eu-1"]).await?;
    let controller = tenant.controller().await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    let took = controller.terminate().await?;
    ensure!(took.as_secs_f64() < 5.0, "termination took {took:?}");
    Ok(())
}

#[tokio::test]
async fn feedback_text_cannot_block_the_status_write() -> Result<()> {
    let tenant = tenant("texts", &["eu-1"]).await?;
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == 1).await?;
    let work = tenant.until_work("eu-1", "ratelimitpolicy-limits", |_| true).await?;
    let controls: String = (0..0xa0).filter_map(char::from_u32).collect();
    for text in [
        controls + "\u{feff}\u{fffe}\u{ffff}\u{2028}\u{202e}😀",
        "\"'\\{}[]\n- a: b # c".to_owned(),
        "é".repeat(300),
    ] {
        tenant
            .report(&work, &WorkReport::applied().condition("Enforced", "False", "Overridden", &text))
            .await?;
        let message = |entry: &policy_sync_api::annotations::Synced| {
            entry.conditions.first().and_then(|condition| condition.message.clone()).unwrap_or_default()
        };
        tenant.until_folded(&limits, |entries, _| message(&entries[0]) == text).await?;
    }
    let long = "é".repeat(5000);
    tenant.report(&work, &WorkReport::applied().condition("Enforced", "False", "Overridden", &long)).await?;
    tenant
        .until_folded(&limits, |entries, _| {
            entries[0].cut && entries[0].conditions[0].message.as_deref() == Some(&*"é".repeat(256))
        })
        .await?;
    for write in tenant.writes(&controller)? {
        ensure!(!write.is_rejected(), "the hub rejected {write:?}");
    }
    Ok(())
}
