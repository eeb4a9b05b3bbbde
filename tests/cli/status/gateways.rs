//! `policy-sync status gateways` on a hub with a controller. The tests write the status of works in place of
//! the agents.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::fixtures::{gateway, rate_limit_policy};
use policy_sync_testenv::running::Running;
use policy_sync_testenv::tenant::{LIMIT, Tenant, WorkReport};
use policy_sync_testenv::{Fleet, wait};
use serde_json::{Value, json};

use super::{rows, status_of, user_with};
use crate::run::CommandOutput;

/// Creates a tenant on the hub that the tests with controllers share.
pub(super) async fn with_clusters(name: &str, clusters: &[&str]) -> Result<Tenant<'static>> {
    let fleet = Fleet::shared_hub().await?;
    Tenant::new(fleet.hub(), Path::new(env!("CARGO_BIN_EXE_policy-sync")), name, clusters).await
}

pub(super) fn programmed(address: &str) -> WorkReport {
    WorkReport::applied()
        .condition("Accepted", "True", "Accepted", "")
        .condition("Programmed", "True", "Programmed", "")
        .value("_address_0", json!(address))
}

pub(super) async fn report(
    tenant: &Tenant<'_>,
    cluster: &str,
    work: &str,
    report: &WorkReport,
) -> Result<()> {
    let work = tenant.until_work(cluster, work, |_| true).await?;
    tenant.report(&work, report).await
}

/// Waits until `fits` accepts the output.
pub(super) async fn until(
    tenant: &Tenant<'_>,
    kubeconfig: &Path,
    arguments: &[&str],
    fits: impl Fn(&CommandOutput) -> bool,
) -> Result<CommandOutput> {
    wait::until("the status is as expected", LIMIT, || async {
        let ran = status_of(tenant, kubeconfig, arguments);
        ensure!(fits(&ran), "{ran:#?}");
        Ok(ran)
    })
    .await
}

/// Whether the second row begins with these words.
fn second<'w>(words: &'w [&'w str]) -> impl Fn(&CommandOutput) -> bool + 'w {
    move |ran| rows(ran).get(1).is_some_and(|row| row.iter().take(words.len()).eq(words))
}

#[tokio::test]
async fn gateways_show_the_clusters_where_they_are_programmed() -> Result<()> {
    let tenant = with_clusters("status-gateways", &["eu-1", "us-1"]).await?;
    let (admin, name) = (tenant.hub().kubeconfig(), tenant.name());
    // The controller has not written a status yet.
    let ran = status_of(&tenant, admin, &["gateways", "-n", name]);
    ensure!((ran.code, &rows(&ran)[1][..6]) == (1, &["web", name, "-", "-", "?", "the"][..]), "{ran:#?}");
    // Gateways of other classes are not shown.
    tenant.apply(&gateway(name, "other", "other", Some("all"))).await?;

    let controller = tenant.controller().await?;
    let both = ["web", name, "eu-1,us-1", "0/2", "True", "not"];
    let ran = until(&tenant, admin, &["gateways", "-n", name], second(&both)).await?;
    ensure!((ran.code, ran.stdout.lines().count(), ran.stderr.as_str()) == (1, 2, ""), "{ran:#?}");
    report(&tenant, "eu-1", "gateway-web", &programmed("192.0.2.1")).await?;
    let refused = "conflict with \"kubectl\" using gateway.networking.k8s.io/v1: .spec.listeners";
    report(&tenant, "us-1", "gateway-web", &WorkReport::refused(refused)).await?;
    let one = ["web", name, "eu-1,us-1", "1/2", "True", "not", "programmed", "on", "1"];
    until(&tenant, admin, &["gateways", "-n", name], second(&one)).await?;

    // The controller may count eu-1 before it has processed the failure on us-1.
    let as_json = ["gateways", "web", "-n", name, "-o", "json"];
    let ran = until(&tenant, admin, &as_json, |ran| ran.stdout.contains("\"NotProgrammed\"")).await?;
    ensure!(ran.code == 1, "{ran:#?}");
    let json: Value = serde_json::from_str(&ran.stdout)?;
    let web = &json["items"][0];
    let expected = json!([
        {"cluster": "eu-1", "applied": true, "programmed": true, "deleting": false, "displacedSince": null, "message": null},
        {"cluster": "us-1", "applied": false, "programmed": false, "deleting": false, "displacedSince": null, "message": refused},
    ]);
    ensure!(web["clusters"] == expected, "{web:#}");
    ensure!(web["programmed"]["reason"] == "NotProgrammed" && web["accepted"]["status"] == "True", "{web:#}");
    ensure!(
        (&web["kind"], &web["class"], &web["inSync"]) == (&json!("Gateway"), &json!(name), &json!(false))
    );
    let yaml = status_of(&tenant, admin, &["gateways", "web", "-n", name, "-o", "yaml"]).stdout;
    ensure!(serde_saphyr::from_str::<Value>(&yaml)? == json, "{yaml}");

    let ran = status_of(&tenant, admin, &["gtw", "-n", name, "--cluster", "eu-1"]);
    ensure!((ran.code, &rows(&ran)[1][..]) == (0, &["web", name, "yes", "yes", "-"][..]), "{ran:#?}");
    let ran = status_of(&tenant, admin, &["gateway", "-n", name, "--cluster", "us-1"]);
    ensure!((ran.code, &rows(&ran)[1][..5]) == (1, &["web", name, "no", "no", "conflict"][..]), "{ran:#?}");

    report(&tenant, "us-1", "gateway-web", &programmed("192.0.2.2")).await?;
    let all = ["web", name, "eu-1,us-1", "2/2", "True", "-"];
    for word in
        ["gateway", "Gateway", "gateways.gateway.networking.k8s.io", "gateways.v1.gateway.networking.k8s.io"]
    {
        let ran = until(&tenant, admin, &[word, "web", "-n", name], second(&all)).await?;
        ensure!((ran.code, ran.stderr.as_str()) == (0, ""), "{ran:#?}");
    }
    let ran = status_of(&tenant, admin, &["gateway", "nothing", "-n", name]);
    ensure!((ran.code, ran.stderr) == (1, format!("no Gateway nothing found in namespace {name}\n")));
    controller.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn gateways_precede_policies_and_show_the_grace_period() -> Result<()> {
    let tenant = with_clusters("status-grace", &["eu-1", "us-1"]).await?;
    let (admin, name) = (tenant.hub().kubeconfig(), tenant.name());
    let limits = rate_limit_policy(name, "limits", "web");
    tenant.apply(&limits).await?;
    let grace = json!({"metadata": {"annotations": {"kuadrant.io/grace-timeout": "3600"}}});
    tenant.merge(&gateway(name, "web", name, Some("all")), &grace).await?;
    let controller = tenant.controller().await?;
    for cluster in ["eu-1", "us-1"] {
        report(&tenant, cluster, "ratelimitpolicy-limits", &WorkReport::applied()).await?;
        report(&tenant, cluster, "gateway-web", &programmed("192.0.2.1")).await?;
    }
    let says = format!(
        "policy-sync: RateLimitPolicy {name}/limits: not all clusters have a controller that reports whether it is enforced\n"
    );
    let ran = until(&tenant, admin, &["-n", name], |ran| ran.code == 2 && ran.stderr == says).await?;
    let words: Vec<Vec<&str>> = rows(&ran);
    let expected = [
        vec!["NAME", "CLASS", "CLUSTERS", "PROGRAMMED", "ACCEPTED", "MESSAGE"],
        vec!["web", name, "eu-1,us-1", "2/2", "True", "-"],
        vec![],
        vec!["KIND", "NAME", "STATE", "CLUSTERS", "ENFORCED", "OVERRIDDEN", "MESSAGE"],
        vec!["RateLimitPolicy", "limits", "Unknown", "2/2", "0/2", "-", "eu-1:", "Unknown"],
    ];
    ensure!(words == expected, "{words:#?}");

    tenant.place("all", &["eu-1"]).await?;
    let wide = ["gateways", "-n", name, "-o", "wide"];
    let in_grace = ["web", name, "eu-1,us-1", "2/2", "True", "eu-1/192.0.2.1,us-1/192.0.2.1", "us-1", "-"];
    until(&tenant, admin, &wide, second(&in_grace)).await?;
    let ran = status_of(&tenant, admin, &["gateways", "-n", name, "-o", "json"]);
    let json: Value = serde_json::from_str(&ran.stdout)?;
    let since = |index: usize| json["items"][0]["clusters"][index]["displacedSince"].as_str();
    ensure!(since(0).is_none() && since(1).context("us-1 has no displacedSince")?.ends_with('Z'), "{json:#}");
    controller.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn status_of_gateways_is_shown_without_the_right_to_read_works() -> Result<()> {
    let tenant = with_clusters("status-tenant", &["eu-1"]).await?;
    let name = tenant.name();
    let rights = [
        (None, "gateway.networking.k8s.io", "gatewayclasses"),
        (Some(name), "gateway.networking.k8s.io", "gateways"),
    ];
    let reader = user_with(&tenant, "status-tenant", &rights).await;
    let controller = tenant.controller().await?;
    let arguments = ["gateways", "-n", name];
    let ran = until(&tenant, &reader, &arguments, second(&["web", name, "eu-1", "?/1", "True"])).await?;
    let says =
        ran.stderr.starts_with("cannot list ManifestWorks on the hub at") && ran.stderr.lines().count() == 1;
    ensure!(ran.code == 1 && says, "{ran:#?}");
    report(&tenant, "eu-1", "gateway-web", &programmed("192.0.2.1")).await?;
    let ran = until(&tenant, &reader, &arguments, second(&["web", name, "eu-1", "1/1", "True", "-"])).await?;
    ensure!((ran.code, ran.stderr.as_str()) == (0, ""), "{ran:#?}");
    // The user may list Gateways only in the namespace of the tenant.
    let ran = status_of(&tenant, &reader, &["gateways", "-A"]);
    ensure!(ran.code == 2 && ran.stderr.contains("cannot list Gateways on the hub at"), "{ran:#?}");
    controller.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn watch_prints_changes_of_gateways() -> Result<()> {
    let tenant = with_clusters("status-gateways-watch", &["eu-1"]).await?;
    let name = tenant.name();
    let mut command = crate::run::command(&["status", "gateways", "--watch", "-n", name]);
    command
        .args(["--controller-name", &tenant.controller_name()])
        .arg("--kubeconfig")
        .arg(tenant.hub().kubeconfig());
    let mut running = Running::start(command);
    let row = |words: &'static [&'static str]| {
        move |line: &str| {
            line.split_whitespace()
                .filter(|word| *word != "status-gateways-watch")
                .take(words.len())
                .eq(words.iter().copied())
        }
    };
    running.prints("the initial row", row(&["web", "-", "-", "?"])).await;
    let controller = tenant.controller().await?;
    running.prints("the row of the placed Gateway", row(&["web", "eu-1", "0/1", "True"])).await;
    report(&tenant, "eu-1", "gateway-web", &programmed("192.0.2.1")).await?;
    running.prints("the row of the programmed Gateway", row(&["web", "eu-1", "1/1", "True", "-"])).await;
    controller.terminate().await?;
    tenant.delete(&gateway(name, "web", name, None)).await?;
    running.prints("the row of the deleted Gateway", row(&["web", "gone", "-"])).await;
    running.signal("TERM");
    ensure!((running.ends().await, running.stderr_lines()) == (Some(0), Vec::new()));
    Ok(())
}
