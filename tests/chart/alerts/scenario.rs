//! A healthy hub with two spokes: the chart is installed, two controllers run in place of its pods, and one
//! policy is on both spokes.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Patch, PatchParams};
use policy_sync_api::cluster::AVAILABLE;
use policy_sync_testenv::apply::{api_for, apply, apply_all, apply_status, apply_with_status};
use policy_sync_testenv::{Controller, Fleet, FleetOptions, Spoke, fixtures, wait};
use serde_json::{Value, json};

use crate::helm::{Helm, Release, Rendered, required};
use crate::prometheus::{Case, FiringAlert, Phase, Pod, Rules};
use crate::rights;
use crate::runbook::OnCall;

/// The timeout of each wait, for a busy machine.
const LIMIT: Duration = Duration::from_secs(90);
const RELEASE: Release<'_> = Release("policy-sync", "policy-sync");
/// The number of scrapes of a healthy hub before and after a state: ten minutes.
const WELL: usize = 20;
/// The number of scrapes in a state: half an hour, twice the longest waiting time of an alert.
const LASTS: usize = 60;
/// The metric for the age of the oldest change that is not applied.
pub(super) const OLDEST: &str = "policy_sync_propagation_oldest_seconds";

/// The hub, its controllers, and the scraped metrics.
pub(super) struct Scenario {
    pub(super) fleet: Fleet,
    pub(super) client: Client,
    pub(super) reader: OnCall,
    rendered: Rendered,
    replicas: Vec<(&'static str, Controller)>,
    well: Vec<Pod>,
    pub(super) cases: Vec<Case>,
}

impl Scenario {
    pub(super) async fn begin() -> Result<Self> {
        let fleet = Fleet::start(FleetOptions::spokes(["eu-1", "us-1"])).await?;
        let (hub, client) = (fleet.hub(), fleet.hub().client()?);
        for spoke in fleet.spokes() {
            available(&client, spoke, "True").await?;
        }
        let helm = Helm::of(hub).await?;
        let mut values = required();
        let kind = json!({ "group": "kuadrant.io", "version": "v1", "resource": "ratelimitpolicies" });
        values["gatewayClass"] = json!({ "create": true, "parameters": { "policiesToSync": [kind] } });
        helm.install(RELEASE, &values)?;
        // The PrometheusRule is rendered, but not installed: the hub has no CustomResourceDefinition for
        // PrometheusRules.
        values["prometheusRule"] = json!({ "enabled": true });
        let rendered = helm.template(RELEASE, &values)?;
        let reader = OnCall::of(hub, RELEASE).await?;
        let well = Vec::new();
        let mut scenario =
            Self { client, reader, rendered, replicas: Vec::new(), well, cases: Vec::new(), fleet };
        scenario.start("a").await?;
        scenario.start("b").await?;
        let decision = fixtures::placement_decision("shop", "everywhere", 1, &["eu-1", "us-1"]);
        apply(&scenario.client, &fixtures::namespace("shop")).await?;
        apply_with_status(&scenario.client, &decision).await?;
        apply_with_status(&scenario.client, &fixtures::placement("shop", "everywhere", 2)).await?;
        apply_all(&scenario.client, [&gateway(), &policy("limits")]).await?;
        scenario.well = scenario.until_healthy().await?;
        Ok(scenario)
    }

    /// Starts another controller in place of the pod `name`, with the rights and flags from the chart.
    pub(super) async fn start(&mut self, name: &'static str) -> Result<()> {
        let controller = rights::replica(self.fleet.hub(), RELEASE, &self.rendered).await?;
        self.replicas.push((name, controller));
        Ok(())
    }

    /// Kills the controller that leads.
    pub(super) async fn kill_leader(&mut self) -> Result<()> {
        for (number, (_, controller)) in self.replicas.iter().enumerate() {
            if controller.is_leader().await? {
                self.replicas.remove(number).1.kill();
                return Ok(());
            }
        }
        anyhow::bail!("no leader exists")
    }

    /// Stops all controllers.
    pub(super) async fn stop(&mut self) -> Result<()> {
        for (_, controller) in self.replicas.drain(..) {
            controller.terminate().await?;
        }
        Ok(())
    }

    /// Scrapes all controllers.
    pub(super) async fn scrape(&self) -> Result<Vec<Pod>> {
        let mut pods = Vec::new();
        for (name, controller) in &self.replicas {
            pods.push(Pod::new(name, controller.metrics().await?));
        }
        Ok(pods)
    }

    /// Waits until `is_so` accepts the metrics, and returns them.
    pub(super) async fn until(&self, what: &str, is_so: impl Fn(&[Pod]) -> Result<()>) -> Result<Vec<Pod>> {
        wait::until(what, LIMIT, || async {
            let pods = self.scrape().await?;
            is_so(&pods)?;
            Ok(pods)
        })
        .await
    }

    /// Waits until the hub is healthy again, and returns the metrics.
    pub(super) async fn until_healthy(&self) -> Result<Vec<Pod>> {
        self.until("the hub is healthy", |pods| {
            is(pods, "policy_sync_leader", &[], 1.0)?;
            let policies = sum(pods, "policy_sync_policies", &[]);
            ensure!(policies > 0.0, "no policies");
            is(pods, "policy_sync_policies", &[("state", "synced")], policies)?;
            is(pods, "policy_sync_gateways", &[("state", "programmed")], 1.0)?;
            is(pods, "policy_sync_problems", &[("freezes", "true")], 0.0)?;
            is(pods, "policy_sync_classes", &[("state", "accepted")], 1.0)?;
            is(pods, "policy_sync_kinds", &[("state", "Resolved")], 1.0)?;
            is(pods, "policy_sync_clusters", &[("state", "available")], 2.0)?;
            is(pods, OLDEST, &[], 0.0)?;
            let watched = pods.iter().flat_map(|pod| pod.served().series());
            let down = watched.filter(|series| series.name == "policy_sync_watch_up" && series.value == 0.0);
            ensure!(down.clone().next().is_none(), "not watched: {:?}", down.collect::<Vec<_>>());
            Ok(())
        })
        .await
    }

    /// Adds a case: the pods serve `state`, and `mended` after the fix. Only the alerts `expected` fire in
    /// the state.
    pub(super) fn case(
        &mut self,
        name: &'static str,
        state: Vec<Pod>,
        mended: Vec<Pod>,
        expected: &[FiringAlert],
    ) -> Result<()> {
        let phases = vec![Phase(WELL, self.well.clone()), Phase(LASTS, state), Phase(WELL, mended)];
        let mut checks = vec![(WELL - 1, Vec::new()), (WELL + LASTS - 1, expected.to_vec())];
        checks.push((2 * WELL + LASTS - 1, Vec::new()));
        let rules = self.rules()?;
        // Just before the waiting time of an alert ends, only the alerts with shorter waiting times fire.
        for FiringAlert(alert, _) in expected {
            let wait = rules.waits(alert)?;
            let longer = |firing: &&FiringAlert| rules.waits(firing.0).is_ok_and(|waits| waits < wait);
            let others = expected.iter().filter(longer).copied().collect();
            checks.push((WELL + wait - 1, others));
        }
        self.cases.push(Case { name, phases, checks });
        Ok(())
    }

    /// Adds a case in which no alert fires: the pods serve `between` for one scrape, between a healthy state
    /// and `after`.
    pub(super) fn add_handover_case(&mut self, between: Vec<Pod>, after: Vec<Pod>) {
        let phases = vec![Phase(WELL, self.well.clone()), Phase(1, between), Phase(WELL, after)];
        let checks = (WELL..2 * WELL).map(|scrape| (scrape, Vec::new())).collect();
        self.cases.push(Case { name: "another pod takes over", phases, checks });
    }

    /// The alerts that fire in at least one case.
    pub(super) fn fired(&self) -> BTreeSet<&'static str> {
        let checks = self.cases.iter().flat_map(|case| &case.checks);
        checks.flat_map(|(_, firing)| firing.iter().map(|FiringAlert(alert, _)| *alert)).collect()
    }

    /// The rules of the chart.
    pub(super) fn rules(&self) -> Result<Rules<'_>> {
        Ok(Rules(&self.rendered.one("PrometheusRule")?["spec"]))
    }

    /// The `job` label of the pods in Prometheus.
    pub(super) fn job(&self) -> String {
        format!("{}/{}", RELEASE.1, RELEASE.0)
    }

    /// The object of the chart with this kind and name.
    pub(super) fn rendered(&self, kind: &'static str, name: &str) -> Result<&Value> {
        let found = self.rendered.all(kind).find(|object| object["metadata"]["name"] == name);
        found.with_context(|| format!("no {kind} {name} in the chart"))
    }

    /// Removes verbs on a resource from a role of the chart.
    pub(super) async fn remove_verbs(
        &self,
        (kind, name): (&'static str, &str),
        resource: &str,
        verbs: &[&str],
    ) -> Result<()> {
        let role = self.rendered(kind, name)?;
        let texts = |rule: &Value, key: &str| -> Result<Vec<String>> {
            Ok(serde_json::from_value(rule[key].clone())?)
        };
        let mut rules = Vec::new();
        for rule in role["rules"].as_array().into_iter().flatten() {
            let (of_it, others): (Vec<_>, Vec<_>) =
                texts(rule, "resources")?.into_iter().partition(|found| found == resource);
            let mut left = texts(rule, "verbs")?;
            rules.push(json!({ "apiGroups": rule["apiGroups"], "resources": others, "verbs": left }));
            left.retain(|verb| !verbs.contains(&verb.as_str()));
            rules.push(json!({ "apiGroups": rule["apiGroups"], "resources": of_it, "verbs": left }));
        }
        let is_empty = |rule: &Value, key: &str| rule[key].as_array().is_none_or(Vec::is_empty);
        rules.retain(|rule| !is_empty(rule, "resources") && !is_empty(rule, "verbs"));
        let (roles, name) = api_for(&self.client, role).await?;
        let patch = Patch::Merge(json!({ "rules": rules }));
        roles.patch(&name, &PatchParams::default(), &patch).await.context("removing a permission")?;
        Ok(())
    }

    /// Sets whether a spoke is available, as Open Cluster Management does.
    pub(super) async fn available(&self, spoke: &str, status: &str) -> Result<()> {
        available(&self.client, self.fleet.spoke(spoke)?, status).await
    }

    /// Runs the helm command of the runbook, which restores all objects of the chart.
    pub(super) async fn upgrade(&mut self, alert: &str) -> Result<()> {
        self.reader.repair(alert, "helm upgrade", &[]).await
    }
}

async fn available(client: &Client, spoke: &Spoke, status: &str) -> Result<()> {
    let mut cluster = fixtures::managed_cluster(spoke.name(), &Default::default());
    cluster["status"] = json!({ "conditions": [{
        "type": AVAILABLE, "status": status, "reason": "Told", "message": "",
        "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }]});
    apply_status(client, &cluster).await.map(drop)
}

/// The Gateway of the scenario.
pub(super) fn gateway() -> Value {
    fixtures::gateway("shop", "web", "multi-cluster", Some("everywhere"))
}

/// A policy for the Gateway.
pub(super) fn policy(name: &str) -> Value {
    fixtures::rate_limit_policy("shop", name, "web")
}

/// The sum of a series over all pods.
fn sum(pods: &[Pod], name: &str, labels: &[(&str, &str)]) -> f64 {
    pods.iter().map(|pod| pod.served().sum(name, labels)).sum()
}

/// Checks the sum of a series over all pods.
pub(super) fn is(pods: &[Pod], name: &str, labels: &[(&str, &str)], expected: f64) -> Result<()> {
    let found = sum(pods, name, labels);
    ensure!(found == expected, "{name} {labels:?} is {found}, expected {expected}");
    Ok(())
}
