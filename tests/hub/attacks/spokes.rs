//! Attacks by a spoke, whose agent may write only its own works.

use anyhow::{Result, ensure};
use policy_sync_testenv::tenant::WorkReport;
use serde_json::json;

use super::neighbours;

#[tokio::test]
async fn rights_added_by_a_spoke_are_reverted() -> Result<()> {
    let neighbours = neighbours("widens").await?;
    let access = neighbours.tenant.work("eu-1", "access").await?;
    let mut wide = serde_json::to_value(&access.spec)?;
    wide["workload"]["manifests"][0]["rules"] =
        json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    neighbours.tenant.merge(&serde_json::to_value(&access)?, &json!({ "spec": wide })).await?;
    neighbours.tenant.until_work("eu-1", "access", |work| work.spec == access.spec).await?;
    neighbours.nothing_changed().await
}

#[tokio::test]
async fn manifests_written_by_a_spoke_are_reverted() -> Result<()> {
    let neighbours = neighbours("injects").await?;
    let work = neighbours.tenant.work("eu-1", "ratelimitpolicy-limits").await?;
    let mut spec = serde_json::to_value(&work.spec)?;
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "kube-system"}});
    spec["workload"]["manifests"][1] = theirs;
    neighbours.tenant.merge(&serde_json::to_value(&work)?, &json!({ "spec": spec })).await?;
    neighbours.tenant.until_work("eu-1", "ratelimitpolicy-limits", |found| found.spec == work.spec).await?;
    neighbours.nothing_changed().await
}

#[tokio::test]
async fn labels_removed_from_works_by_a_spoke_are_restored() -> Result<()> {
    let neighbours = neighbours("unlabels").await?;
    for name in ["access", "gateway-web", "ratelimitpolicy-limits"] {
        let work = neighbours.tenant.work("eu-1", name).await?;
        neighbours
            .tenant
            .merge(&serde_json::to_value(&work)?, &json!({"metadata": {"labels": null}}))
            .await?;
        neighbours
            .tenant
            .until_work("eu-1", name, |found| found.metadata.labels == work.metadata.labels)
            .await?;
    }
    neighbours.nothing_changed().await
}

#[tokio::test]
async fn spoke_cannot_report_for_another() -> Result<()> {
    let neighbours = neighbours("poses").await?;
    let work = neighbours.tenant.work("eu-1", "ratelimitpolicy-limits").await?;
    let lie = WorkReport::applied()
        .value("cluster", json!("us-1"))
        .value("_cluster", json!("us-1"))
        .condition("Enforced", "True", "Enforced", "{\"cluster\":\"us-1\",\"applied\":true}");
    neighbours.tenant.report(&work, &lie).await?;
    let (entries, _) =
        neighbours.tenant.until_folded(&neighbours.limits, |_, summary| summary.enforced == 1).await?;
    ensure!(
        entries.len() == 1 && &*entries[0].cluster.0 == "eu-1" && entries[0].fields.is_empty(),
        "{entries:?}"
    );
    let victim = policy_sync_testenv::fixtures::rate_limit_policy(&neighbours.victim(), "victim", "victim");
    let (entries, _) = neighbours.tenant.until_folded(&victim, |entries, _| entries.len() == 1).await?;
    ensure!(!entries[0].applied && &*entries[0].cluster.0 == "us-1", "{entries:?}");
    neighbours.nothing_changed().await
}

#[tokio::test]
async fn feedback_for_another_revision_is_ignored() -> Result<()> {
    let neighbours = neighbours("claims").await?;
    let work = neighbours.tenant.work("eu-1", "ratelimitpolicy-limits").await?;
    let claim =
        WorkReport::applied().revision("0000").condition("Enforced", "True", "Enforced", "all is well");
    neighbours.tenant.report(&work, &claim).await?;
    neighbours.tenant.settled(&neighbours.controller).await?;
    let (entries, summary) = neighbours.tenant.until_folded(&neighbours.limits, |_, _| true).await?;
    ensure!(!entries[0].applied && summary.enforced == 0 && !summary.synced, "{entries:?}");
    neighbours.nothing_changed().await
}

#[tokio::test]
async fn large_reports_of_one_spoke_do_not_affect_others() -> Result<()> {
    let neighbours = neighbours("shouts").await?;
    neighbours.tenant.place("all", &["eu-1", "us-1"]).await?;
    let theirs = neighbours.tenant.until_work("us-1", "ratelimitpolicy-limits", |_| true).await?;
    neighbours
        .tenant
        .report(&theirs, &WorkReport::applied().condition("Enforced", "True", "Enforced", "fine"))
        .await?;
    let work = neighbours.tenant.work("eu-1", "ratelimitpolicy-limits").await?;
    let mut loud = WorkReport::applied();
    for index in 0..500 {
        loud = loud.value(&format!("value{index}"), json!("x".repeat(1000)));
    }
    let loud = loud.condition("Enforced", "False", "Overridden", &"y".repeat(100_000));
    neighbours.tenant.report(&work, &loud).await?;
    let (entries, _) = neighbours
        .tenant
        .until_folded(&neighbours.limits, |_, summary| summary.overridden == 1 && summary.enforced == 1)
        .await?;
    let note = |index: usize| entries[index].conditions[0].message.clone().unwrap_or_default();
    ensure!(note(0).len() <= 1024 && note(1) == "fine", "{entries:?}");
    let detail =
        neighbours.tenant.annotations(&neighbours.limits).await?["kuadrant.io/policies-synced-detail"]
            .clone();
    ensure!(detail == "full", "{detail}");
    Ok(())
}
