//! `policy-sync status --not-synced` on a hub with a controller. The tests write the status of works in place
//! of the agents.

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::tenant::WorkReport;
use serde_json::{Value, json};

use super::gateways::{programmed, report, until, with_clusters};
use super::{rows, status_of, user_with};

/// The work status for an enforced policy.
fn enforced() -> WorkReport {
    WorkReport::applied().condition("Enforced", "True", "Enforced", "")
}

/// The time of the reports that the tests write.
const ANSWERED: &str = "2026-01-01T00:00:00Z";

#[tokio::test]
async fn not_synced_shows_only_items_out_of_sync_with_their_clusters() -> Result<()> {
    let tenant = with_clusters("status-lags", &["eu-1", "us-1"]).await?;
    let (admin, name) = (tenant.hub().kubeconfig(), tenant.name());
    for policy in ["fine", "refused", "silent"] {
        tenant.apply(&rate_limit_policy(name, policy, "web")).await?;
    }
    let controller = tenant.controller().await?;
    for cluster in ["eu-1", "us-1"] {
        report(&tenant, cluster, "gateway-web", &programmed("192.0.2.1")).await?;
        report(&tenant, cluster, "ratelimitpolicy-fine", &enforced()).await?;
    }
    report(&tenant, "eu-1", "ratelimitpolicy-refused", &enforced()).await?;
    report(&tenant, "us-1", "ratelimitpolicy-refused", &WorkReport::refused("conflict")).await?;
    // No agent reports on `silent`.
    let lags = ["-n", name, "--not-synced"];
    let ran = until(&tenant, admin, &lags, |ran| {
        ran.stdout.contains("conflict") && ran.stdout.lines().count() == 3
    });
    let ran = ran.await?;
    ensure!(ran.code == 1 && ran.stderr.is_empty(), "{ran:#?}");
    let silent = tenant.until_work("eu-1", "ratelimitpolicy-silent", |_| true).await?;
    let created =
        silent.metadata.creation_timestamp.context("the work has no creationTimestamp")?.0.to_string();
    let refused = [
        "RateLimitPolicy",
        "refused",
        "NotApplied",
        "1/2",
        "1/2",
        "-",
        "us-1",
        ANSWERED,
        "us-1:",
        "NotApplied:",
        "conflict",
    ];
    let silent = [
        "RateLimitPolicy",
        "silent",
        "Pending",
        "0/2",
        "0/2",
        "-",
        "eu-1,us-1",
        &created,
        "eu-1:",
        "Pending",
    ];
    let mut expected = [(ANSWERED, &refused[..]), (created.as_str(), &silent[..])];
    expected.sort();
    let headers =
        &["KIND", "NAME", "STATE", "CLUSTERS", "ENFORCED", "OVERRIDDEN", "MISSING", "SINCE", "MESSAGE"][..];
    ensure!(rows(&ran) == [headers, expected[0].1, expected[1].1], "{ran:#?}");

    let ran = status_of(&tenant, admin, &[&lags[..], &["-o", "json"]].concat());
    let json: Value = serde_json::from_str(&ran.stdout)?;
    let fields =
        |item: &Value| json!([item["name"], item["missing"], item["notSyncedSince"], item["inSync"]]);
    let items = json["items"].as_array().context("the output has no items")?;
    let of = |words: &[&str]| match words[1] {
        "refused" => json!(["refused", ["us-1"], ANSWERED, false]),
        _ => json!(["silent", ["eu-1", "us-1"], created, false]),
    };
    ensure!(items.iter().map(fields).eq(expected.iter().map(|(_, words)| of(words))), "{json:#}");

    // The rows of one cluster, and of one policy.
    let ran = status_of(&tenant, admin, &[&lags[..], &["--cluster", "eu-1"]].concat());
    let row = ["RateLimitPolicy", "silent", "Pending", "no", "pending", "-", &created, "-"];
    ensure!(ran.code == 1 && rows(&ran).len() == 2 && rows(&ran)[1] == row, "{ran:#?}");
    let ran = status_of(&tenant, admin, &[&lags[..], &["ratelimitpolicy", "refused", "-o", "wide"]].concat());
    ensure!(ran.stdout.lines().count() == 2 && ran.stdout.contains("us-1      NotApplied   no"), "{ran:#?}");
    let ran = status_of(&tenant, admin, &["cluster", "us-1", "--not-synced"]);
    // Other tests have policies on this cluster.
    let own: Vec<Vec<&str>> = rows(&ran).into_iter().filter(|row| row[1] == name).collect();
    let created =
        tenant.until_work("us-1", "ratelimitpolicy-silent", |_| true).await?.metadata.creation_timestamp;
    let created = created.context("the work has no creationTimestamp")?.0.to_string();
    let row =
        |policy, state, since| vec!["RateLimitPolicy", name, policy, state, "no", "pending", "-", since];
    let mut expected = [
        (ANSWERED, row("refused", "NotApplied", ANSWERED)),
        (created.as_str(), row("silent", "Pending", &created)),
    ];
    expected.sort();
    ensure!(own == expected.map(|(_, row)| row), "{own:?} {ran:#?}");

    // A user without the right to read works gets a message, and all other output.
    let rights = [
        (None, "kuadrant.io", "*"),
        (None, "policies.example.com", "*"),
        (None, "", "configmaps"),
        (None, "gateway.networking.k8s.io", "*"),
    ];
    let reader = user_with(&tenant, "status-lags-reader", &rights).await;
    let ran = status_of(&tenant, &reader, &lags);
    ensure!(ran.code == 1 && rows(&ran).len() == 3, "{ran:#?}");
    let says = "cannot list ManifestWorks of cluster ";
    let clusters = "cannot list ManagedClusters on the hub at";
    ensure!(ran.stderr.starts_with(clusters) && ran.stderr.contains(says), "{ran:#?}");
    ensure!(ran.stderr.lines().count() == 2, "{ran:#?}");

    for policy in ["refused", "silent"] {
        for cluster in ["eu-1", "us-1"] {
            report(&tenant, cluster, &format!("ratelimitpolicy-{policy}"), &enforced()).await?;
        }
    }
    let ran = until(&tenant, admin, &lags, |ran| ran.code == 0).await?;
    ensure!((ran.stdout.as_str(), ran.stderr.as_str()) == ("", "everything is in sync\n"), "{ran:#?}");
    controller.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn unprogrammed_gateway_lists_its_clusters() -> Result<()> {
    let tenant = with_clusters("status-lags-gateway", &["eu-1", "us-1"]).await?;
    let (admin, name) = (tenant.hub().kubeconfig(), tenant.name());
    let controller = tenant.controller().await?;
    report(&tenant, "eu-1", "gateway-web", &programmed("192.0.2.1")).await?;
    let lags = ["gateways", "-n", name, "--not-synced"];
    let ran = until(&tenant, admin, &lags, |ran| ran.stdout.contains("   1/2   ")).await?;
    let headers = ["NAME", "CLASS", "CLUSTERS", "PROGRAMMED", "ACCEPTED", "MISSING", "SINCE", "MESSAGE"];
    let row = &rows(&ran)[1];
    ensure!(
        rows(&ran)[0] == headers && row[..6] == ["web", name, "eu-1,us-1", "1/2", "True", "us-1"],
        "{ran:#?}"
    );
    let since = |conditions: &Value| {
        let programmed = conditions.as_array()?.iter().find(|condition| condition["type"] == "Programmed")?;
        programmed["lastTransitionTime"].as_str().map(str::to_owned)
    };
    let web = tenant.get(&policy_sync_testenv::fixtures::gateway(name, "web", name, None)).await?;
    ensure!(
        since(&web.data["status"]["conditions"]).as_deref() == Some(row[6]),
        "{ran:#?} {:#}",
        web.data["status"]
    );
    let ran = status_of(&tenant, admin, &["gateways", "-n", name, "-o", "json"]);
    let json: Value = serde_json::from_str(&ran.stdout)?;
    ensure!(json["items"][0]["missing"] == json!(["us-1"]), "{json:#}");
    ensure!(json["items"][0].get("notSyncedSince").is_none(), "notSyncedSince requires the works: {json:#}");
    controller.terminate().await?;
    Ok(())
}

#[test]
fn filters_exclude_watch() {
    for filter in ["--not-synced", "--not-enforced"] {
        let ran = crate::run::run(&["status", filter, "--watch"]);
        let says = format!("'{filter}' cannot be used with '--watch'");
        assert!(ran.code == 2 && ran.stderr.contains(&says), "{ran:?}");
    }
}
