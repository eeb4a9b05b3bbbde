//! Cluster overrides on real spokes.

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::rate_limit_policy;
use serde_json::{Value, json};

use crate::{tenant, until_copied};

fn limit_of(copy: &kube::api::DynamicObject) -> &Value {
    &copy.data["spec"]["limits"]["all"]["rates"][0]["limit"]
}

#[tokio::test]
async fn each_spoke_enforces_its_own_override() -> Result<()> {
    let (tenant, fleet) = tenant("overrides", &["eu-1", "us-1"]).await?;
    let _controller = tenant.controller().await?;
    let (eu, us) = (fleet.spoke("eu-1")?.client()?, fleet.spoke("us-1")?.client()?);
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    let overrides = |limit: Value| {
        let patch = json!({"limits": {"all": {"rates": [{"limit": limit, "window": "10s"}]}}});
        let overrides = json!([{"clusterSelector": "region in (us)", "patch": patch}]);
        json!({"kuadrant.io/cluster-overrides": overrides.to_string()})
    };
    let mut differing = limits.clone();
    differing["metadata"]["annotations"] = overrides(json!(5.0));
    tenant.apply(&differing).await?;
    until_copied(&eu, &limits, |copy| *limit_of(copy) == 10).await?;
    until_copied(&us, &limits, |copy| *limit_of(copy) == 5).await?;
    tenant.until_folded(&limits, |_, summary| summary.enforced == 2 && summary.pending == 0).await?;

    // Without the override, us-1 has the same limit as eu-1, and reports the status of the changed copy.
    tenant.apply(&limits).await?;
    until_copied(&us, &limits, |copy| *limit_of(copy) == 10).await?;
    let copy = until_copied(&eu, &limits, |copy| *limit_of(copy) == 10).await?;
    ensure!(copy.metadata.generation == Some(1), "the copy on eu-1 changed: {:?}", copy.metadata.generation);
    tenant.until_folded(&limits, |_, summary| summary.enforced == 2 && summary.pending == 0).await?;
    Ok(())
}
