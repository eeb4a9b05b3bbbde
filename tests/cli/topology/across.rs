//! `policy-sync effective` across clusters: from files, and on a hub with a controller. The tests write the
//! status of works in place of the agents.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::fixtures::{managed_cluster, namespace, rate_limit_policy};
use policy_sync_testenv::tenant::WorkReport;
use policy_sync_testenv::{Fleet, Tenant};
use serde_json::{Value, json};

use crate::explain::silence;
use crate::run::{CommandOutput, command, finish, run};

fn answers(ran: &CommandOutput) -> Result<Vec<Value>> {
    let json: Value = serde_json::from_str(&ran.stdout).with_context(|| format!("{ran:#?}"))?;
    json["answers"].as_array().cloned().context("the output has no answers")
}

#[test]
fn effective_of_files_shows_each_cluster() -> Result<()> {
    let ran = run(&["effective", "-f", "shop", "--clusters"]);
    let text = "\
On eu-1:
  GatewayClass synced > Gateway shop/web > listener http
    hosts: *
    RateLimitPolicy.kuadrant.io
      limits#all of RateLimitPolicy shop/limits
        {\"rates\":[{\"limit\":10,\"window\":\"10s\"}]}
    TimeoutPolicy.policies.example.com (assumed)
      /request of TimeoutPolicy shop/timeouts
        \"5s\"
    RateLimitPolicy shop/limits: Pending, no cluster has reported
    TimeoutPolicy shop/timeouts: Pending, no cluster has reported

On us-1:
  GatewayClass synced > Gateway shop/web > listener http
    hosts: *
    RateLimitPolicy.kuadrant.io
      limits#all of RateLimitPolicy shop/limits
        {\"rates\":[{\"limit\":5,\"window\":\"10s\"}]}
    RateLimitPolicy shop/limits: Pending, no cluster has reported; overrides for this cluster change /limits/all/rates
    TimeoutPolicy shop/timeouts: not on the cluster: NotSelected: its annotation kuadrant.io/cluster-selector, \"region=eu\", does not select the cluster's labels

Unknown:
  routes that exist only on clusters: paths end at the listener
  policies that exist only on clusters, except those that a status message names
  policies that target routes: they are not synced to clusters
";
    ensure!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()) == (0, text, ""), "{ran:#?}");
    let of_one = run(&["effective", "-f", "shop", "--cluster", "us-1", "-o", "json"]);
    let all = answers(&run(&["effective", "-f", "shop", "--clusters", "-o", "json"]))?;
    ensure!(answers(&of_one)? == all[1..], "{of_one:#?}");
    let state = |number: usize| (&all[1]["policies"][number]["state"], &all[1]["policies"][number]["counts"]);
    ensure!(all[1]["certain"] == true && state(0) == (&json!("Pending"), &json!(true)), "{all:#?}");
    ensure!(state(1) == (&Value::Null, &json!(false)), "{all:#?}");
    Ok(())
}

#[test]
fn invalid_cluster_arguments_are_rejected() {
    for (arguments, says) in [
        (&["--cluster", "nope"][..], "no ManagedCluster nope is given"),
        (&["--cluster", "Nope!"], "--cluster \"Nope!\" is not a valid Kubernetes name"),
        (&["--cluster", "eu-1", "--clusters"], "cannot be used with"),
        (&["--clusters", "--route", "httproute/a"], "cannot be used with"),
        (&["--clusters", "--host", "a b"], "--host"),
        (&["--clusters", "--gateway", "A_B"], "--gateway"),
    ] {
        let ran = run(&[&["effective", "-f", "shop"], arguments].concat());
        assert!(
            ran.code == 2 && ran.stdout.is_empty() && ran.stderr.contains(says),
            "{arguments:?}: {ran:#?}"
        );
    }
}

#[test]
fn request_and_name_flags_select_listeners() -> Result<()> {
    let count = |arguments: &[&str]| -> Result<(i32, usize)> {
        let ran = run(&[&["effective", "-f", "shop", "--clusters", "-o", "json"], arguments].concat());
        Ok((ran.code, answers(&ran)?.len()))
    };
    ensure!(count(&["--host", "a.example.com", "--path", "/cart"])? == (0, 2));
    ensure!(count(&["--port", "81"])? == (1, 0));
    ensure!(count(&["--gateway", "web"])? == (0, 2) && count(&["--gateway", "api"])? == (1, 0));
    ensure!(count(&["-n", "shop"])? == (0, 2) && count(&["-n", "other"])? == (1, 0));
    ensure!(count(&["--policy", "timeoutpolicy/timeouts"])? == (0, 2));
    ensure!(count(&["--policy", "ratelimitpolicy/other"])? == (1, 0));
    let ran = run(&["effective", "-f", "shop", "--clusters", "--path", "/cart"]);
    ensure!(
        ran.stdout.contains(
            "the route that handles the request: path, method, headers and query select among routes"
        ),
        "{ran:#?}"
    );
    Ok(())
}

fn run_effective(tenant: &Tenant<'_>, arguments: &[&str]) -> CommandOutput {
    let mut command =
        command(&["effective", "--controller-name", &tenant.controller_name(), "-n", tenant.name()]);
    command.args(arguments).arg("--kubeconfig").arg(tenant.hub().kubeconfig());
    finish(command, "")
}

/// Returns the result for `cluster`. Checks that `--cluster` and `--clusters` give the same result.
fn on(tenant: &Tenant<'_>, cluster: &str) -> Result<Value> {
    let of_all = answers(&run_effective(tenant, &["--clusters", "-o", "json"]))?;
    let is_of =
        |report: &&Value| report["clusters"].as_array().into_iter().flatten().any(|name| name == cluster);
    let found = of_all.iter().find(is_of).with_context(|| format!("{of_all:#?}"))?;
    let mut of_one = answers(&run_effective(tenant, &["--cluster", cluster, "-o", "json"]))?;
    let mut one = of_one.pop().context("the output has no answer")?;
    one["clusters"] = found["clusters"].clone();
    ensure!(one == *found, "with --cluster {one:#}\nwith --clusters {found:#}");
    Ok(one)
}

#[tokio::test]
async fn effective_of_a_hub_shows_the_reports_of_clusters() -> Result<()> {
    let fleet = Fleet::shared_hub().await?;
    let (name, cluster) = ("across", "across-1");
    let tenant =
        Tenant::new(fleet.hub(), Path::new(env!("CARGO_BIN_EXE_policy-sync")), name, &[cluster]).await?;
    tenant.apply(&namespace(cluster)).await?;
    tenant.apply(&managed_cluster(cluster, &Default::default())).await?;
    let _controller = tenant.controller().await?;
    let limits = rate_limit_policy(name, "limits", "web");
    tenant.apply(&limits).await?;
    let work = tenant.until_work(cluster, "ratelimitpolicy-limits", |_| true).await?;
    let enforced = WorkReport::applied().condition("Enforced", "True", "Enforced", "").observed(1, 1);
    tenant.report(&work, &enforced).await?;
    tenant.until_work(cluster, "gateway-web", |_| true).await?;
    tenant.until_folded(&limits, |_, summary| summary.enforced == 1).await?;
    let report = on(&tenant, cluster)?;
    let limit = &report["effective"]["RateLimitPolicy.kuadrant.io"]["rules"]["limits#all"]["value"]["rates"]
        [0]["limit"];
    ensure!(*limit == 10 && report["policies"][0]["state"] == "Enforced", "{report:#}");
    ensure!(report["gateway"]["reason"] == "WaitingForApply" && report["certain"] == false, "{report:#}");

    let overridden = WorkReport::applied()
        .condition("Enforced", "False", "Overridden", "by kuadrant-across/local")
        .observed(1, 1);
    tenant.report(&work, &overridden).await?;
    tenant.until_folded(&limits, |_, summary| summary.overridden == 1).await?;
    let report = on(&tenant, cluster)?;
    let policy = &report["policies"][0];
    ensure!(
        report["effective"] == json!({})
            && policy["state"] == "Overridden"
            && policy["counts"] == false
            && policy["reason"] == "Overridden",
        "{report:#}"
    );
    ensure!(
        policy["message"].as_str().is_some_and(|text| text.ends_with("by kuadrant-across/local")),
        "{report:#}"
    );

    tenant.report(&work, &enforced).await?;
    tenant.until_folded(&limits, |_, summary| summary.enforced == 1).await?;
    silence(&tenant, cluster, "Unknown").await?;
    let report = on(&tenant, cluster)?;
    let policy = &report["policies"][0];
    ensure!(
        policy["state"] == "Unreachable"
            && policy["counts"] == true
            && policy["reason"] == "AgentSilent"
            && report["certain"] == false,
        "{report:#}"
    );
    let since = "because the cluster is not available (since 2026-01-02T00:00:00Z)";
    ensure!(policy["message"].as_str().is_some_and(|text| text.ends_with(since)), "{report:#}");
    let ran = run_effective(&tenant, &["--cluster", "us-1"]);
    let says = format!(
        "Gateway {name}/web is not on cluster us-1: NotPlaced: Placement {name}/all, which places Gateway"
    );
    ensure!(ran.code == 1 && ran.stdout.contains(&says), "{ran:#?}");
    let ran = run_effective(&tenant, &["--cluster", "no-such-cluster"]);
    ensure!(ran.code == 1 && ran.stderr.contains("has no ManagedCluster no-such-cluster"), "{ran:#?}");

    // The hub does not serve this version of AuthPolicies. An AuthPolicy may be in force, so the command exits with 2.
    ensure!(run_effective(&tenant, &["--cluster", cluster]).code == 0);
    let kind = |group: &str, version: &str, resource: &str| json!({"group": group, "version": version, "resource": resource});
    let limits = kind("kuadrant.io", "v1", "ratelimitpolicies");
    tenant
        .parameters(&json!({"policiesToSync": [limits, kind("kuadrant.io", "v9", "authpolicies")]}))
        .await?;
    let ran = run_effective(&tenant, &["--cluster", cluster]);
    let says = "policy-sync: policies of the kind authpolicies.kuadrant.io: ";
    ensure!(ran.code == 2 && ran.stderr.starts_with(says) && ran.stdout.contains("limits"), "{ran:#?}");
    Ok(())
}
