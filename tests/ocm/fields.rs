//! `statusFields`: additional status values requested by the parameters.

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use policy_sync_testenv::apply::api_for;
use policy_sync_testenv::fixtures::{rate_limit_policy, timeout_policy};
use policy_sync_testenv::{Fleet, FleetOptions, Tenant};
use serde_json::{Value, json};

use crate::{downstream, tenant};

#[tokio::test]
async fn configured_status_fields_are_reported() -> Result<()> {
    let (tenant, _) = tenant("fields", &["eu-1"]).await?;
    let field = |name: &str, path: &str| json!({"name": name, "path": path});
    tenant
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
    let _controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let (entries, _) = tenant.until_folded(&limits, |_, summary| summary.enforced == 1).await?;
    let expected = json!({"generation": 1, "why": "Enforced", "window": "10s", "from": "fields/limits"});
    ensure!(json!(entries[0].fields) == expected, "{entries:?}");
    Ok(())
}

/// The agent can read every path that the parameters accept. An unreadable path would make the agent drop all
/// other values too.
#[tokio::test]
async fn accepted_paths_are_read_by_the_agent() -> Result<()> {
    let (tenant, _) = tenant("paths", &["eu-1"]).await?;
    let paths = [
        (".metadata.name", json!("limits")),
        (".spec.targetRef.kind", json!("Gateway")),
        (".spec['targetRef'].kind", json!("Gateway")),
        (".spec['targetRef']['kind']", json!("Gateway")),
        (".spec.limits.all.rates[0].limit", json!(10)),
        (".spec.limits['all'].rates[0]['window']", json!("10s")),
        (r".metadata.annotations.kuadrant\.io/policy-synced", json!("paths/limits")),
        (r".metadata.annotations['kuadrant\.io/policy-synced']", json!("paths/limits")),
        (".status.conditions[?(@.type==\"Accepted\")].status", json!("True")),
        (".status.conditions[?(@.type=='Accepted')].status", json!("True")),
        (".status.conditions[?(@.reason==\"Enforced\")].type", json!("Enforced")),
        (".metadata.labels.a-b_c", json!("dashes")),
    ];
    let fields: Vec<_> = paths
        .iter()
        .enumerate()
        .map(|(index, (path, _))| json!({"name": format!("f{index}"), "path": path}))
        .collect();
    tenant
        .parameters(&json!({"policiesToSync": [{
            "group": "kuadrant.io", "version": "v1", "resource": "ratelimitpolicies", "statusFields": fields,
        }]}))
        .await?;
    let _controller = tenant.controller().await?;
    let mut limits = rate_limit_policy(tenant.name(), "limits", "web");
    limits["metadata"]["labels"] = json!({"a-b_c": "dashes"});
    tenant.apply(&limits).await?;
    let (entries, _) = tenant.until_folded(&limits, |_, summary| summary.enforced == 1).await?;
    for (index, (path, expected)) in paths.iter().enumerate() {
        let found = entries[0].fields.get(&format!("f{index}"));
        ensure!(found == Some(expected), "{path} gave {found:?}");
    }
    Ok(())
}

/// Long text with special characters from a spoke passes through the agent and is truncated on the hub.
#[tokio::test]
async fn long_and_unusual_text_of_a_spoke_blocks_nothing() -> Result<()> {
    let (tenant, fleet) = tenant("odd-text", &["eu-1"]).await?;
    tenant
        .parameters(&json!({"policiesToSync": [{
            "group": "kuadrant.io", "version": "v1", "resource": "ratelimitpolicies",
            "statusFields": [{"name": "note", "path": r".metadata.annotations.example\.com/note"}],
        }]}))
        .await?;
    let _controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_folded(&limits, |_, summary| summary.enforced == 1).await?;
    let spoke = fleet.spoke("eu-1")?.client()?;
    let (api, name) = api_for(&spoke, &downstream(&limits)).await?;
    let odd = "\"'\\\n\t\u{1b}[31m{}<&>é😀";
    // A value that makes the entry too long is left out, and the entry has `cut`.
    for (note, is_told) in [(odd.to_owned(), true), (odd.repeat(250), false)] {
        let patch = json!({"metadata": {"annotations": {"example.com/note": note}}});
        api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        let (entries, _) = tenant
            .until_folded(&limits, |entries, _| {
                let found = entries[0].fields.get("note").and_then(|value| value.as_str());
                entries[0].cut != is_told && found == is_told.then_some(&*note)
            })
            .await?;
        ensure!(entries[0].applied && !entries[0].pending, "{entries:?}");
    }
    Ok(())
}

/// A TimeoutPolicy with one value of each type in its spec, and parameters with a status field for each value.
fn typed(tenant: &Tenant<'_>) -> (Value, Value) {
    let mut timeouts = timeout_policy(tenant.name(), "timeouts", &["web"]);
    timeouts["spec"]["sample"] = json!({
        "text": "a", "number": -7, "flag": false, "list": [{"name": "x"}, null], "half": 0.5,
        "long": ["x".repeat(1021)],
    });
    let names = ["text", "number", "flag", "list", "half", "long", "absent"];
    let fields = names.map(|name| json!({"name": name, "path": format!(".spec.sample.{name}")}));
    let parameters = json!({"policiesToSync": [{
        "group": "policies.example.com", "version": "v1alpha1", "resource": "timeoutpolicies",
        "statusFields": fields,
    }]});
    (timeouts, parameters)
}

#[tokio::test]
async fn values_that_the_agent_drops_are_listed() -> Result<()> {
    let (tenant, _) = tenant("dropped", &["eu-1"]).await?;
    let (timeouts, parameters) = typed(&tenant);
    tenant.parameters(&parameters).await?;
    let controller = tenant.controller().await?;
    tenant.apply(&timeouts).await?;
    let (entries, _) = tenant.until_folded(&timeouts, |_, summary| summary.enforced == 1).await?;
    let expected = json!({"text": "a", "number": -7, "flag": false});
    ensure!(json!(entries[0].fields) == expected, "{entries:?}");
    ensure!(entries[0].dropped == ["half", "list", "long"], "{entries:?}");
    tenant.settled(&controller).await.map(drop)
}

#[tokio::test]
async fn raw_feedback_returns_lists_and_objects() -> Result<()> {
    let options = FleetOptions { raw_feedback: true, ..FleetOptions::spokes(["eu-1"]) };
    let fleet = Fleet::start(options).await?;
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_policy-sync"));
    let tenant = Tenant::new(fleet.hub(), binary, "raw", &["eu-1"]).await?;
    let (timeouts, parameters) = typed(&tenant);
    tenant.parameters(&parameters).await?;
    let _controller = tenant.controller().await?;
    tenant.apply(&timeouts).await?;
    let (entries, _) = tenant.until_folded(&timeouts, |_, summary| summary.enforced == 1).await?;
    let expected =
        json!({"text": "a", "number": -7, "flag": false, "list": [{"name": "x"}, null], "half": 0.5});
    ensure!(json!(entries[0].fields) == expected, "{entries:?}");
    ensure!(entries[0].dropped == ["long"], "{entries:?}");
    Ok(())
}
