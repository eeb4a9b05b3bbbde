//! The dashboard works in any Grafana. The queries of the dashboard and of the alerts use only metrics that a
//! real controller serves.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::metrics::Metrics;
use policy_sync_testenv::tenant::{LIMIT, Tenant, WorkReport};
use policy_sync_testenv::{Fleet, wait};
use serde_json::{Value, json};

use crate::binary;
use crate::helm::{Helm, Release, chart, required};
use crate::prometheus::{Pod, Rules, check_metric_names, check_results, check_rules, target_labels};

const RELEASE: Release<'_> = Release("policy-sync", "policy-sync");
const JOB: &str = "policy-sync/policy-sync";

fn dashboard() -> Result<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(chart().join("files/dashboard.json"))?)?)
}

fn all<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value[key].as_array().into_iter().flatten()
}

fn text<'v>(value: &'v Value, key: &str) -> Result<&'v str> {
    value[key].as_str().with_context(|| format!("no {key} in {value}"))
}

/// Replaces variables as Grafana does.
fn filled(expression: &str) -> Result<String> {
    let filled = expression.replace("$job", JOB).replace("$__rate_interval", "2m");
    ensure!(!filled.contains('$'), "{expression} has an unknown variable");
    Ok(filled)
}

#[test]
fn dashboard_has_no_dependencies_on_a_grafana_instance() -> Result<()> {
    let dashboard = dashboard()?;
    ensure!(dashboard["uid"] == "policy-sync" && dashboard["id"].is_null(), "uid or id is wrong");
    ensure!(
        dashboard.get("__inputs").is_none() && dashboard.get("__requires").is_none(),
        "the dashboard is an export"
    );
    let variables: Vec<_> = all(&dashboard["templating"], "list").collect();
    ensure!(variables[0]["name"] == "datasource" && variables[0]["type"] == "datasource", "{variables:?}");
    ensure!(variables[0]["query"] == "prometheus", "{variables:?}");

    let source = json!({ "type": "prometheus", "uid": "${datasource}" });
    for variable in variables.iter().filter(|variable| variable["type"] == "query") {
        ensure!(variable["datasource"] == source, "{variable}");
    }
    let (mut ids, mut taken, mut rows) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for panel in all(&dashboard, "panels") {
        let title = text(panel, "title")?;
        ensure!(ids.insert(panel["id"].as_i64().context("no id")?), "{title}: duplicate id");
        let place = |key: &str| panel["gridPos"][key].as_u64().with_context(|| format!("{title}: no {key}"));
        for x in place("x")?..place("x")? + place("w")? {
            for y in place("y")?..place("y")? + place("h")? {
                ensure!(
                    x < 24 && taken.insert((x, y)),
                    "{title} overlaps another panel, or exceeds the grid"
                );
            }
        }
        if panel["type"] == "row" {
            rows.push(title);
            continue;
        }
        ensure!(["timeseries", "stat"].contains(&text(panel, "type")?), "{title}");
        ensure!(!text(&panel["fieldConfig"]["defaults"], "unit")?.is_empty(), "{title}: no unit");
        ensure!(panel["datasource"] == source, "{title}: {}", panel["datasource"]);
        for target in all(panel, "targets") {
            ensure!(target["datasource"] == source, "{title}: {}", target["datasource"]);
            ensure!(!text(target, "legendFormat")?.is_empty(), "{title}: no legend");
        }
        ensure!(all(panel, "targets").next().is_some(), "{title} has no targets");
    }
    ensure!(rows == ["Fleet", "Speed", "Health", "Process"], "{rows:?}");
    Ok(())
}

#[tokio::test]
async fn chart_contains_the_dashboard_for_the_grafana_sidecar() -> Result<()> {
    let mut values = required();
    values["dashboard"] = json!({ "enabled": true });
    let rendered = Helm::alone().await?.template(RELEASE, &values)?;
    let mut found = rendered.all("ConfigMap");
    let map = found.next().context("no ConfigMap")?;
    ensure!(map["metadata"]["labels"]["grafana_dashboard"] == "1", "{}", map["metadata"]);
    let brought: Value = serde_json::from_str(text(&map["data"], "policy-sync.json")?)?;
    ensure!(brought == dashboard()?, "the ConfigMap has another dashboard");
    Ok(())
}

/// The metrics of a leader and a follower. On the hub, one policy is synced and another policy is frozen.
async fn served() -> Result<Vec<Pod>> {
    let hub = Fleet::shared_hub().await?.hub();
    let tenant = Tenant::new(hub, binary(), "watched", &["eu-1", "us-1"]).await?;
    let controller = tenant.controller().await?;
    let follower = tenant.follower().await?;
    let mut frozen = rate_limit_policy(tenant.name(), "frozen", "web");
    frozen["metadata"]["annotations"] = json!({ "kuadrant.io/cluster-selector": "region in (" });
    tenant.apply(&frozen).await?;
    tenant.apply(&rate_limit_policy(tenant.name(), "limits", "web")).await?;
    for cluster in ["eu-1", "us-1"] {
        let work = tenant.until_work(cluster, "ratelimitpolicy-limits", |_| true).await?;
        tenant.report(&work, &WorkReport::applied()).await?;
    }
    let leader = wait::until("one policy is synced and one is frozen", LIMIT, || async {
        let metrics = controller.metrics().await?;
        for state in ["synced", "frozen"] {
            let count = metrics.value("policy_sync_policies", &[("state", state)])?;
            ensure!(count == 1.0, "{count} policies are {state}");
        }
        Ok(metrics)
    })
    .await?;
    Ok(vec![Pod::new("leader", leader), Pod::new("follower", follower.metrics().await?)])
}

#[tokio::test]
async fn dashboard_and_alerts_query_only_served_metrics() -> Result<()> {
    let pods = served().await?;
    let metrics: &Metrics = pods[0].served();
    let dashboard = dashboard()?;

    let mut expressions = Vec::new();
    for panel in all(&dashboard, "panels") {
        for target in all(panel, "targets") {
            let expression = filled(text(target, "expr")?)?;
            check_metric_names(&expression, metrics)
                .with_context(|| text(panel, "title").unwrap_or_default().to_owned())?;
            // A legend may only use labels that the query keeps.
            for label in
                text(target, "legendFormat")?.split("{{").skip(1).filter_map(|rest| rest.split("}}").next())
            {
                let is_left = match expression.split_once(" by (").and_then(|(_, rest)| rest.split_once(')'))
                {
                    Some((left, _)) => left.split(", ").any(|left| left == label),
                    None => target_labels().contains(&label),
                };
                ensure!(is_left, "{expression} drops the label {label}");
            }
            expressions.push(expression);
        }
    }
    ensure!(expressions.len() > 20, "{expressions:?}");
    let variables = all(&dashboard["templating"], "list").filter(|variable| variable["type"] == "query");
    for variable in variables {
        let query = text(&variable["query"], "query")?;
        ensure!(query == text(variable, "definition")?, "{variable}");
        check_metric_names(query, metrics)?;
        let label_query = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (series, _) = label_query
            .and_then(|label_query| label_query.split_once(", "))
            .context("the query is not label_values(…)")?;
        expressions.push(series.to_owned());
    }
    let recorded = expressions
        .iter()
        .enumerate()
        .map(|(number, expression)| json!({ "record": format!("dashboard:{number}"), "expr": expression }));
    check_rules(&json!({ "groups": [{ "name": "dashboard", "rules": recorded.collect::<Vec<_>>() }] }))
        .await?;
    check_results(JOB, &pods, &expressions).await?;

    let mut values = required();
    values["prometheusRule"] = json!({ "enabled": true });
    let rendered = Helm::alone().await?.template(RELEASE, &values)?;
    let rules = &rendered.one("PrometheusRule")?["spec"];
    check_rules(rules).await?;
    for rule in Rules(rules).alerts()? {
        check_metric_names(text(rule, "expr")?, metrics).with_context(|| rule["alert"].to_string())?;
    }
    Ok(())
}
