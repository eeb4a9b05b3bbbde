//! Kinds in the parameters that cannot be synced.

use anyhow::Result;
use policy_sync_testenv::fixtures::{gateway_class, params_config_map, rate_limit_policy};
use policy_sync_testenv::tenant::rate_limit_policies;
use serde_json::{Value, json};

use super::page::{Row, holds};
use super::{syncs_changes, until_refused};
use crate::kinds::{limited, limited_controller};
use crate::tenant;

const PLACE: &str = "GatewayClass, `PoliciesResolved=False`";

fn gvr(group: &str, version: &str, resource: &str) -> Value {
    json!({"group": group, "version": version, "resource": resource})
}

/// Description of the fault, name of the class, and its parameters.
fn cases() -> Vec<(&'static str, &'static str, Value)> {
    let resource = |group: &str, resource: &str| json!({"resourcesToSync": [gvr(group, "v1", resource)]});
    let resources = [
        ("Secrets in `resourcesToSync`", "secrets", resource("", "secrets")),
        ("RBAC kinds in `resourcesToSync`", "rights", resource("rbac.authorization.k8s.io", "rolebindings")),
        (
            "ManifestWorks in `resourcesToSync`",
            "works",
            resource("work.open-cluster-management.io", "manifestworks"),
        ),
        ("a cluster-scoped kind in `resourcesToSync`", "nodes", resource("", "nodes")),
        ("a kind without stored objects in `resourcesToSync`", "bindings", resource("", "bindings")),
        ("a policy kind in `resourcesToSync`", "both", resource("kuadrant.io", "ratelimitpolicies")),
        ("a singular name instead of the plural", "singular", resource("apps", "deployment")),
    ];
    policies()
        .into_iter()
        .map(|(input, class, kinds)| (input, class, json!({ "policiesToSync": kinds })))
        .chain(resources)
        .collect()
}

/// Cases for `policiesToSync`: description, name of the class, and the kinds.
fn policies() -> Vec<(&'static str, &'static str, Vec<Value>)> {
    let missing = (1..=12).map(|index| gvr("example.com", "v1", &format!("missing{index:02}"))).collect();
    vec![
        ("a kind that the hub does not serve", "unknown", vec![gvr("example.com", "v1", "nothings")]),
        ("twelve such kinds", "twelve", missing),
        (
            "a version that is not served",
            "unserved",
            vec![gvr("policies.example.com", "v9", "timeoutpolicies")],
        ),
        (
            "another class's kind, in a version that is not served",
            "other-version",
            vec![gvr("kuadrant.io", "v9", "ratelimitpolicies")],
        ),
        (
            "a cluster-scoped kind",
            "cluster-scoped",
            vec![gvr("gateway.networking.k8s.io", "v1", "gatewayclasses")],
        ),
        (
            "a kind without target references",
            "no-policy",
            vec![gvr("gateway.networking.k8s.io", "v1", "gateways")],
        ),
        ("a built-in kind", "built-in", vec![gvr("apps", "v1", "deployments")]),
        (
            "a kind that the controller may not read",
            "forbidden-kind",
            vec![gvr("kuadrant.io", "v1", "authpolicies")],
        ),
        (
            "an unknown kind beside a valid one",
            "mixed",
            vec![rate_limit_policies(), gvr("example.com", "v1", "others")],
        ),
    ]
}

#[tokio::test]
async fn messages_for_kinds_that_cannot_be_synced() -> Result<()> {
    let tenant = tenant("kinds", &["eu-1"]).await?;
    tenant.parameters(&json!({"policiesToSync": [rate_limit_policies()]})).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let user = limited(&tenant, &["get", "list", "watch", "patch"]).await?;
    let _controller = limited_controller(&tenant, user).await?;
    tenant.until_work("eu-1", "ratelimitpolicy-limits", |_| true).await?;
    let mut rows = Vec::new();
    for (input, class, parameters) in cases() {
        tenant.apply(&params_config_map(tenant.name(), class, &parameters)).await?;
        tenant.apply(&gateway_class(class, &tenant.controller_name(), Some((tenant.name(), class)))).await?;
        let (reason, message) = until_refused(&tenant, class, "PoliciesResolved").await?;
        rows.push(Row { input, place: PLACE, reason, message });
        tenant.delete(&gateway_class(class, &tenant.controller_name(), None)).await?;
    }
    syncs_changes(&tenant, &limits).await?;
    holds("kinds", &rows)
}
