//! By a spoke, whose agent may write its own works and nothing else.

use anyhow::{Result, ensure};
use policy_sync_testenv::world::Answer;
use serde_json::json;

use super::stage;

#[tokio::test]
async fn more_access_written_by_a_spoke_is_taken_back() -> Result<()> {
    let stage = stage("widens").await?;
    let access = stage.world.work("eu-1", "access").await?;
    let mut wide = serde_json::to_value(&access.spec)?;
    wide["workload"]["manifests"][0]["rules"] =
        json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    stage.world.merge(&serde_json::to_value(&access)?, &json!({ "spec": wide })).await?;
    stage.world.until_work("eu-1", "access", |work| work.spec == access.spec).await?;
    stage.nothing_changed().await
}

#[tokio::test]
async fn manifests_written_by_a_spoke_are_taken_back() -> Result<()> {
    let stage = stage("injects").await?;
    let work = stage.world.work("eu-1", "ratelimitpolicy-limits").await?;
    let mut spec = serde_json::to_value(&work.spec)?;
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "kube-system"}});
    spec["workload"]["manifests"][1] = theirs;
    stage.world.merge(&serde_json::to_value(&work)?, &json!({ "spec": spec })).await?;
    stage.world.until_work("eu-1", "ratelimitpolicy-limits", |found| found.spec == work.spec).await?;
    stage.nothing_changed().await
}

#[tokio::test]
async fn labels_that_a_spoke_takes_from_its_works_come_back() -> Result<()> {
    let stage = stage("unlabels").await?;
    for name in ["access", "gateway-web", "ratelimitpolicy-limits"] {
        let work = stage.world.work("eu-1", name).await?;
        stage.world.merge(&serde_json::to_value(&work)?, &json!({"metadata": {"labels": null}})).await?;
        stage.world.until_work("eu-1", name, |found| found.metadata.labels == work.metadata.labels).await?;
    }
    stage.nothing_changed().await
}

#[tokio::test]
async fn a_spoke_speaks_for_no_other() -> Result<()> {
    let stage = stage("poses").await?;
    let work = stage.world.work("eu-1", "ratelimitpolicy-limits").await?;
    let lie = Answer::applied().value("cluster", json!("us-1")).value("_cluster", json!("us-1")).condition(
        "Enforced",
        "True",
        "Enforced",
        "{\"cluster\":\"us-1\",\"applied\":true}",
    );
    stage.world.answer(&work, &lie).await?;
    let (entries, _) = stage.world.until_folded(&stage.limits, |_, summary| summary.enforced == 1).await?;
    ensure!(
        entries.len() == 1 && &*entries[0].cluster.0 == "eu-1" && entries[0].fields.is_empty(),
        "{entries:?}"
    );
    let victim = policy_sync_testenv::fixtures::rate_limit_policy(&stage.victim(), "victim", "victim");
    let (entries, _) = stage.world.until_folded(&victim, |entries, _| entries.len() == 1).await?;
    ensure!(!entries[0].applied && &*entries[0].cluster.0 == "us-1", "{entries:?}");
    stage.nothing_changed().await
}

#[tokio::test]
async fn an_answer_about_another_copy_counts_for_nothing() -> Result<()> {
    let stage = stage("claims").await?;
    let work = stage.world.work("eu-1", "ratelimitpolicy-limits").await?;
    let claim = Answer::applied().revision("0000").condition("Enforced", "True", "Enforced", "all is well");
    stage.world.answer(&work, &claim).await?;
    stage.world.settled(&stage.controller).await?;
    let (entries, summary) = stage.world.until_folded(&stage.limits, |_, _| true).await?;
    ensure!(!entries[0].applied && summary.enforced == 0 && !summary.synced, "{entries:?}");
    stage.nothing_changed().await
}

#[tokio::test]
async fn a_spoke_that_says_much_costs_the_others_nothing() -> Result<()> {
    let stage = stage("shouts").await?;
    stage.world.place("all", &["eu-1", "us-1"]).await?;
    let theirs = stage.world.until_work("us-1", "ratelimitpolicy-limits", |_| true).await?;
    stage.world.answer(&theirs, &Answer::applied().condition("Enforced", "True", "Enforced", "fine")).await?;
    let work = stage.world.work("eu-1", "ratelimitpolicy-limits").await?;
    let mut loud = Answer::applied();
    for index in 0..500 {
        loud = loud.value(&format!("value{index}"), json!("x".repeat(1000)));
    }
    let loud = loud.condition("Enforced", "False", "Overridden", &"y".repeat(100_000));
    stage.world.answer(&work, &loud).await?;
    let (entries, _) = stage
        .world
        .until_folded(&stage.limits, |_, summary| summary.overridden == 1 && summary.enforced == 1)
        .await?;
    let told = |index: usize| entries[index].conditions[0].message.clone().unwrap_or_default();
    ensure!(told(0).len() <= 1024 && told(1) == "fine", "{entries:?}");
    let detail = stage.world.annotations(&stage.limits).await?["kuadrant.io/policies-synced-detail"].clone();
    ensure!(detail == "full", "{detail}");
    Ok(())
}
