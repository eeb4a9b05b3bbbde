//! Invalid cluster overrides.

use anyhow::{Context, Result};
use policy_sync_testenv::fixtures::rate_limit_policy;
use serde_json::{Value, json};

use super::page::holds;
use super::policies::{REPORTED_IN, is_reported};
use super::syncs_changes;
use crate::kinds::apply_once_served;
use crate::overrides::{typed_definition, typed_policy};
use crate::tenant;

const GROUP: &str = "typed.example.com";

/// Description of the fault, name of the policy, and the overrides.
fn cases() -> Vec<(&'static str, &'static str, String)> {
    let selecting = |selector: Value, patch: Value| json!({"clusterSelector": selector, "patch": patch});
    let us = |patch: Value| selecting("region=us".into(), patch);
    let harmless = us(json!({"rate": 5}));
    let operation = |operation: Value| json!({"clusterSelector": "region=us", "jsonPatch": [operation]});
    let second = |item: Value| json!([harmless, item]).to_string();
    vec![
        ("not JSON", "no-json", "region=us: {rate: 5}".to_owned()),
        ("not a list", "no-list", harmless.to_string()),
        ("an item that is not an object", "no-object", second(json!("region=us"))),
        ("no selector", "no-selector", second(json!({"patch": {"rate": 5}}))),
        ("no patch", "no-patch", second(json!({"clusterSelector": "region=us"}))),
        (
            "two patches",
            "two-patches",
            second(json!({"clusterSelector": "region=us", "patch": {"rate": 5}, "jsonPatch": []})),
        ),
        (
            "an unknown operation",
            "unknown-op",
            second(operation(json!({"op": "copy", "path": "/rate", "value": 5}))),
        ),
        (
            "a path that the spec does not have",
            "no-path",
            second(operation(json!({"op": "remove", "path": "/rates"}))),
        ),
        (
            "a failed test",
            "failed-test",
            second(operation(json!({"op": "test", "path": "/rate", "value": 6}))),
        ),
        ("an unknown key", "unknown-key", second(json!({"clusterSelector": "region=us", "path": {}}))),
        (
            "a duplicate key",
            "twice",
            r#"[{"clusterSelector": "a", "patch": {"rate": 5, "rate": 6}}]"#.to_owned(),
        ),
        ("a selector that is not a string", "labels", second(selecting(json!({"region": "us"}), json!({})))),
        ("an invalid selector", "selector", second(selecting("region in us".into(), json!({})))),
        ("a patch that is not an object", "list", second(us(json!([{"op": "remove", "path": "/rate"}])))),
        ("a patch of the target references", "retargets", second(us(json!({"targetRef": {"name": "api"}})))),
        ("101 overrides", "many", Value::from(vec![harmless.clone(); 101]).to_string()),
        ("a value of the wrong type", "type", second(us(json!({"rate": "5"})))),
        ("a value outside the schema's range", "limit", second(us(json!({"rate": 0})))),
        (
            "an integer past 64 bits",
            "large",
            r#"[{"clusterSelector": "", "patch": {"rate": 1e30}}]"#.to_owned(),
        ),
        ("a field that the kind does not have", "unknown-field", second(us(json!({"rates": {"a": 5}})))),
        ("a patch that removes a required field", "required", second(us(json!({"rate": null})))),
    ]
}

#[tokio::test]
async fn messages_for_invalid_overrides() -> Result<()> {
    let tenant = tenant("bad-overrides", &["us-1", "eu-1"]).await?;
    tenant.apply(&typed_definition(GROUP, &json!({"type": "integer", "minimum": 1}))).await?;
    let mut kinds = policy_sync_testenv::tenant::all_kinds();
    let kind = json!({"group": GROUP, "version": "v1", "resource": "typedpolicies"});
    kinds["policiesToSync"].as_array_mut().context("policiesToSync is not a list")?.push(kind);
    tenant.parameters(&kinds).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let _controller = tenant.controller().await?;
    let mut rows = Vec::new();
    for (input, name, overrides) in cases() {
        let mut policy = typed_policy(GROUP, tenant.name(), name);
        policy["metadata"]["annotations"]["kuadrant.io/cluster-overrides"] = overrides.into();
        apply_once_served(&tenant, &policy).await?;
        rows.push(is_reported(&tenant, input, REPORTED_IN, &policy).await?);
    }
    syncs_changes(&tenant, &limits).await?;
    holds("overrides", &rows)
}
