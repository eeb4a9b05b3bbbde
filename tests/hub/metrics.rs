//! What metrics say, as the readers of dashboards find it, held against what the hub itself knows.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::apply::{apply, apply_with_status};
use policy_sync_testenv::audit::{Request, requests_of};
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::fixtures::{managed_cluster, namespace, rate_limit_policy};
use policy_sync_testenv::metrics::Metrics;
use policy_sync_testenv::tenant::{Answer, LIMIT, Tenant};
use policy_sync_testenv::{Controller, wait};
use serde_json::{Value, json};

use crate::{limit_of, tenant};

const PAGE: &str = include_str!("../../docs/metrics.md");

/// A row of the page on metrics: name, type, whether it is of the hub, labels.
struct Documented {
    name: &'static str,
    metric_type: &'static str,
    of_the_hub: bool,
    labels: BTreeSet<&'static str>,
}

fn documented() -> Vec<Documented> {
    // What is there with policies in Rego alone, or with --topology, is held against the page where these are tested.
    let of_others =
        ["rego_", "placement_", "webhook_", "certificate_", "opa_", "audit_", "violations`", "topology_"];
    let is_of_others = |row: &str| {
        let name = row.strip_prefix("| `policy_sync_");
        name.is_some_and(|name| of_others.iter().any(|prefix| name.starts_with(prefix)))
    };
    let rows = PAGE.lines().filter(|line| line.starts_with("| `") && !is_of_others(line));
    let cells = |row: &'static str| row.split('|').map(str::trim).collect::<Vec<_>>();
    rows.map(cells)
        .map(|cells| Documented {
            name: cells[1].trim_matches('`'),
            metric_type: cells[2].trim_end_matches(", L"),
            of_the_hub: cells[2].ends_with(", L"),
            labels: cells[3]
                .split(", ")
                .map(|label| label.trim_matches('`'))
                .filter(|label| *label != "–")
                .collect(),
        })
        .collect()
}

/// Whether `metrics` are those of the page, each of its type and with its labels.
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
            ensure!(labels == row.labels, "{series:?} has not the labels {:?}", row.labels);
        }
    }
    Ok(())
}

/// A tenant on clusters of its own, of which the hub says that they are available.
async fn on_own_clusters(name: &str) -> Result<(Tenant<'static>, [String; 2])> {
    let clusters = [format!("{name}-eu"), format!("{name}-us")];
    let tenant = tenant(name, &[clusters[0].as_str(), clusters[1].as_str()]).await?;
    for cluster in &clusters {
        apply(tenant.client(), &namespace(cluster)).await?;
        available(&tenant, cluster, "True").await?;
    }
    Ok((tenant, clusters))
}

/// Says of a cluster whether the hub hears of its agent.
async fn available(tenant: &Tenant<'_>, cluster: &str, status: &str) -> Result<()> {
    let mut object = managed_cluster(cluster, &Default::default());
    object["status"] = json!({"conditions": [{
        "type": "ManagedClusterConditionAvailable", "status": status, "reason": "Fine", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    apply_with_status(tenant.client(), &object).await.map(drop)
}

/// Answers for the works of the policy `limits` and of the Gateway in `clusters`, once they have this limit.
async fn answer(tenant: &Tenant<'_>, clusters: &[String], limit: i64) -> Result<()> {
    for cluster in clusters {
        let work =
            tenant.until_work(cluster, "ratelimitpolicy-limits", |work| limit_of(work) == limit).await?;
        tenant.answer(&work, &Answer::applied().condition("Enforced", "True", "Enforced", "")).await?;
    }
    Ok(())
}

fn with_limit(limits: &Value, limit: i64) -> Value {
    let mut changed = limits.clone();
    changed["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(limit);
    changed
}

/// A series and its value.
type Expected<'e> = (&'e str, &'e [(&'e str, &'e str)], f64);

/// Waits until each of these series has its value.
async fn until(controller: &Controller, expected: &[Expected<'_>]) -> Result<()> {
    wait::until("the metrics are as expected", LIMIT, || async {
        let metrics = controller.metrics().await?;
        for (name, labels, value) in expected {
            let found = metrics.value(name, labels)?;
            ensure!(found == *value, "{name} {labels:?} is {found} and not {value} in {metrics}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_leader_and_a_follower_serve_every_metric_from_the_start_and_the_linter_finds_nothing() -> Result<()>
{
    let tenant = tenant("linted", &["eu-1", "us-1"]).await?;
    let leader = tenant.controller().await?;
    let follower = tenant.follower().await?;
    for controller in [&leader, &follower] {
        let metrics = controller.metrics().await?;
        metrics.lint().await?;
        are_documented(&metrics)?;
    }
    let metrics = follower.metrics().await?;
    for row in documented().iter().filter(|row| row.of_the_hub) {
        let is_of_it = |name: &str| name == row.name || name.strip_suffix("_count") == Some(row.name);
        let mut said = metrics.series().iter().filter(|series| is_of_it(&series.name) && series.value != 0.0);
        ensure!(said.next().is_none(), "the follower says {:?}", said.next());
    }
    ensure!(metrics.value("policy_sync_watch_up", &[("resource", "gateways")])? == 1.0, "{metrics}");
    Ok(())
}

#[tokio::test]
async fn metrics_say_how_policies_gateways_works_and_clusters_fare() -> Result<()> {
    let (tenant, clusters) = on_own_clusters("fares").await?;
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    answer(&tenant, &clusters, 10).await?;
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
    // Of each there is one at least: a fold, a work made and changed, a watch, an Event, the Lease. They are counted
    // when their answer is there, which is after the hub shows what they did.
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
            // The policy's, and the Gateway's.
            ("policy_sync_problems", &[("category", "InvalidParameters"), ("freezes", "true")], 2.0),
        ],
    )
    .await
}

/// When the last of the requests that fit was answered, in seconds.
fn answered(requests: &[Request], fits: impl Fn(&Request) -> bool) -> Result<f64> {
    let last = requests.iter().rfind(|request| fits(request)).context("there was no such request")?;
    Ok(last.stage_timestamp.0.as_microsecond() as f64 / 1e6)
}

#[tokio::test]
async fn propagation_is_what_the_hubs_own_log_says_of_it() -> Result<()> {
    let (tenant, clusters) = on_own_clusters("propagates").await?;
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    answer(&tenant, &clusters, 10).await?;
    tenant.until_folded(&limits, |_, summary| summary.synced).await?;
    let observed = async || {
        let metrics = controller.metrics().await?;
        let value = |what: &str| metrics.value(&format!("policy_sync_propagation_seconds_{what}"), &[]);
        anyhow::Ok((value("count")?, value("sum")?))
    };
    // What the watch brings late of the one it may bring late of the other: a busy machine is not to blame for both.
    let mut apart = Vec::new();
    for limit in 20..60 {
        let (count, sum) = observed().await?;
        tenant.apply(&with_limit(&limits, limit)).await?;
        answer(&tenant, &clusters, limit).await?;
        let (_, sum) = wait::until("the change is observed", LIMIT, || async {
            let (now, new) = observed().await?;
            ensure!(now == count + 1.0, "{now} are observed");
            Ok((now, new - sum))
        })
        .await?;
        let requests = requests_of(tenant.hub(), &User::admin().name)?;
        let changed = answered(&requests, |request| {
            let object = request.object();
            request.is_write() && object.namespace == tenant.name() && object.resource == "ratelimitpolicies"
        })?;
        let applied = answered(&requests, |request| {
            request.object().namespace == clusters[1] && request.object().subresource == "status"
        })?;
        apart.push((sum - (applied - changed)).abs());
        if apart.iter().filter(|apart| **apart < 0.05).count() == 5 {
            return Ok(());
        }
    }
    anyhow::bail!("it was apart from the log by {apart:?} s")
}

#[tokio::test]
async fn a_change_that_never_ends_is_seen_to_wait() -> Result<()> {
    let (tenant, clusters) = on_own_clusters("waits").await?;
    let controller = tenant.controller().await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    answer(&tenant, &clusters[..1], 10).await?;
    wait::until("the change has waited", LIMIT, || async {
        let waited = controller.metrics().await?.value("policy_sync_propagation_oldest_seconds", &[])?;
        ensure!(waited > 3.0, "it has waited for {waited} s");
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
    answer(&tenant, &clusters, 10).await?;
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
    let is_over = wait::until("the follower says all of it", LIMIT, || async {
        // One that has stopped is not scraped any more.
        let of_leader = leader.metrics().await.map_or([0.0; 4], |metrics| sums(&metrics));
        let of_follower = sums(&follower.metrics().await?);
        let both: Vec<f64> =
            of_leader.iter().zip(of_follower).map(|(leader, follower)| leader + follower).collect();
        let is_too_much = both.iter().zip(whole).any(|(sum, whole)| *sum > whole);
        ensure!(is_too_much || of_follower == whole, "it says {of_follower:?}");
        Ok((is_too_much, both))
    });
    let (is_too_much, both) = is_over.await?;
    ensure!(!is_too_much, "together they say {both:?}");
    until(&follower, &[("policy_sync_policies", &[("state", "synced")], 1.0)]).await
}

#[tokio::test]
async fn one_line_at_info_tells_of_all_works_of_an_object() -> Result<()> {
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
    ensure!(!log.contains("wrote a work"), "each is told of at debug alone");
    Ok(())
}

#[tokio::test]
async fn a_process_says_what_it_was_built_from_and_what_it_uses() -> Result<()> {
    let tenant = tenant("process", &["eu-1", "us-1"]).await?;
    let controller = tenant.controller().await?;
    let metrics = controller.metrics().await?;
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    ensure!(metrics.value("policy_sync_build_info", &version)? == 1.0, "{metrics}");
    ensure!(metrics.value("process_resident_memory_bytes", &[])? > 1e6, "{metrics}");
    Ok(())
}
