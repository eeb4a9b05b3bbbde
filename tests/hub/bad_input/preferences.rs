//! Invalid preferences for splitting replicas among clusters.

use anyhow::Result;
use policy_sync_testenv::fixtures::{rate_limit_policy, resources, workload};
use serde_json::{Value, json};

use super::page::holds;
use super::policies::{REPORTED_IN, is_reported};
use super::syncs_changes;
use crate::tenant;

/// Description of the fault, name of the object, and the preferences.
const CASES: [(&str, &str, &str); 12] = [
    ("not JSON", "no-json", "c1=1"),
    ("a list", "list", r#"[{"c1": {"weight": 1}}]"#),
    ("no clusters", "no-clusters", r#"{"rebalance": true}"#),
    ("`clusters` as a list", "clusters", r#"{"clusters": ["c1"]}"#),
    ("a cluster as a number", "number", r#"{"clusters": {"c1": 1}}"#),
    ("a weight as a string", "string", r#"{"clusters": {"c1": {"weight": "2"}}}"#),
    ("a negative weight", "below", r#"{"clusters": {"c1": {"weight": -1}}}"#),
    ("a fraction of a replica", "part", r#"{"clusters": {"*": {"minReplicas": 0.5}}}"#),
    ("a weight past 64 bits", "large", r#"{"clusters": {"c1": {"weight": 1e30}}}"#),
    (
        "`minReplicas` above `maxReplicas`",
        "bounds",
        r#"{"clusters": {"c1": {"minReplicas": 3, "maxReplicas": 2}}}"#,
    ),
    ("an unknown key", "unknown-key", r#"{"clusters": {"c1": {"wieght": 1}}}"#),
    ("`rebalance` as a string", "rebalance", r#"{"clusters": {"c1": {}}, "rebalance": "yes"}"#),
];

/// A ReplicationController with these preferences. No other test uses this kind, because a class selects objects of all
/// namespaces.
fn controller(namespace: &str, name: &str, preferences: &str) -> Value {
    let mut object = workload("ReplicationController", namespace, name);
    object["apiVersion"] = "v1".into();
    object["spec"]["selector"] = json!({"app": name});
    object["metadata"]["annotations"] =
        json!({"federation.kubernetes.io/replica-set-preferences": preferences});
    object
}

#[tokio::test]
async fn messages_for_invalid_preferences() -> Result<()> {
    let tenant = tenant("bad-preferences", &["eu-1"]).await?;
    let mut kinds = policy_sync_testenv::tenant::all_kinds();
    kinds["resourcesToSync"] = json!([resources("", "replicationcontrollers")]);
    tenant.parameters(&kinds).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let _controller = tenant.controller().await?;
    let mut rows = Vec::new();
    for (input, name, preferences) in CASES {
        let object = controller(tenant.name(), name, preferences);
        tenant.apply(&object).await?;
        rows.push(is_reported(&tenant, input, REPORTED_IN, &object).await?);
    }
    syncs_changes(&tenant, &limits).await?;
    holds("preferences", &rows)
}
