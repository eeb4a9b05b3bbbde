//! The metrics of the controller, compared with `docs/metrics.md` and with the state and audit log of the
//! hub.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::apply::{apply, apply_with_status};
use policy_sync_testenv::audit::{Request, requests_of};
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::fixtures::{managed_cluster, namespace, rate_limit_policy};
use policy_sync_testenv::metrics::Metrics;
use policy_sync_testenv::tenant::{LIMIT, Tenant, WorkReport};
use policy_sync_testenv::{Controller, wait};
use serde_json::{Value, json};

use crate::{limit_of, tenant};

const PAGE: &str = include_str!("../../docs/metrics.md");

/// A row of the table in `docs/metrics.md`: name, type, whether only the leader exports it (`, L`), labels.
struct DocumentedMetric {
    name: &'static str,
    metric_type: &'static str,
    leader_only: bool,
    labels: BTreeSet<&'static str>,
}

fn documented() -> Vec<DocumentedMetric> {
    // Metrics of Rego policies and of `--topology` are compared with the page by other tests.
    let of_others =
        ["rego_", "placement_", "webhook_", "certificate_", "opa_", "audit_", "violations`", "topology_"];
    let is_of_others = |row: &str| {
        let name = row.strip_prefix("| `policy_sync_");
        name.is_some_and(|name| of_others.iter().any(|prefix| name.starts_with(prefix)))
    };
    let rows = PAGE.lines().filter(|line| line.starts_with("| `") && !is_of_others(line));
    let cells = |row: &'static str| row.split('|').map(str::trim).collect::<Vec<_>>();
    rows.map(cells)
        .map(|cells| DocumentedMetric {
            name: cells[1].trim_matches('`'),
            metric_type: cells[2].trim_end_matches(", L"),
            leader_only: cells[2].ends_with(", L"),
            labels: cells[3]
                .split(", ")
                .map(|label| label.trim_matches('`'))
                .filter(|label| *label != "–")
                .collect(),
        })
        .collect()
}

/// Checks that `metrics` has exactly the documented metrics, with their types and labels.
fn are_documented(metrics: &Metrics) -> Result<()> {
    let of_the_process = |name: &&str| !name.starts_with("process_");
    let served: BTreeSet<&str> = metrics.names().into_iter().filter(of_the_process).collect();
    let page: BTreeSet<&str> = documented().iter().map(|row| row.name).collect();
    ensure!(served == page, "served: {served:?}, documented: {page:?}");
    for row in documented() {
        let is_of_type = format!("# TYPE {} {}", row.name, row.metric_type);
        ensure!(metrics.to_string().lines().any(|line| line == is_of_type), "{is_of_type} is missing");
        let name =
            if row.metric_type == "histogram" { format!("{}_count", row.name) } else { row.name.into() };
        let mut series = metrics.series().iter().filter(|series| series.name == name).peekable();
        ensure!(series.peek().is_some(), "{name} has no series");
        for series in series {
            let labels: BTreeSet<&str> = series.labels.keys().map(String::as_str).collect();
            ensure!(labels == row.labels, "{series:?} does not have the labels {:?}", row.labels);
        }
    }
    Ok(())
}

/// A tenant on clusters that no other test uses, with `ManagedClusterConditionAvailable` true.
pub(crate) async fn on_own_clusters(name: &str) -> Result<(Tenant<'static>, [String; 2])> {
    let clusters = [format!("{name}-eu"), format!("{name}-us")];
    let tenant = tenant(name, &[clusters[0].as_str(), clusters[1].as_str()]).await?;
    for cluster in &clusters {
        apply(tenant.client(), &namespace(cluster)).await?;
        available(&tenant, cluster, "True").await?;
    }
    Ok((tenant, clusters))
}

/// Sets the status of a cluster's `ManagedClusterConditionAvailable`.
async fn available(tenant: &Tenant<'_>, cluster: &str, status: &str) -> Result<()> {
    let mut object = managed_cluster(cluster, &Default::default());
    object["status"] = json!({"conditions": [{
        "type": "ManagedClusterConditionAvailable", "status": status, "reason": "Fine", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    apply_with_status(tenant.client(), &object).await.map(drop)
}

/// Reports the policy `limits` as applied and enforced on `clusters`, once their works have this limit.
async fn report(tenant: &Tenant<'_>, clusters: &[String], limit: i64) -> Result<()> {
    for cluster in clusters {
        let work =
            tenant.until_work(cluster, "ratelimitpolicy-limits", |work| limit_of(work) == limit).await?;
        tenant.report(&work, &WorkReport::applied().condition("Enforced", "True", "Enforced", "")).await?;
    }
    Ok(())
}

fn with_limit(limits: &Value, limit: i64) -> Value {
    let mut changed = limits.clone();
    changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(limit);
    changed
}

/// Name, labels and value of a series.
pub(crate) type Expected<'e> = (&'e str, &'e [(&'e str, &'e str)], f64);

/// Waits until each of these series has its value.
pub(crate) async fn until(controller: &Controller, expected: &[Expected<'_>]) -> Result<()> {
    wait::until("the metrics have the expected values", LIMIT, || async {
        let metrics = controller.metrics().await?;
        for (name, labels, value) in expected {
            let found = metrics.value(name, labels)?;
            ensure!(found == *value, "{name} {labels:?} is {found}, expected {value}, in {metrics}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn all_documented_metrics_are_served_from_the_start_and_pass_the_linter() -> Result<()> {
    let tenant = tenant("linted", &["eu-1", "us-1"]).await?;
    let leader = tenant.controller().await?;
    let follower = tenant.follower().await?;
    for controller in [&leader, &follower] {
        let metrics = controller.metrics().await?;
        metrics.lint().await?;
        are_documented(&metrics)?;
    }
    let metrics = follower.metrics().await?;
    for row in documented().iter().filter(|row| row.leader_only) {
        let is_of_it = |name: &str| name == row.name || name.strip_suffix("_count") == Some(row.name);
        let mut exported =
            metrics.series().iter().filter(|series| is_of_it(&series.name) && series.value != 0.0);
        ensure!(exported.next().is_none(), "the follower exports {:?}", exported.next());
    }
    ensure!(metrics.value("policy_sync_watch_up", &[("resource", "gateways")])? == 1.0, "{metrics}");
    Ok(())
}

#[tokio::test]
async fn metrics_count_policies_gateways_works_and_clusters_by_state() -> Result<()> {
    let (tenant, clusters) = on_own_clusters("fares").await?;
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    report(&tenant, &clusters, 10).await?;
    tenant.until_folded(&limits, |_, summary| summary.synced).await?;
    until(
        &controller,
        &[
            ("policy_sync_classes", &[("state", "accepted")], 1.0),
            ("policy_sync_kinds", &[("state", "Resolved")], 3.0),
            ("policy_sync_policies", &[("state", "synced")], 1.0),
            ("policy_sync_gateways", &[("state", "pending")], 1.0),
            ("policy_sync_works", &[("for", "policy"), ("state", "applied")], 2.0),
            ("policy_sync_policy_clusters", &[("state", "Enforced")], 2.0),
            ("policy_sync_works", &[("for", "gateway"), ("state", "pending")], 2.0),
            ("policy_sync_works", &[("for", "access"), ("state", "pending")], 2.0),
            ("policy_sync_clusters", &[("state", "available")], 2.0),
            ("policy_sync_clusters", &[("state", "silent")], 0.0),
            ("policy_sync_watch_up", &[("resource", "ratelimitpolicies.kuadrant.io")], 1.0),
            ("policy_sync_propagation_oldest_seconds", &[], 0.0),
            ("workqueue_depth", &[("name", "fold")], 0.0),
        ],
    )
    .await?;
    // The controller has measured the delay of a status. It has listed or watched works, and written works, an Event and
    // the Lease.
    // Requests are counted when the response arrives, which is after their effect is visible on the hub.
    wait::until("delays and requests are counted", LIMIT, || async {
        let metrics = controller.metrics().await?;
        let delays = "policy_sync_status_delay_seconds_count";
        ensure!(metrics.sum(delays, &[]) > 0.0, "{delays} is 0 in {metrics}");
        for (code, method, resource) in [
            ("201", "POST", "manifestworks"),
            ("200", "GET", "manifestworks"),
            ("201", "POST", "events"),
            ("200", "PUT", "leases"),
        ] {
            let labels = [("code", code), ("method", method), ("resource", resource)];
            ensure!(
                metrics.sum("rest_client_requests_total", &labels) > 0.0,
                "{labels:?} is missing in {metrics}"
            );
        }
        Ok(())
    })
    .await?;

    available(&tenant, &clusters[1], "Unknown").await?;
    tenant.parameters(&json!({"policiesToSync": 3})).await?;
    until(
        &controller,
        &[
            ("policy_sync_clusters", &[("state", "silent")], 1.0),
            ("policy_sync_classes", &[("state", "invalid")], 1.0),
            ("policy_sync_classes", &[("state", "accepted")], 0.0),
            ("policy_sync_policies", &[("state", "frozen")], 1.0),
            ("policy_sync_gateways", &[("state", "frozen")], 1.0),
            // One problem of the policy, and one problem of the Gateway.
            ("policy_sync_problems", &[("category", "InvalidParameters"), ("freezes", "true")], 2.0),
        ],
    )
    .await
}

/// The time of the response to the last request that `fits` accepts, in seconds since the epoch.
fn processed(requests: &[Request], fits: impl Fn(&Request) -> bool) -> Result<f64> {
    let last = requests.iter().rfind(|request| fits(request)).context("no such request")?;
    Ok(last.stage_timestamp.0.as_microsecond() as f64 / 1e6)
}

#[tokio::test]
async fn propagation_metric_agrees_with_the_audit_log() -> Result<()> {
    let (tenant, clusters) = on_own_clusters("propagates").await?;
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    report(&tenant, &clusters, 10).await?;
    tenant.until_folded(&limits, |_, summary| summary.synced).await?;
    let observed = async || {
        let metrics = controller.metrics().await?;
        let value = |what: &str| metrics.value(&format!("policy_sync_propagation_seconds_{what}"), &[]);
        anyhow::Ok((value("count")?, value("sum")?))
    };
    // Watch events may arrive late on a busy machine, so it is enough that five of forty measurements agree.
    let mut apart = Vec::new();
    for limit in 20..60 {
        let (count, sum) = observed().await?;
        tenant.apply(&with_limit(&limits, limit)).await?;
        report(&tenant, &clusters, limit).await?;
        let (_, sum) = wait::until("the change is observed", LIMIT, || async {
            let (now, new) = observed().await?;
            ensure!(now == count + 1.0, "{now} observations");
            Ok((now, new - sum))
        })
        .await?;
        let requests = requests_of(tenant.hub(), &User::admin().name)?;
        let changed = processed(&requests, |request| {
            let object = request.object();
            request.is_write() && object.namespace == tenant.name() && object.resource == "ratelimitpolicies"
        })?;
        let applied = processed(&requests, |request| {
            request.object().namespace == clusters[1] && request.object().subresource == "status"
        })?;
        apart.push((sum - (applied - changed)).abs());
        if apart.iter().filter(|apart| **apart < 0.05).count() == 5 {
            return Ok(());
        }
    }
    anyhow::bail!("the metric differs from the audit log by {apart:?} s")
}

#[tokio::test]
async fn unfinished_change_increases_the_oldest_propagation_age() -> Result<()> {
    let (tenant, clusters) = on_own_clusters("waits").await?;
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    report(&tenant, &clusters[..1], 10).await?;
    wait::until("the oldest change is older than 3 s", LIMIT, || async {
        let waited = controller.metrics().await?.value("policy_sync_propagation_oldest_seconds", &[])?;
        ensure!(waited > 3.0, "its age is {waited} s");
        Ok(())
    })
    .await?;
    available(&tenant, &clusters[1], "False").await?;
    until(&controller, &[("policy_sync_propagation_oldest_seconds", &[], 0.0)]).await
}

#[tokio::test]
async fn sums_over_leader_and_follower_are_right_while_one_takes_over() -> Result<()> {
    let (tenant, clusters) = on_own_clusters("sums").await?;
    let leader = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    report(&tenant, &clusters, 10).await?;
    tenant.until_folded(&limits, |_, summary| summary.synced).await?;
    let follower = tenant.follower().await?;
    let sums = |metrics: &Metrics| {
        ["policy_sync_policies", "policy_sync_gateways", "policy_sync_works", "policy_sync_clusters"]
            .map(|name| metrics.sum(name, &[]))
    };
    let whole = [1.0, 1.0, 6.0, 2.0];
    ensure!(sums(&leader.metrics().await?) == whole, "{}", leader.metrics().await?);
    ensure!(sums(&follower.metrics().await?) == [0.0; 4], "{}", follower.metrics().await?);

    leader.signal("TERM")?;
    let is_over = wait::until("the follower exports the complete sums", LIMIT, || async {
        // A process that has ended is no longer scraped.
        let of_leader = leader.metrics().await.map_or([0.0; 4], |metrics| sums(&metrics));
        let of_follower = sums(&follower.metrics().await?);
        let both: Vec<f64> =
            of_leader.iter().zip(of_follower).map(|(leader, follower)| leader + follower).collect();
        let is_too_much = both.iter().zip(whole).any(|(sum, whole)| *sum > whole);
        ensure!(is_too_much || of_follower == whole, "the follower's sums are {of_follower:?}");
        Ok((is_too_much, both))
    });
    let (is_too_much, both) = is_over.await?;
    ensure!(!is_too_much, "the total sums are {both:?}");
    until(&follower, &[("policy_sync_policies", &[("state", "synced")], 1.0)]).await
}

#[tokio::test]
async fn works_of_one_object_are_logged_in_one_line_at_info() -> Result<()> {
    let clusters: Vec<String> = (1..=12).map(|number| format!("lines-{number}")).collect();
    let names: Vec<&str> = clusters.iter().map(String::as_str).collect();
    let tenant = tenant("lines", &names).await?;
    for cluster in &clusters {
        apply(tenant.client(), &namespace(cluster)).await?;
        apply(tenant.client(), &managed_cluster(cluster, &Default::default())).await?;
    }
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == 12).await?;
    tenant.settled(&controller).await?;
    let log = controller.log()?;
    let of_policy = |line: &&str| {
        line.contains("wrote works") && line.contains("ratelimitpolicies.kuadrant.io/lines/limits")
    };
    let lines: Vec<&str> = log.lines().filter(of_policy).collect();
    ensure!(lines.len() == 1, "{lines:?}");
    ensure!(lines[0].contains("and 2 more") && lines[0].contains("12"), "{lines:?}");
    ensure!(!log.contains("wrote a work"), "single works are logged above debug level");
    Ok(())
}

#[tokio::test]
async fn process_exports_its_version_and_memory() -> Result<()> {
    let tenant = tenant("process", &["eu-1", "us-1"]).await?;
    let controller = tenant.controller().await?;
    let metrics = controller.metrics().await?;
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    ensure!(metrics.value("policy_sync_build_info", &version)? == 1.0, "{metrics}");
    ensure!(metrics.value("process_resident_memory_bytes", &[])? > 1e6, "{metrics}");
    Ok(())
}
