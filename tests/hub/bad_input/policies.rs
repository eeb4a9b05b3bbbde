//! Invalid policies, and unusual policies that are synced.

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::apply;
use policy_sync_testenv::fixtures::{self, gateway, rate_limit_policy, timeout_policy};
use policy_sync_testenv::tenant::Tenant;
use serde_json::{Value, json};

use super::page::{Row, holds};
use super::{syncs_changes, until_event, until_message, until_no_message};
use crate::kinds::{apply_once_served, definition_of};
use crate::tenant;

pub(super) const REPORTED_IN: &str = "Event, annotation `kuadrant.io/policy-sync-message`; frozen";
const SYNCED: &str = "it is synced";

/// A kind whose schema accepts any spec, as the schemas of older kinds do.
fn loose_definition() -> Value {
    let anything = json!({"x-kubernetes-preserve-unknown-fields": true});
    let mut spec = anything.clone();
    spec["properties"] = json!({"targetRef": anything, "targetRefs": anything});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": schema}]);
    definition_of("loose.example.com", "LoosePolicy", "loosepolicies", &versions)
}

fn loose(namespace: &str, name: &str, spec: Value) -> Value {
    let metadata = json!({"name": name, "namespace": namespace});
    json!({"apiVersion": "loose.example.com/v1", "kind": "LoosePolicy", "metadata": metadata, "spec": spec})
}

fn web() -> Value {
    json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"})
}

/// Invalid policies: description of the fault, and the policy.
fn invalid_policies(namespace: &str) -> Vec<(&'static str, Value)> {
    let loose = |name: &str, spec: Value| loose(namespace, name, spec);
    let deep = (0..110).fold(json!(1), |inner, _| json!([inner]));
    let selectors = [
        ("an invalid selector", "selector", "region in us"),
        ("a selector with an extra operator", "operator", "region==us==eu"),
        ("a selector that ends with a comma", "comma", "region=us,"),
        ("a selector without an opening parenthesis", "list", "region in us)"),
        ("a selector with an unknown operator", "word", "region isin (us)"),
        ("a selector with an invalid label value", "value", "region in (us, e u)"),
    ];
    let selectors =
        selectors.map(|(input, name, selector)| (input, name, "kuadrant.io/cluster-selector", selector));
    let of_federation = [
        ("a federation selector that is not JSON", "no-json", "region=us"),
        (
            "a federation selector with an unknown operator",
            "near",
            r#"[{"key": "region", "operator": "Near", "values": ["us"]}]"#,
        ),
        (
            "a federation selector without required values",
            "no-values",
            r#"[{"key": "region", "operator": "Exists"}, {"key": "region", "operator": "In"}]"#,
        ),
    ];
    let of_federation = of_federation.map(|(input, name, selector)| {
        (input, name, "federation.alpha.kubernetes.io/cluster-selector", selector)
    });
    let selecting = selectors.into_iter().chain(of_federation).map(|(input, name, key, selector)| {
        let mut policy = rate_limit_policy(namespace, name, "web");
        policy["metadata"]["annotations"][key] = selector.into();
        (input, policy)
    });
    let mut invalid_policies = vec![
        ("`targetRef` is a string", loose("string", json!({"targetRef": "web"}))),
        ("`targetRef` is a number", loose("number", json!({"targetRef": 5}))),
        ("`targetRef` is a list", loose("list", json!({"targetRef": [web()]}))),
        (
            "`targetRef` has no name",
            loose(
                "nameless",
                json!({"targetRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway"}}),
            ),
        ),
        ("`targetRefs` is an object", loose("object", json!({"targetRefs": web()}))),
        ("one of `targetRefs` is null", loose("null-inside", json!({"targetRefs": [web(), null]}))),
        ("`spec` is a string", loose("text", json!("text"))),
        ("lists nested 110 deep", loose("deep", json!({"targetRef": web(), "deep": deep}))),
        ("a policy of 600 KB", loose("large", json!({"targetRef": web(), "blob": "x".repeat(600_000)}))),
    ];
    invalid_policies.extend(selecting);
    invalid_policies
}

/// Unusual policies that are synced to `eu-1`: description, and the policy.
fn synced(namespace: &str) -> Vec<(&'static str, Value)> {
    let mut references =
        vec![json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "elsewhere"}); 9_999];
    references.push(web());
    vec![
        ("a name of 253 characters", rate_limit_policy(namespace, &"n".repeat(253), "web")),
        (
            "10,000 `targetRefs`, one of them placed",
            loose(namespace, "many", json!({"targetRefs": references})),
        ),
        (
            "both `targetRef` and `targetRefs`",
            loose(namespace, "both", json!({"targetRef": web(), "targetRefs": [web()]})),
        ),
    ]
}

#[tokio::test]
async fn messages_for_invalid_policies() -> Result<()> {
    let tenant = tenant("shop", &["eu-1"]).await?;
    tenant.apply(&loose_definition()).await?;
    let loose_kind = json!({"group": "loose.example.com", "version": "v1", "resource": "loosepolicies"});
    let mut kinds = policy_sync_testenv::tenant::all_kinds();
    kinds["policiesToSync"].as_array_mut().context("policiesToSync is not a list")?.push(loose_kind);
    tenant.parameters(&kinds).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let _controller = tenant.controller().await?;
    let mut rows = Vec::new();
    for (input, policy) in invalid_policies(tenant.name()) {
        apply_once_served(&tenant, &policy).await?;
        rows.push(is_reported(&tenant, input, REPORTED_IN, &policy).await?);
    }
    let mut elsewhere = timeout_policy(tenant.name(), "elsewhere", &["web", "web"]);
    elsewhere["spec"]["targetRefs"][1]["namespace"] = json!("elsewhere");
    tenant.apply(&fixtures::namespace("elsewhere")).await?;
    tenant.apply(&gateway("elsewhere", "web", tenant.name(), None)).await?;
    tenant.apply(&elsewhere).await?;
    let place = "Event, annotation `kuadrant.io/policy-sync-message`; the rest is synced";
    rows.push(is_reported(&tenant, "a target Gateway in another namespace", place, &elsewhere).await?);
    tenant.until_work("eu-1", "timeoutpolicy-elsewhere", |_| true).await?;

    let nothing = loose(tenant.name(), "null", json!({"targetRef": null}));
    tenant.apply(&nothing).await?;
    for (input, policy) in synced(tenant.name()) {
        tenant.apply(&policy).await?;
        tenant.until_folded(&policy, |entries, _| entries.len() == 1).await?;
        until_no_message(&tenant, &policy).await?;
        rows.push(Row { input, place: SYNCED, reason: String::new(), message: String::new() });
    }
    let annotations = tenant.annotations(&nothing).await?;
    ensure!(annotations.is_empty(), "{annotations:?}");
    let place = "it targets nothing and is not synced";
    rows.push(Row { input: "`targetRef` is null", place, reason: String::new(), message: String::new() });
    let many = tenant.work("eu-1", "loosepolicy-many").await?;
    let references = many.spec.workload.manifests[1].0["spec"]["targetRefs"].clone();
    ensure!(references == json!([web()]), "{references}");
    syncs_changes(&tenant, &limits).await?;
    holds("policies", &rows)
}

pub(super) async fn is_reported(
    tenant: &Tenant<'_>,
    input: &'static str,
    place: &'static str,
    policy: &Value,
) -> Result<Row> {
    let message = until_message(tenant, policy).await?;
    let (reason, _) = until_event(tenant, policy, &message).await?;
    Ok(Row { input, place, reason, message })
}

#[tokio::test]
async fn messages_for_policies_in_reserved_and_long_namespaces() -> Result<()> {
    let tenant = tenant("namespaces", &["eu-1"]).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let _controller = tenant.controller().await?;
    let mut rows = Vec::new();
    for (input, namespace) in [
        ("a policy in a namespace of 63 characters", "n".repeat(63)),
        ("a policy in the namespace `system`", "system".to_owned()),
    ] {
        let policy = in_namespace(&tenant, &namespace).await?;
        rows.push(is_reported(&tenant, input, REPORTED_IN, &policy).await?);
    }
    let policy = in_namespace(&tenant, "kube-system").await?;
    tenant.until_folded(&policy, |entries, _| entries[0].namespace == "kuadrant-kube-system").await?;
    until_no_message(&tenant, &policy).await?;
    let (reason, message) = Default::default();
    rows.push(Row { input: "a policy in the namespace `kube-system`", place: SYNCED, reason, message });
    syncs_changes(&tenant, &limits).await?;
    holds("namespaces", &rows)
}

/// Creates a policy and a placed Gateway of the tenant's class in another namespace.
async fn in_namespace(tenant: &Tenant<'_>, namespace: &str) -> Result<Value> {
    let policy = rate_limit_policy(namespace, "odd", "web");
    let decision = fixtures::placement_decision(namespace, "all", 1, &["eu-1"]);
    let placement = fixtures::placement(namespace, "all", 1);
    let gateway = gateway(namespace, "web", tenant.name(), Some("all"));
    apply::apply(tenant.client(), &fixtures::namespace(namespace)).await?;
    for object in [&decision, &placement] {
        apply::apply_with_status(tenant.client(), object).await?;
    }
    tenant.apply(&gateway).await?;
    tenant.apply(&policy).await?;
    Ok(policy)
}

#[tokio::test]
async fn message_for_policies_of_a_class_with_invalid_parameters() -> Result<()> {
    let tenant = tenant("classes", &["eu-1"]).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let _controller = tenant.controller().await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == 1).await?;
    let mut rows = Vec::new();

    tenant.parameters(&json!({"downstreamClass": 5})).await?;
    rows.push(
        is_reported(&tenant, "a policy of a class with invalid parameters", REPORTED_IN, &limits).await?,
    );
    tenant.parameters(&policy_sync_testenv::tenant::all_kinds()).await?;
    syncs_changes(&tenant, &limits).await?;
    holds("classes", &rows)
}
