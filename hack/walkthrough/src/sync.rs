//! The steps of the sync demo. Each step writes objects as a user does, and waits for the expected result.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject};
use policy_sync_api::annotations::{
    CLUSTER_OVERRIDES, GATEWAY_CLUSTERS, GRACE_TIMEOUT, MANAGED, POLICY_SYNCED, REVISION, Synced,
};
use policy_sync_sync::PLACEMENT_SETTLE_TIME;
use serde_json::{Value, json};

use super::demo::Demo;
use super::look::{self, Fold};
use super::report::Report;
use policy_sync_testenv::apply::{api_for, apply, apply_all, apply_with_status};
use policy_sync_testenv::fixtures;

/// The spokes.
pub(super) const SPOKES: [&str; 2] = ["eu-1", "us-1"];
/// The namespace on the hub.
pub(super) const SHOP: &str = "shop";
/// The corresponding namespace on the spokes.
pub(super) const DOWNSTREAM: &str = "kuadrant-shop";

/// Runs all steps.
pub(super) async fn run_steps(demo: &Demo, report: &Report) -> Result<()> {
    configure(demo, report).await?;
    write_a_policy(demo, report).await?;
    read_statuses(demo, report).await?;
    read_the_gateway(demo, report).await?;
    override_on_a_spoke(demo, report).await?;
    delete_override(demo, report).await?;
    change_the_policy(demo, report).await?;
    differ_on_a_cluster(demo, report).await?;
    unplace_a_cluster(demo, report).await?;
    delete(demo, report).await
}

/// Runs only the first steps: the policy is on both spokes, and a local policy overrides it on one spoke.
pub(super) async fn overridden(demo: &Demo, report: &Report) -> Result<()> {
    configure(demo, report).await?;
    write_a_policy(demo, report).await?;
    read_statuses(demo, report).await?;
    override_on_a_spoke(demo, report).await
}

fn class() -> Value {
    fixtures::gateway_class(
        "multi-cluster",
        "kuadrant.io/policy-sync",
        Some(("policy-sync", "multi-cluster")),
    )
}

/// Grace period of the Gateway on clusters where the Gateway is no longer placed.
const GRACE: Duration = Duration::from_secs(5);

pub(super) fn gateway() -> Value {
    let mut gateway = fixtures::gateway(SHOP, "web", "multi-cluster", Some("everywhere"));
    gateway["metadata"]["annotations"][GRACE_TIMEOUT] = GRACE.as_secs().to_string().into();
    gateway
}

fn policy(limit: u32) -> Value {
    let mut policy = fixtures::rate_limit_policy(SHOP, "limits", "web");
    policy["spec"]["limits"]["all"]["rates"][0]["limit"] = limit.into();
    policy
}

/// The name and namespace of an object on the spokes.
fn downstream(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["namespace"] = DOWNSTREAM.into();
    object
}

pub(super) async fn place(demo: &Demo, clusters: &[&str]) -> Result<()> {
    let hub = demo.hub()?;
    let placement = fixtures::placement(SHOP, "everywhere", clusters.len());
    let decision = fixtures::placement_decision(SHOP, "everywhere", 0, clusters);
    for object in [decision, placement] {
        apply_with_status(&hub, &object).await?;
    }
    Ok(())
}

async fn configure(demo: &Demo, report: &Report) -> Result<()> {
    report.step("The platform team selects the policy kinds to sync, and the clusters");
    let hub = demo.hub()?;
    let parameters = json!({
        "downstreamClass": "istio",
        "policiesToSync": [{
            "group": "kuadrant.io",
            "version": "v1",
            "resource": "ratelimitpolicies",
            "statusFields": [{ "name": "generation", "path": ".status.observedGeneration" }],
        }],
        "policyWaitSeconds": 10,
        "policyWaitAction": "hold",
    });
    let namespaces = [fixtures::namespace("policy-sync"), fixtures::namespace(SHOP)];
    apply_all(&hub, &namespaces).await?;
    apply(&hub, &fixtures::params_config_map("policy-sync", "multi-cluster", &parameters)).await?;
    apply(&hub, &class()).await?;
    report.print(
        "GatewayClass multi-cluster, of the controller kuadrant.io/policy-sync, with these parameters:",
    );
    report.excerpt(&parameters);
    place(demo, &SPOKES).await?;
    report.print("Placement shop/everywhere; its decisions: eu-1, us-1");
    for kind in ["Accepted", "PoliciesResolved"] {
        let what = format!("GatewayClass multi-cluster is {kind}");
        let condition = |class: &_| look::condition(class, kind).unwrap_or_else(|| "nothing".into());
        look::there(&hub, &what, &class(), |class| {
            let text = condition(class);
            ensure!(text.starts_with("True"), "the result is {text}");
            Ok(())
        })
        .await?;
        report.print_result(&format!("GatewayClass multi-cluster: {kind}=True"));
    }
    Ok(())
}

async fn write_a_policy(demo: &Demo, report: &Report) -> Result<()> {
    report.step("A team creates a Gateway and a RateLimitPolicy, only on the hub");
    let hub = demo.hub()?;
    let (gateway, policy) = (gateway(), policy(10));
    report.excerpt(&json!({
        "kind": policy["kind"],
        "metadata": { "namespace": SHOP, "name": policy["metadata"]["name"] },
        "spec": { "targetRef": { "kind": "Gateway", "name": "web" }, "limits": policy["spec"]["limits"] },
    }));
    apply_all(&hub, [&gateway, &policy]).await?;
    try_join_all(SPOKES.map(|spoke| copies_arrive(demo, report, spoke))).await?;
    let copy = look::there(&demo.spoke("eu-1")?, "the copy exists on eu-1", &downstream(&policy), |_| Ok(()))
        .await?;
    report.print("the copy on eu-1, which targets the Gateway there:");
    report.excerpt(&json!({
        "kind": "RateLimitPolicy",
        "metadata": {
            "namespace": copy.namespace(),
            "name": copy.name_any(),
            "annotations": { POLICY_SYNCED: copy.annotations().get(POLICY_SYNCED) },
        },
        "spec": { "targetRef": { "kind": "Gateway", "name": copy.data["spec"]["targetRef"]["name"] } },
    }));
    Ok(())
}

async fn copies_arrive(demo: &Demo, report: &Report, spoke: &str) -> Result<()> {
    let client = demo.spoke(spoke)?;
    let a_gateway = async {
        let what = format!("the copy of the Gateway exists on {spoke}");
        look::there(&client, &what, &downstream(&gateway()), |copy| {
            ensure!(copy.data["spec"]["gatewayClassName"] == "istio", "the class is not istio");
            ensure!(copy.labels().get(MANAGED).is_some_and(|value| value == "true"), "no label {MANAGED}");
            Ok(())
        })
        .await?;
        report.print_result(&format!("{spoke}: Gateway {DOWNSTREAM}/web, of class istio"));
        anyhow::Ok(())
    };
    let a_policy = policy_arrives(demo, report, spoke, 10);
    tokio::try_join!(a_gateway, a_policy).map(drop)
}

pub(super) async fn policy_arrives(demo: &Demo, report: &Report, spoke: &str, limit: u32) -> Result<()> {
    let what = format!("the copy of the RateLimitPolicy exists on {spoke}");
    look::there(&demo.spoke(spoke)?, &what, &downstream(&policy(limit)), |copy| {
        let spec = &copy.data["spec"];
        let found = &spec["limits"]["all"]["rates"][0]["limit"];
        ensure!(*found == limit, "its limit is {found}");
        ensure!(spec["targetRef"]["name"] == "web", "it targets another object");
        ensure!(copy.annotations().contains_key(REVISION), "no annotation {REVISION}");
        let origin = copy.annotations().get(POLICY_SYNCED).context("no annotation with the origin")?;
        ensure!(origin == "shop/limits", "its origin is {origin}");
        Ok(())
    })
    .await?;
    report.print_result(&format!("{spoke}: RateLimitPolicy {DOWNSTREAM}/limits, limit {limit}"));
    Ok(())
}

async fn read_statuses(demo: &Demo, report: &Report) -> Result<()> {
    report.step("The hub policy reports its state on each spoke");
    let fold = look::folded(&demo.hub()?, "both spokes enforce the policy", &policy(10), |fold| {
        clusters(fold, &SPOKES)?;
        ensure!(fold.summary.synced && fold.summary.enforced == 2, "the report is {:?}", fold.summary);
        ensure!(fold.entries.iter().all(|e| e.fields.get("generation") == Some(&json!(1))), "no generation");
        Ok(())
    })
    .await?;
    report.fold(&fold);
    Ok(())
}

async fn read_the_gateway(demo: &Demo, report: &Report) -> Result<()> {
    report.step("The hub Gateway reports its addresses, once every spoke has programmed it");
    let found = programmed(demo).await?;
    let status = &found.data["status"];
    let names = status["listeners"].as_array().into_iter().flatten().map(|listener| &listener["name"]);
    report.excerpt(&json!({
        "kind": "Gateway",
        "metadata": {
            "namespace": SHOP,
            "name": found.name_any(),
            "annotations": { GATEWAY_CLUSTERS: found.annotations().get(GATEWAY_CLUSTERS) },
        },
        "status": {
            "conditions": status["conditions"],
            "addresses": status["addresses"],
            "listeners": names.map(|name| json!({ "name": name })).collect::<Vec<_>>(),
        },
    }));
    Ok(())
}

/// Waits until the Gateway is programmed on both spokes.
pub(super) async fn programmed(demo: &Demo) -> Result<DynamicObject> {
    look::there(&demo.hub()?, "the Gateway is programmed on both spokes", &gateway(), |gateway| {
        let text = look::condition(gateway, "Programmed").unwrap_or_else(|| "nothing".into());
        ensure!(text.starts_with("True"), "the result is {text}");
        ensure!(addressed(gateway) == SPOKES, "its addresses are {}", gateway.data["status"]["addresses"]);
        Ok(())
    })
    .await
}

/// The clusters in a Gateway's addresses.
fn addressed(gateway: &DynamicObject) -> Vec<&str> {
    let addresses = gateway.data["status"]["addresses"].as_array().into_iter().flatten();
    let mut clusters: Vec<&str> =
        addresses.filter_map(|address| Some(address["value"].as_str()?.split_once('/')?.0)).collect();
    clusters.dedup();
    clusters
}

async fn override_on_a_spoke(demo: &Demo, report: &Report) -> Result<()> {
    report.step("Users of us-1 create their own policy for that Gateway, which takes precedence there");
    apply(&demo.spoke("us-1")?, &theirs()).await?;
    let fold = look::folded(&demo.hub()?, "us-1 overrides the policy", &policy(10), |fold| {
        let overridden = |cluster: &str| {
            let entry = fold.entries.iter().find(|entry| &*entry.cluster.0 == cluster);
            entry.is_some_and(|entry| entry.conditions.iter().any(|c| c.is_overridden()))
        };
        ensure!(overridden("us-1"), "us-1 is not overridden");
        ensure!(!overridden("eu-1"), "eu-1 is overridden");
        ensure!(
            (fold.summary.enforced, fold.summary.overridden) == (1, 1),
            "the report is {:?}",
            fold.summary
        );
        Ok(())
    })
    .await?;
    report.fold(&fold);
    Ok(())
}

/// A local policy on us-1, written by the team of this cluster.
pub(super) fn theirs() -> Value {
    fixtures::rate_limit_policy(DOWNSTREAM, "ours", "web")
}

/// Deletes the local policy of us-1.
pub(super) async fn delete_theirs(demo: &Demo) -> Result<()> {
    let (api, name) = api_for(&demo.spoke("us-1")?, &theirs()).await?;
    api.delete(&name, &DeleteParams::default()).await.with_context(|| format!("deleting {name}"))?;
    Ok(())
}

async fn delete_override(demo: &Demo, report: &Report) -> Result<()> {
    report.step("They delete it, and the unchanged copy is enforced again");
    let (hub, us) = (demo.hub()?, demo.spoke("us-1")?);
    delete_theirs(demo).await?;
    let fold = look::folded(&hub, "both spokes enforce the policy again", &policy(10), |fold| {
        let numbers = (fold.summary.enforced, fold.summary.overridden, fold.summary.pending);
        ensure!(numbers == (2, 0, 0), "the report is {:?}", fold.summary);
        Ok(())
    })
    .await?;
    report.fold(&fold);
    look::there(&us, "the copy is unchanged", &downstream(&policy(10)), |copy| {
        let generation = copy.metadata.generation;
        ensure!(generation == Some(1), "its generation is {generation:?}");
        Ok(())
    })
    .await?;
    report.print_result("us-1: RateLimitPolicy kuadrant-shop/limits is still of generation 1");
    Ok(())
}

async fn change_the_policy(demo: &Demo, report: &Report) -> Result<()> {
    report.step("The team raises the limit on the hub, from 10 to 100");
    apply(&demo.hub()?, &policy(100)).await?;
    try_join_all(SPOKES.map(|spoke| policy_arrives(demo, report, spoke, 100))).await?;
    let fold = look::folded(&demo.hub()?, "both spokes report the new limit", &policy(100), |fold| {
        let current = |entry: &_| reported_generation(entry) == Some(2);
        ensure!(fold.summary.pending == 0, "the report is {:?}", fold.summary);
        ensure!(fold.entries.iter().all(current), "a spoke still reports the old limit");
        Ok(())
    })
    .await?;
    report.fold(&fold);
    Ok(())
}

async fn differ_on_a_cluster(demo: &Demo, report: &Report) -> Result<()> {
    report.step("The team overrides the limit for the clusters of one region, in the same policy");
    let differing = differing();
    report.excerpt(&json!({ "metadata": { "annotations": differing["metadata"]["annotations"] } }));
    apply(&demo.hub()?, &differing).await?;
    policy_arrives(demo, report, "us-1", 50).await?;
    policy_arrives(demo, report, "eu-1", 100).await?;
    let fold = look::folded(&demo.hub()?, "us-1 reports its own limit", &differing, |fold| {
        let generations: Vec<_> = fold.entries.iter().map(reported_generation).collect();
        ensure!(fold.summary.pending == 0, "the report is {:?}", fold.summary);
        ensure!(generations == [Some(2), Some(3)], "the generations are {generations:?}");
        Ok(())
    })
    .await?;
    report.fold(&fold);
    Ok(())
}

/// The policy with a different limit for the clusters of one region.
pub(super) fn differing() -> Value {
    let patch = json!({ "limits": { "all": { "rates": [{ "limit": 50, "window": "10s" }] } } });
    let overrides = json!([{ "clusterSelector": "region=us", "patch": patch }]);
    let mut differing = policy(100);
    differing["metadata"]["annotations"][CLUSTER_OVERRIDES] = overrides.to_string().into();
    differing
}

fn reported_generation(entry: &Synced) -> Option<i64> {
    entry.fields.get("generation")?.as_i64()
}

async fn unplace_a_cluster(demo: &Demo, report: &Report) -> Result<()> {
    let settles = PLACEMENT_SETTLE_TIME;
    report.step("The Placement no longer selects us-1, where the Gateway keeps serving for the grace period");
    report
        .print(&format!("(this takes effect when the Placement is unchanged for {settles:?}; users of us-1"));
    report.print("have their own policy there again)");
    let us = demo.spoke("us-1")?;
    apply(&us, &theirs()).await?;
    place(demo, &["eu-1"]).await?;
    let since = look::unplaced_at(&demo.hub()?, "us-1").await?;
    report.print_result(&format!("hub: the Gateway's work for us-1 is marked as unplaced since {since}"));
    for object in [gateway(), policy(100)] {
        look::there(&us, "the copies stay on us-1", &downstream(&object), |_| Ok(())).await?;
    }
    report.print_result(&format!("us-1: the Gateway keeps serving for {GRACE:?}, with its policy"));
    look::gone(&us, "the copy of the Gateway is deleted from us-1", &downstream(&gateway())).await?;
    let took = report.since_step();
    // The timestamp has whole seconds.
    let least = settles + GRACE - Duration::from_secs(1);
    ensure!(took >= least, "us-1 lost its Gateway after {took:?}, before the end of the grace period");
    report.print_result("us-1: Gateway kuadrant-shop/web is deleted");
    look::gone(&us, "the copy of the policy is deleted from us-1", &downstream(&policy(100))).await?;
    report.print_result("us-1: RateLimitPolicy kuadrant-shop/limits is deleted");
    look::there(&demo.hub()?, "the hub Gateway has no address of us-1", &gateway(), |gateway| {
        ensure!(addressed(gateway) == ["eu-1"], "its addresses are {}", gateway.data["status"]["addresses"]);
        Ok(())
    })
    .await?;
    report.print_result("hub: Gateway shop/web has only the addresses of eu-1");
    look::there(&us, "the policy of us-1's users stays", &theirs(), |_| Ok(())).await?;
    report.print_result("us-1: RateLimitPolicy kuadrant-shop/ours, which its users created, still exists");
    look::there(&demo.spoke("eu-1")?, "the copy stays on eu-1", &downstream(&policy(100)), |_| Ok(()))
        .await?;
    let fold = look::folded(&demo.hub()?, "the hub policy lists only eu-1", &policy(100), |fold| {
        clusters(fold, &["eu-1"])?;
        ensure!(fold.summary.synced && fold.summary.enforced == 1, "the report is {:?}", fold.summary);
        Ok(())
    })
    .await?;
    report.fold(&fold);
    Ok(())
}

async fn delete(demo: &Demo, report: &Report) -> Result<()> {
    report.step("The team deletes the policy, then the Gateway");
    let (hub, eu) = (demo.hub()?, demo.spoke("eu-1")?);
    delete_object(demo, &policy(100)).await?;
    look::gone(&eu, "the copy of the policy is deleted from eu-1", &downstream(&policy(100))).await?;
    report.print_result("eu-1: RateLimitPolicy kuadrant-shop/limits is deleted");
    look::there(&eu, "the Gateway stays on eu-1", &downstream(&gateway()), |_| Ok(())).await?;
    look::no_works(&hub, "the policy's works are deleted", &["gateway", "access"]).await?;
    report.print_result("hub: the policy has no ManifestWork any more");
    delete_object(demo, &gateway()).await?;
    look::gone(&eu, "the copy of the Gateway is deleted from eu-1", &downstream(&gateway())).await?;
    report.print_result("eu-1: Gateway kuadrant-shop/web is deleted");
    look::no_works(&hub, "all works are deleted", &[]).await?;
    report.print_result("hub: no ManifestWork exists any more");
    for spoke in SPOKES {
        look::namespace_stays(&demo.spoke(spoke)?, DOWNSTREAM).await?;
    }
    report
        .print_result("eu-1 and us-1: the namespace kuadrant-shop still exists, with the objects of others");
    Ok(())
}

async fn delete_object(demo: &Demo, object: &Value) -> Result<()> {
    let (api, name) = api_for(&demo.hub()?, object).await?;
    api.delete(&name, &DeleteParams::default()).await.with_context(|| format!("deleting {name}"))?;
    Ok(())
}

fn clusters(fold: &Fold, expected: &[&str]) -> Result<()> {
    let found: Vec<&str> = fold.entries.iter().map(|entry| &*entry.cluster.0).collect();
    ensure!(found == expected, "the entries are for {found:?}");
    Ok(())
}
