//! Tests `explain` for each step of a decision: the output names a reason and an object to change, and the change
//! helps.

use anyhow::{Result, ensure};
use policy_sync_testenv::fixtures::topology::{object, targets};
use policy_sync_testenv::fixtures::{gateway, gateway_class, params_config_map, rate_limit_policy};
use policy_sync_testenv::tenant::{LIMIT, WorkReport, all_kinds, auth_policies, rate_limit_policies};
use policy_sync_testenv::wait;
use serde_json::{Value, json};

use crate::status::{reader, status_of};

use super::{LIMITS, check_not_in_force, ends_with, explain_as, silence, tenant, until, web, why};

const LABEL: &str = "label cluster.open-cluster-management.io/placement";

#[tokio::test]
async fn each_reason_why_a_policy_is_not_on_a_cluster_is_explained() -> Result<()> {
    let tenant = tenant("explain-steps", &["ex-eu", "ex-us"], &["ex-eu"]).await?;
    let name = tenant.name();
    let limits = rate_limit_policy(name, "limits", "web");
    tenant.apply(&limits).await?;
    let target = format!("RateLimitPolicy {name}/limits spec.targetRef");
    let params = format!("ConfigMap {name}/params key params");
    let it_targets = format!("It targets Gateway {name}/web of GatewayClass");

    // The Gateway is missing, belongs to another controller's class, or has a class that does not list the kind.
    tenant.apply(&rate_limit_policy(name, "limits", "nothing")).await?;
    check_not_in_force(
        &tenant,
        "ex-eu",
        &format!("It targets Gateway {name}/nothing, which does not exist"),
        &format!("Gateway {name}/nothing, or {target}"),
    )?;
    let mut elsewhere = limits.clone();
    elsewhere["spec"]["targetRef"] =
        json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "web"});
    tenant.apply(&elsewhere).await?;
    check_not_in_force(&tenant, "ex-eu", "It targets no Gateway", &target)?;
    tenant.apply(&limits).await?;
    tenant.apply(&gateway_class("explain-other", "example.com/other", None)).await?;
    tenant.merge(&web(&tenant), &json!({"spec": {"gatewayClassName": "explain-other"}})).await?;
    check_not_in_force(
        &tenant,
        "ex-eu",
        &format!(
            "{it_targets} explain-other, which belongs to another controller: its controllerName is example.com/other, not example.com/{name}"
        ),
        &format!("Gateway {name}/web spec.gatewayClassName, or GatewayClass explain-other"),
    )?;
    tenant.merge(&web(&tenant), &json!({"spec": {"gatewayClassName": name}})).await?;
    tenant.parameters(&json!({"policiesToSync": [auth_policies()]})).await?;
    check_not_in_force(
        &tenant,
        "ex-eu",
        "No GatewayClass of this controller lists its kind, ratelimitpolicies.kuadrant.io",
        &params,
    )?;
    let two = params_config_map(name, "two", &json!({"policiesToSync": [rate_limit_policies()]}));
    tenant.apply(&two).await?;
    let lists = gateway_class("explain-steps-lists", &tenant.controller_name(), Some((name, "two")));
    tenant.apply(&lists).await?;
    check_not_in_force(
        &tenant,
        "ex-eu",
        &format!("{it_targets} {name}, whose parameters do not list ratelimitpolicies.kuadrant.io"),
        &format!("{params}, or Gateway {name}/web spec.gatewayClassName"),
    )?;
    tenant.delete(&lists).await?;

    // Invalid parameters freeze the policy.
    tenant.parameters(&json!({"policiesToSync": 1})).await?;
    let invalid = format!(
        "GatewayClass {name} has invalid parameters: parameters {name}/params: policiesToSync: expected a list, found 1"
    );
    check_not_in_force(
        &tenant,
        "ex-eu",
        &format!("It is frozen, and is not copied there: {invalid}"),
        &params,
    )?;
    let cluster_scoped = json!({"group": "kuadrant.io", "version": "v9", "resource": "ratelimitpolicies"});
    tenant.parameters(&json!({"policiesToSync": [cluster_scoped]})).await?;
    let fault = "kuadrant.io/v9 ratelimitpolicies: the hub serves v1";
    check_not_in_force(
        &tenant,
        "ex-eu",
        &format!("It is frozen, and is not copied there: {fault}"),
        &format!("CustomResourceDefinition ratelimitpolicies.kuadrant.io, or {params}"),
    )?;
    tenant.parameters(&all_kinds()).await?;

    // The Placement does not select the cluster.
    let chosen =
        format!("Placement {name}/all, which places Gateway {name}/web, has not selected the cluster");
    let place = format!("Placement {name}/all, or Gateway {name}/web {LABEL}");
    check_not_in_force(&tenant, "ex-us", &chosen, &place)?;
    tenant.select("all", 2).await?;
    check_not_in_force(
        &tenant,
        "ex-us",
        &format!("{chosen} so far: it has selected 2 clusters, but its PlacementDecisions list 1"),
        &place,
    )?;
    let label = |placement: Value| json!({"metadata": {"labels": {"cluster.open-cluster-management.io/placement": placement}}});
    tenant.merge(&web(&tenant), &label(Value::Null)).await?;
    check_not_in_force(
        &tenant,
        "ex-eu",
        &format!("Gateway {name}/web has no {LABEL}"),
        &format!("Gateway {name}/web {LABEL}"),
    )?;
    tenant.merge(&web(&tenant), &label("none".into())).await?;
    check_not_in_force(
        &tenant,
        "ex-eu",
        &format!("Gateway {name}/web names Placement {name}/none, which does not exist"),
        &format!("Placement {name}/none, or Gateway {name}/web {LABEL}"),
    )?;
    tenant.merge(&web(&tenant), &label("all".into())).await?;
    tenant.place("all", &["ex-eu", "ex-us"]).await?;

    // The selector does not match, or is invalid.
    let selector = |text: &str| json!({"metadata": {"annotations": {"kuadrant.io/cluster-selector": text}}});
    tenant.merge(&limits, &selector("explain=yes")).await?;
    let annotation = format!("RateLimitPolicy {name}/limits annotation kuadrant.io/cluster-selector");
    check_not_in_force(
        &tenant,
        "ex-eu",
        "Its annotation kuadrant.io/cluster-selector, \"explain=yes\", does not select the cluster's labels",
        &format!("{annotation}, or ManagedCluster ex-eu labels"),
    )?;
    tenant.merge(&limits, &selector("explain in")).await?;
    let (code, lines) = why(&tenant, &LIMITS, "ex-eu")?;
    ensure!(
        code == 1
            && lines[0].starts_with(
                "- It is frozen, and is not copied there: annotation kuadrant.io/cluster-selector: "
            ),
        "{lines:#?}"
    );
    ensure!(lines[1] == format!("To change: {annotation}"), "{lines:#?}");
    tenant.merge(&limits, &json!({"metadata": {"annotations": null}})).await?;

    // The only remaining reason is that no controller runs.
    let (code, lines) = why(&tenant, &LIMITS, "ex-eu")?;
    ensure!(
        code == 1
            && lines[0]
                .starts_with("- The controller has not created ManifestWork ex-eu/ratelimitpolicy-limits-"),
        "{lines:#?}"
    );
    Ok(())
}

#[tokio::test]
async fn reports_of_the_cluster_are_explained_until_it_is_enforced() -> Result<()> {
    let tenant = tenant("explain-answers", &["ex-said-1", "ex-said-2"], &["ex-said-1", "ex-said-2"]).await?;
    let (name, cluster) = (tenant.name(), "ex-said-1");
    let limits = rate_limit_policy(name, "limits", "web");
    tenant.apply(&limits).await?;
    let controller = tenant.controller().await?;
    until(&tenant, &LIMITS, cluster, 1, "Its agent has not applied it yet").await?;
    let work = tenant.until_work(cluster, "ratelimitpolicy-limits", |_| true).await?;

    silence(&tenant, cluster, "Unknown").await?;
    let (_, lines) = why(&tenant, &LIMITS, cluster)?;
    let silent = "- The last report of its agent may be outdated, because the cluster is not available (since 2026-01-02T00:00:00Z).";
    ensure!(lines.contains(&silent.to_owned()), "{lines:#?}");
    ensure!(
        lines.last().is_some_and(|line| line == "To change: the agent of cluster ex-said-1"),
        "{lines:#?}"
    );
    silence(&tenant, cluster, "True").await?;

    let copy = format!("RateLimitPolicy kuadrant-{name}/limits on cluster {cluster}");
    tenant.report(&work, &WorkReport::refused("conflict with \"kubectl\"")).await?;
    check_not_in_force(&tenant, cluster, "Its agent could not apply it: conflict with \"kubectl\"", &copy)?;
    tenant
        .report(&work, &WorkReport::applied().condition("Enforced", "False", "Overridden", "by local/limits"))
        .await?;
    ends_with(
        &tenant,
        cluster,
        0,
        "It is overridden by a policy that was created on the cluster: by local/limits",
        "the policies that were created on cluster ex-said-1",
    )?;
    tenant.report(&work, &WorkReport::applied().condition("Enforced", "False", "Unknown", "no wasm")).await?;
    check_not_in_force(
        &tenant,
        cluster,
        "It is applied, but not enforced: Unknown: no wasm",
        &format!("RateLimitPolicy {name}/limits, or {copy}"),
    )?;
    // No controller on the spoke reports whether the policy is enforced.
    for (report, says) in [
        (WorkReport::applied(), "- It is applied there, but no controller reports whether it is enforced.\n"),
        (
            WorkReport::applied().condition("Enforced", "Unknown", "Starting", "no wasm yet"),
            "- It is applied, but its condition Enforced is Unknown: Starting: no wasm yet.\n",
        ),
    ] {
        tenant.report(&work, &report).await?;
        let ran =
            explain_as(tenant.hub().kubeconfig(), &tenant, &[&LIMITS[..], &["--cluster", cluster]].concat());
        let line = format!("policy-sync: no controller reports whether it is enforced on {cluster}\n");
        ensure!((ran.code, &ran.stderr) == (2, &line), "{ran:#?}");
        ensure!(ran.stdout.contains(&format!("\nUnknown on {cluster}:\n{says}")), "{ran:#?}");
        ensure!(!ran.stdout.contains("not enforced"), "{ran:#?}");
    }
    let enforced = WorkReport::applied().condition("Enforced", "True", "Enforced", "");
    tenant.report(&work, &enforced.clone().observed(0, 1)).await?;
    let (code, lines) = why(&tenant, &LIMITS, cluster)?;
    ensure!(
        code == 1 && lines[0].starts_with("- It is applied, but the cluster has not reported"),
        "{lines:#?}"
    );
    tenant.report(&work, &enforced).await?;
    ensure!(why(&tenant, &LIMITS, cluster)? == (0, vec!["- It is enforced there.".to_owned()]));

    // The other cluster has not reported yet.
    let admin = tenant.hub().kubeconfig();
    let ran = explain_as(admin, &tenant, &LIMITS);
    ensure!(
        ran.code == 1 && ran.stdout.contains("\nEnforced on ex-said-1:\n- It is enforced there.\n"),
        "{ran:#?}"
    );
    let work = tenant.until_work("ex-said-2", "ratelimitpolicy-limits", |_| true).await?;
    tenant.report(&work, &enforced).await?;
    let ran = explain_as(admin, &tenant, &LIMITS);
    ensure!(ran.code == 0 && ran.stdout.contains("\nEnforced on ex-said-1, ex-said-2:\n"), "{ran:#?}");
    ensure!(ran.stdout.starts_with(&format!("RateLimitPolicy {name}/limits is for 2 of ")), "{ran:#?}");
    let json = explain_as(admin, &tenant, &[&LIMITS[..], &["-o", "json"]].concat());
    let list: Value = serde_json::from_str(&json.stdout)?;
    ensure!(
        list["inSync"] == true && list["groups"][0]["clusters"] == json!(["ex-said-1", "ex-said-2"]),
        "{list:#}"
    );
    ensure!(
        list["groups"][0]["reasons"][0]["reason"] == "Enforced" && list["steps"][0]["passes"] == true,
        "{list:#}"
    );
    // The user has no right to list routes.
    let rights = [
        (None, "gateway.networking.k8s.io", "gatewayclasses"),
        (None, "gateway.networking.k8s.io", "gateways"),
        (None, "kuadrant.io", "*"),
        (None, "policies.example.com", "*"),
        (None, "cluster.open-cluster-management.io", "*"),
        (None, "work.open-cluster-management.io", "*"),
        (None, "apiextensions.k8s.io", "*"),
        (None, "", "configmaps"),
    ];
    let developer = reader(tenant.hub(), "explain-without-routes", &rights).await;
    let ran = explain_as(&developer, &tenant, &LIMITS);
    let says = "policy-sync: its effect on the hub's routes is unknown: cannot list ";
    ensure!(ran.code == 2 && ran.stderr.starts_with(says) && ran.stderr.contains("HTTPRoute"), "{ran:#?}");
    ensure!(ran.stderr.lines().count() == 1 && ran.stdout.contains("\nEnforced on ex-said-1,"), "{ran:#?}");
    ensure!(ran.stdout.contains("\n- Unknown: cannot list "), "{ran:#?}");
    let yaml = explain_as(admin, &tenant, &[&LIMITS[..], &["--cluster", cluster, "-o", "yaml"]].concat());
    let yaml: Value = serde_saphyr::from_str(&yaml.stdout)?;
    ensure!(yaml["groups"].as_array().is_some_and(|groups| groups.len() == 1), "{yaml:#}");

    // A second run prints the same text, because the cluster does not change.
    let again = [why(&tenant, &LIMITS, cluster)?, why(&tenant, &LIMITS, cluster)?];
    ensure!(again[0] == again[1], "{again:#?}");
    controller.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn gateway_and_its_grace_period_are_explained() -> Result<()> {
    let tenant = tenant("explain-gateway", &["ex-gw-1", "ex-gw-2"], &["ex-gw-1", "ex-gw-2"]).await?;
    let name = tenant.name();
    let grace = json!({"metadata": {"annotations": {"kuadrant.io/grace-timeout": "3600"}}});
    tenant.merge(&web(&tenant), &grace).await?;
    let controller = tenant.controller().await?;
    let web = ["gateway", "web"];
    until(&tenant, &web, "ex-gw-1", 1, "Its agent has not applied it yet").await?;
    for cluster in ["ex-gw-1", "ex-gw-2"] {
        let work = tenant.until_work(cluster, "gateway-web", |_| true).await?;
        let programmed = WorkReport::applied().condition("Accepted", "True", "Accepted", "").condition(
            "Programmed",
            "True",
            "Programmed",
            "",
        );
        tenant.report(&work, &programmed).await?;
    }
    until(&tenant, &web, "ex-gw-1", 0, "It is programmed there.").await?;
    let work = tenant.work("ex-gw-1", "gateway-web").await?;
    let unusable =
        WorkReport::applied().condition("Programmed", "False", "AddressNotUsable", "no such address");
    tenant.report(&work, &unusable).await?;
    until(
        &tenant,
        &web,
        "ex-gw-1",
        1,
        "It is applied, but not programmed: AddressNotUsable: no such address.",
    )
    .await?;

    tenant.place("all", &["ex-gw-1"]).await?;
    let says = format!(
        "The cluster is no longer selected: Gateway {name}/web is kept there for its grace period (until 20"
    );
    let lines = until(&tenant, &["gtw", "web"], "ex-gw-2", 0, &says).await?;
    let change = format!(
        "To change: Placement {name}/all, or Gateway {name}/web annotation kuadrant.io/grace-timeout"
    );
    ensure!(lines.contains(&change), "{lines:#?}");
    let short = json!({"metadata": {"annotations": {"kuadrant.io/grace-timeout": "0"}}});
    tenant.merge(&gateway(name, "web", name, Some("all")), &short).await?;
    until(&tenant, &["Gateway", "web"], "ex-gw-2", 1, "has not selected the cluster.").await?;
    controller.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn gateway_that_waits_for_its_policies_is_explained() -> Result<()> {
    let tenant = tenant("explain-waits", &["ex-waits"], &["ex-waits"]).await?;
    let name = tenant.name();
    let params = json!({"policiesToSync": [rate_limit_policies()], "policyWaitSeconds": 1, "policyWaitAction": "hold"});
    tenant.parameters(&params).await?;
    tenant.apply(&rate_limit_policy(name, "limits", "web")).await?;
    let controller = tenant.controller().await?;
    let says = "It waits for its policies: ratelimitpolicies/limits; longer than policyWaitSeconds, and policyWaitAction is hold.";
    let lines = until(&tenant, &["gateway", "web"], "ex-waits", 1, says).await?;
    let policy = format!("ratelimitpolicies.kuadrant.io {name}/limits on cluster ex-waits");
    let change = format!("To change: {policy}, or ConfigMap {name}/params key params policyWaitAction");
    ensure!(lines.contains(&change), "{lines:#?}");

    // `status` shows the same state once the controller has written the state.
    let admin = tenant.hub().kubeconfig();
    let waits = "(waits for its policies: ratelimitpolicies/limits)";
    for words in [
        &["gateways", "-n", name][..],
        &["gateways", "-n", name, "--cluster", "ex-waits"],
        &["cluster", "ex-waits"],
    ] {
        let words = [words, &["-o", "wide"]].concat();
        wait::until("the status lists the policies that the Gateway waits for", LIMIT, || async {
            let ran = status_of(&tenant, admin, &words);
            ensure!(ran.code == 1 && ran.stdout.contains(waits), "{ran:#?}");
            Ok(())
        })
        .await?;
    }
    let work = tenant.until_work("ex-waits", "ratelimitpolicy-limits", |_| true).await?;
    tenant.report(&work, &WorkReport::applied()).await?;
    until(&tenant, &["gateway", "web"], "ex-waits", 1, "Its agent has not applied it yet.").await?;
    controller.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn effect_of_a_policy_on_the_hubs_routes_is_explained() -> Result<()> {
    let tenant = tenant("explain-routes", &["ex-routes"], &["ex-routes"]).await?;
    let name = tenant.name();
    tenant.apply(&rate_limit_policy(name, "limits", "web")).await?;
    let on_hub = || -> Result<Value> {
        let arguments = [&LIMITS[..], &["-o", "json"]].concat();
        let ran = explain_as(tenant.hub().kubeconfig(), &tenant, &arguments);
        Ok(serde_json::from_str::<Value>(&ran.stdout)?["onHub"]["fates"].take())
    };
    let listener = format!("gateway.gateway.networking.k8s.io:{name}/web#http");
    let expected = json!([{"at": [listener], "fate": "InForce", "paths": 1}]);
    ensure!(on_hub()? == expected, "{}", on_hub()?);
    let route =
        object("HTTPRoute", (name, "orders"), json!({"parentRefs": [{"name": "web"}], "rules": [{}]}));
    tenant.apply(&route).await?;
    let limits = json!({"own": {"rates": [{"limit": 1, "window": "1s"}]}});
    let own = object(
        "RateLimitPolicy",
        (name, "own"),
        json!({"targetRef": targets("HTTPRoute", "orders"), "limits": limits}),
    );
    tenant.apply(&own).await?;
    let found = on_hub()?;
    ensure!(found[0]["fate"] == "Lost", "{found}");
    ensure!(
        found[0]["at"] == json!([format!("httproute.gateway.networking.k8s.io:{name}/orders#rule-1")]),
        "{found}"
    );
    let policies = json!([format!("ratelimitpolicy.kuadrant.io:{name}/own")]);
    ensure!(found[0]["instead"]["policies"] == policies, "{found}");
    Ok(())
}
