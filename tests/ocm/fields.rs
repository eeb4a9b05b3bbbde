//! `statusFields`: the values that parameters ask for.

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::rate_limit_policy;
use serde_json::json;

use crate::world;

#[tokio::test]
async fn configured_fields_come_back() -> Result<()> {
    let (world, _) = world("fields", &["eu-1"]).await?;
    let field = |name: &str, path: &str| json!({"name": name, "path": path});
    world
        .parameters(&json!({"policiesToSync": [{
            "group": "kuadrant.io", "version": "v1", "resource": "ratelimitpolicies",
            "statusFields": [
                field("generation", ".status.observedGeneration"),
                field("why", ".status.conditions[?(@.type==\"Enforced\")].reason"),
                field("window", ".spec.limits.all.rates[0].window"),
                field("from", ".metadata.annotations['kuadrant\\.io/policy-synced']"),
                field("absent", ".status.nothing"),
            ],
        }]}))
        .await?;
    let _controller = world.controller().await?;
    let limits = rate_limit_policy(world.name(), "limits", "web");
    world.apply(&limits).await?;
    let (entries, _) = world.until_folded(&limits, |_, summary| summary.enforced == 1).await?;
    let expected = json!({"generation": 1, "why": "Enforced", "window": "10s", "from": "fields/limits"});
    ensure!(json!(entries[0].fields) == expected, "{entries:?}");
    Ok(())
}
