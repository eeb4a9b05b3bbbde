//! `plan --diff` marks changes that the controller would postpone.

use anyhow::{Context, Result, ensure};
use kube::api::DeleteParams;
use policy_sync_testenv::apply::api_for;
use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::tenant::{LIMIT, rate_limit_policies};
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use super::{changes, check_predicted_changes, diff, synced, tenant};

#[tokio::test]
async fn creation_waits_until_the_terminating_work_is_gone() -> Result<()> {
    let (tenant, _) = synced("diff-waits", &["eu-1"]).await?;

    let work = serde_json::to_value(tenant.work("eu-1", "ratelimitpolicy-limits").await?)?;
    let finalizers = |finalizers: &[&str]| json!({"metadata": {"finalizers": finalizers}});
    tenant.merge(&work, &finalizers(&["example.com/hold"])).await?;
    let (works, name) = api_for(tenant.client(), &work).await?;
    works.delete(&name, &DeleteParams::default()).await?;
    let ran = diff(&tenant, &["-o", "json"]);
    let list: Value = serde_json::from_str(&ran.stdout)?;
    let expected =
        ["create ManifestWork eu-1/ratelimitpolicy-limits", "change RateLimitPolicy diff-waits/limits"];
    ensure!(ran.code == 1 && changes(&list) == expected, "{ran:?}");
    ensure!(list["items"][0]["waits"] == "once the deletion of the existing work completes", "{list}");
    let folded = &list["items"][1]["after"]["metadata"]["annotations"]["kuadrant.io/policies-synced"];
    ensure!(folded.as_str().is_some_and(|folded| folded.contains("\"deleting\":true")), "{folded}");

    tenant.merge(&work, &finalizers(&[])).await?;
    let list: Value = serde_json::from_str(&diff(&tenant, &["-o", "json"]).stdout)?;
    ensure!(changes(&list) == expected[..1] && list["items"][0]["waits"].is_null(), "{list}");
    Ok(())
}

#[tokio::test]
async fn withdrawal_from_an_unplaced_cluster_is_marked_as_waiting() -> Result<()> {
    let tenant = tenant("diff-leaves", &["eu-1", "us-1"]).await?;
    let controller = tenant.controller().await?;
    tenant.until_works(&["eu-1/access", "eu-1/gateway-web", "us-1/access", "us-1/gateway-web"]).await?;
    tenant.settled(&controller).await?;
    controller.terminate().await?;

    // Nothing is withdrawn while the PlacementDecisions are incomplete.
    tenant.decide("all", 1, &["eu-1"]).await?;
    let ran = diff(&tenant, &[]);
    ensure!((ran.code, ran.stdout.as_str()) == (0, ""), "{ran:?}");
    ensure!(
        ran.stderr
            == "Gateway diff-leaves/web: warning: Placement diff-leaves/all has selected 2 clusters, \
                but its PlacementDecisions list 1: until these are complete, no copies are deleted\n",
        "{ran:?}"
    );

    tenant.select("all", 1).await?;
    let rows = diff(&tenant, &["-o", "table"]);
    let rows: Vec<Vec<&str>> = rows
        .stdout
        .lines()
        .map(|row| row.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let waits: Vec<&str> = rows.iter().map(|row| *row.last().unwrap_or(&"")).collect();
    ensure!(
        waits
            == [
                "WAITS",
                "once all other works of the cluster are deleted",
                "once its Placement has not changed for 5 s",
                "-"
            ],
        "{rows:?}"
    );
    let text = check_predicted_changes(
        &tenant,
        &[
            "delete ManifestWork us-1/access",
            "delete ManifestWork us-1/gateway-web",
            "change Gateway diff-leaves/web",
        ],
    )
    .await?;
    let before = "not programmed on 2 of 2 clusters: eu-1 (pending); us-1 (pending)";
    ensure!(text.stdout.contains(before), "{}", text.stdout);
    ensure!(text.stdout.contains(" (once its Placement has not changed for 5 s)\n"), "{}", text.stdout);
    Ok(())
}

#[tokio::test]
async fn copy_that_waits_for_an_older_one_is_marked_while_it_waits() -> Result<()> {
    let tenant = tenant("diff-order", &["eu-1"]).await?;
    let parameters =
        |wait: u32| json!({"policiesToSync": [rate_limit_policies()], "policyWaitSeconds": wait});
    tenant.parameters(&parameters(600)).await?;
    let policy = |name: &str| rate_limit_policy(tenant.name(), name, "web");
    let older = tenant.apply(&policy("zzz")).await?.metadata.creation_timestamp;
    let controller = tenant.controller().await?;
    tenant.until_folded(&policy("zzz"), |entries, _| entries.len() == 1).await?;
    tenant.settled(&controller).await?;
    controller.terminate().await?;
    let younger = tenant.apply(&policy("aaa")).await?.metadata.creation_timestamp;
    ensure!(younger > older, "{younger:?}");

    let waits = || {
        let ran = diff(&tenant, &["-o", "json"]);
        let list: Value = serde_json::from_str(&ran.stdout)?;
        let changes = changes(&list);
        let index =
            changes.iter().position(|change| change == "create ManifestWork eu-1/ratelimitpolicy-aaa");
        anyhow::Ok(list["items"][index.with_context(|| format!("{ran:?}"))?]["waits"].clone())
    };
    ensure!(
        waits()? == "once the copy of diff-order/zzz exists there, or the wait times out",
        "{}",
        waits()?
    );
    // The wait for the older copy, which is never created, times out.
    tenant.parameters(&parameters(1)).await?;
    wait::until("the wait for the older copy has ended", LIMIT, || async {
        let waits = waits()?;
        ensure!(waits.is_null(), "{waits}");
        Ok(())
    })
    .await
}
