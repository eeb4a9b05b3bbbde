//! RFC 0007's hierarchy: a policy of the spoke with the same target takes precedence over a copy. The hub reports
//! this as long as the spoke's policy exists, and changes nothing.
//!
//! The tests simulate the policy controller of the spoke, which reads the annotation `kuadrant.io/policy-synced`.
//! Kuadrant 1.5.2 does not read this annotation, and decides by creation time (docs/policy-kinds.md). These tests show
//! how the hub reports a spoke that implements the RFC, not the behavior of Kuadrant.

use anyhow::{Context, Result, ensure};
use kube::api::DynamicObject;
use kube::{Client, ResourceExt};
use policy_sync_api::annotations::{POLICIES_SYNCED_SUMMARY, Summary, Synced};
use policy_sync_testenv::Controller;
use policy_sync_testenv::Tenant;
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::fixtures::{auth_policy, rate_limit_policy};
use serde_json::Value;

use crate::{downstream, tenant, until_copied};

/// The state that a policy of the spoke must not change: the policy on the hub, its works and its copies,
/// without annotations and statuses.
#[derive(Debug, PartialEq)]
struct WrittenState {
    policy: Option<i64>,
    works: Vec<(String, Option<i64>)>,
    copies: Vec<(Option<i64>, Value)>,
}

impl WrittenState {
    async fn now(tenant: &Tenant<'_>, policy: &Value, spokes: &[&Client]) -> Result<Self> {
        let works = tenant.works().await?;
        let mut copies = Vec::new();
        for spoke in spokes {
            let copy = until_copied(spoke, policy, |_| true).await?;
            copies.push((copy.metadata.generation, copy.data["spec"].clone()));
        }
        Ok(Self {
            policy: tenant.get(policy).await?.metadata.generation,
            works: works.iter().map(|work| (work.name_any(), work.metadata.generation)).collect(),
            copies,
        })
    }
}

/// Checks that the controller has written nothing since the first `since` writes, except to the policy
/// itself.
async fn other_writes(
    tenant: &Tenant<'_>,
    controller: &Controller,
    since: usize,
    policy: &Value,
) -> Result<()> {
    let writes = tenant.settled(controller).await?;
    let others = writes[since..].iter().filter(|write| policy["metadata"]["name"] != *write.object().name);
    let others: Vec<_> = others.collect();
    ensure!(others.is_empty(), "the controller wrote {others:?}");
    Ok(())
}

fn entry<'e>(entries: &'e [Synced], cluster: &str) -> Result<&'e Synced> {
    entries.iter().find(|entry| &*entry.cluster.0 == cluster).with_context(|| format!("{entries:?}"))
}

fn enforced(copy: &DynamicObject) -> &Value {
    let mut conditions = copy.data["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == "Enforced").unwrap_or(&Value::Null)
}

async fn wins_while_it_is_there(name: &str, policy: fn(&str, &str, &str) -> Value) -> Result<()> {
    let (tenant, fleet) = tenant(name, &["eu-1", "us-1"]).await?;
    let controller = tenant.controller().await?;
    let (eu, us) = (fleet.spoke("eu-1")?.client()?, fleet.spoke("us-1")?.client()?);
    let policy = policy(tenant.name(), "ours", "web");
    tenant.apply(&policy).await?;
    tenant.until_folded(&policy, |_, summary| summary.enforced == 2 && summary.pending == 0).await?;
    let since = tenant.settled(&controller).await?.len();
    let before = WrittenState::now(&tenant, &policy, &[&eu, &us]).await?;

    let mut local = downstream(&policy);
    local["metadata"]["name"] = "local".into();
    let theirs = apply(&eu, &local).await?;
    let overridden = Summary {
        clusters: 2,
        applied: 2,
        enforced: 1,
        overridden: 1,
        pending: 0,
        synced: true,
        ..Summary::default()
    };
    let (entries, _) = tenant.until_folded(&policy, |_, summary| *summary == overridden).await?;
    let condition = entry(&entries, "eu-1")?.conditions.iter().find(|condition| condition.is_overridden());
    let condition = condition.with_context(|| format!("no condition Overridden for eu-1: {entries:?}"))?;
    let copy = until_copied(&eu, &policy, |copy| enforced(copy)["status"] == "False").await?;
    ensure!(condition.message.as_deref() == enforced(&copy)["message"].as_str(), "{condition:?}");
    ensure!(condition.message.as_deref().is_some_and(|message| message.contains("local")), "{condition:?}");
    let other = &entry(&entries, "us-1")?.conditions;
    ensure!(
        other.iter().any(|condition| condition.condition_type == "Enforced" && condition.status == "True"),
        "{other:?}"
    );
    let summary = tenant.annotations(&policy).await?[POLICIES_SYNCED_SUMMARY].clone();
    ensure!(serde_json::from_str::<Summary>(&summary)? == overridden, "{summary}");

    // The conflict causes no writes: both policies remain unchanged.
    other_writes(&tenant, &controller, since, &policy).await?;
    ensure!(WrittenState::now(&tenant, &policy, &[&eu, &us]).await? == before);
    let (api, local) = api_for(&eu, &local).await?;
    ensure!(api.get(&local).await?.metadata.generation == theirs.metadata.generation);

    api.delete(&local, &Default::default()).await?;
    let enforced = Summary { enforced: 2, overridden: 0, ..overridden };
    tenant.until_folded(&policy, |_, summary| *summary == enforced).await?;
    other_writes(&tenant, &controller, since, &policy).await?;
    ensure!(WrittenState::now(&tenant, &policy, &[&eu, &us]).await? == before);
    Ok(())
}

#[tokio::test]
async fn local_rate_limit_policy_takes_precedence_while_it_exists() -> Result<()> {
    wins_while_it_is_there("limits-yield", rate_limit_policy).await
}

#[tokio::test]
async fn local_auth_policy_takes_precedence_while_it_exists() -> Result<()> {
    wins_while_it_is_there("auth-yields", auth_policy).await
}

/// The local policy exists before the copy arrives.
#[tokio::test]
async fn older_local_policy_takes_precedence_from_the_start() -> Result<()> {
    let (tenant, fleet) = tenant("first", &["eu-1"]).await?;
    let _controller = tenant.controller().await?;
    let eu = fleet.spoke("eu-1")?.client()?;
    let policy = rate_limit_policy(tenant.name(), "ours", "web");
    let mut local = downstream(&policy);
    local["metadata"]["name"] = "local".into();
    // The namespace is created with the Gateway.
    let gateway = policy_sync_testenv::fixtures::gateway(tenant.name(), "web", tenant.name(), None);
    until_copied(&eu, &gateway, |_| true).await?;
    apply(&eu, &local).await?;
    tenant.apply(&policy).await?;
    tenant.until_folded(&policy, |_, summary| summary.overridden == 1).await?;
    tenant.delete(&policy).await?;
    crate::until_gone(&eu, &policy).await?;
    let (api, local) = api_for(&eu, &local).await?;
    ensure!(
        api.get(&local).await?.metadata.deletion_timestamp.is_none(),
        "the local policy is being deleted"
    );
    Ok(())
}
