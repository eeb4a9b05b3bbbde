//! Injects a fault into each request and event of a story, on an API server in memory with paused time. In
//! the end, the state of the controller must match the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::FutureExt;
use kube::api::DeleteParams;
use policy_sync_controller::admission::auditing::{self, AuditMetrics, Auditing};
use policy_sync_controller::placement_policy::remediation::{self, Remediation, RemediationMetrics};
use policy_sync_controller::rego_loading::{Loaded, RegoLoading, RegoMetrics, Settings};
use policy_sync_controller::webhook_config::{
    self, Authority, FailurePolicy, Url, WebhookConfigMetrics, WebhookConfigWriter,
};
use policy_sync_rego::confined;
use policy_sync_rego::exemptions::Exemptions;
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::memory::fault_plan::{EVENT_FAULTS, Faults, Plan, REQUEST_FAULTS};
use policy_sync_testenv::memory::{MemoryServer, RequestInfo};
use policy_sync_testenv::{crds, fixtures};
use regorus::Value as Rego;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const USER: &str = "rego";
/// A time limit that is longer than one watch lasts.
const LIMIT: Duration = Duration::from_secs(300);
/// The limit until all checks pass after the last fault.
const SOON: Duration = Duration::from_secs(65);
/// Reads Secrets. Of all kinds on the server, only Secrets have no objects of other writers.
const READS: &str = "package admission\nnames[name] { some name; data.kubernetes.secrets.shop[name] }\n";

/// Denies the Secret `two`.
const DENIES: &str = "package admission
import data.k8s.matches
deny[{\"id\": \"no\", \"resource\": {\"kind\": \"secrets\", \"namespace\": ns, \"name\": name}}] {
	matches[[\"secrets\", ns, name, _]]
	name == \"two\"
}
";
/// Sets a label on each placed object.
const PLACES: &str = "package io.k8s.federation.admission\nlabels[\"a\"] = \"b\" { true }\n";
/// The name of the webhook configurations.
const NAME: &str = "policy-sync";
/// The controller name of the GatewayClass.
const CONTROLLER: &str = "example.com/rego";

/// A change that a user makes.
#[derive(Clone, Copy)]
enum UserAction {
    Policy(&'static str, &'static str),
    DeletePolicy(&'static str),
    Secret(&'static str),
    DeleteSecret(&'static str),
}

const STORY: [UserAction; 14] = [
    UserAction::Policy("reads", READS),
    UserAction::Policy("places", PLACES),
    UserAction::Policy("denies", DENIES),
    UserAction::Secret("one"),
    UserAction::Policy("says", "package admission\nsays = 1 { true }\n"),
    UserAction::Secret("two"),
    UserAction::DeleteSecret("one"),
    UserAction::Policy("says", "package admission\nsays = 2 { true }\n"),
    UserAction::Policy("bad", "package bad\np = foo.bar(1) { true }\n"),
    UserAction::DeletePolicy("places"),
    UserAction::DeletePolicy("denies"),
    UserAction::DeletePolicy("says"),
    UserAction::Policy("places", PLACES),
    UserAction::Policy("bad", "package admission\nbad = 3 { true }\n"),
];

/// The expected state of the controller.
#[derive(Clone, Debug, Default, PartialEq)]
struct Expected {
    policies: BTreeMap<&'static str, &'static str>,
    secrets: BTreeSet<&'static str>,
}

impl Expected {
    fn reads(&self) -> bool {
        self.policies.contains_key("reads")
    }

    fn denies(&self) -> bool {
        self.policies.contains_key("denies")
    }

    /// The value of `data.admission`.
    fn admission_data(&self) -> Value {
        let mut admission_data = json!({});
        if self.reads() {
            admission_data["names"] = json!(self.secrets);
        }
        if self.denies() {
            // No object is under review, so no rule denies anything.
            admission_data["deny"] = json!([]);
        }
        for (name, text) in &self.policies {
            let value = text.split(&format!("{name} = ")).nth(1).and_then(|rest| rest.split(' ').next());
            if let Some(value) = value.and_then(|value| value.parse::<i64>().ok()) {
                admission_data[*name] = value.into();
            }
        }
        admission_data
    }

    fn status(&self, name: &str) -> &'static str {
        if self.policies[name].contains("foo.bar") { "error" } else { "ok" }
    }
}

struct Hub {
    server: MemoryServer,
    loaded: Loaded,
}

impl Hub {
    async fn act(&self, act: UserAction, expected: &mut Expected) -> Result<()> {
        let policy = |name: &str, text: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a.rego": text},
                "metadata": {"name": name, "namespace": "policies"}})
        };
        let secret = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "shop"}});
        let client = self.server.client();
        match act {
            UserAction::Policy(name, text) => {
                apply(&client, &policy(name, text)).await?;
                expected.policies.insert(name, text);
            }
            UserAction::DeletePolicy(name) => {
                let (api, name) = api_for(&client, &policy(name, "")).await?;
                api.delete(&name, &DeleteParams::default()).await?;
                expected.policies.remove(&*name);
            }
            UserAction::Secret(name) => {
                apply(&client, &secret(name)).await?;
                expected.secrets.insert(name);
            }
            UserAction::DeleteSecret(name) => {
                let (api, name) = api_for(&client, &secret(name)).await?;
                api.delete(&name, &DeleteParams::default()).await?;
                expected.secrets.remove(&*name);
            }
        }
        Ok(())
    }

    /// Waits until the state is as expected, in the engine and in all published objects.
    async fn until(&self, expected: &Expected, limit: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            let wrong = self.wrong(expected);
            let Some(wrong) = wrong else { return Ok(()) };
            ensure!(start.elapsed() < limit, "{wrong}\nrequests:\n{}", self.server.log_of(USER));
            sleep(Duration::from_millis(200)).await;
        }
    }

    fn wrong(&self, expected: &Expected) -> Option<String> {
        let result = self.loaded.snapshot().query_value("admission", "data.admission", &Rego::new_object());
        let found = match result {
            Ok(found) => serde_json::to_value(found.unwrap_or_else(Rego::new_object)).unwrap_or_default(),
            Err(error) => return Some(error.to_string()),
        };
        let admission_data = expected.admission_data();
        if found != admission_data {
            return Some(format!("data.admission is {found}, expected {admission_data}"));
        }
        let objects = self.server.objects();
        for name in expected.policies.keys() {
            let Some(object) = objects.values().find(|object| object["metadata"]["name"] == *name) else {
                return Some(format!("ConfigMap {name} is missing"));
            };
            let status = &object["metadata"]["annotations"]["openpolicyagent.org/kube-mgmt-status"];
            let status: Value = serde_json::from_str(status.as_str().unwrap_or("null")).unwrap_or_default();
            if status["status"] != expected.status(name) {
                return Some(format!("the status of {name} is {status}"));
            }
        }
        let objects: Vec<Value> = objects.into_values().collect();
        self.wrong_webhooks(expected, &objects)
            .or_else(|| wrong_gateway(expected, &objects))
            .or_else(|| wrong_report(expected, &objects))
    }

    /// The difference between the expected and the actual webhook configurations.
    fn wrong_webhooks(&self, expected: &Expected, objects: &[Value]) -> Option<String> {
        let of = |kind: &str, name: &str| {
            let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
            objects.iter().find(is_it).cloned().unwrap_or_default()
        };
        let secret = of("Secret", "policy-sync-webhook");
        if !["ca.crt", "ca.key", "tls.crt", "tls.key"].iter().all(|key| secret["data"][*key].is_string()) {
            return Some("the certificate is missing".to_owned());
        }
        for (kind, path, is_expected) in [
            ("MutatingWebhookConfiguration", "/placement", expected.policies.contains_key("places")),
            ("MutatingWebhookConfiguration", "/admit", expected.denies()),
            ("ValidatingWebhookConfiguration", "/policies", !expected.policies.is_empty()),
            ("ValidatingWebhookConfiguration", "/admit/validating", expected.denies()),
        ] {
            let mut entries = of(kind, NAME)["webhooks"].as_array().cloned().unwrap_or_default();
            entries.retain(|entry| entry["clientConfig"]["service"]["path"] == path);
            let is_right = |entry: &Value| entry["clientConfig"]["caBundle"] == secret["data"]["ca.crt"];
            if entries.len() != usize::from(is_expected) || !entries.iter().all(is_right) {
                return Some(format!("{kind} has the entries {entries:?}"));
            }
        }
        None
    }

    fn writes(&self) -> usize {
        let is_of_rego = |request: &RequestInfo| {
            ["configmaps", "secrets", "reports"].contains(&request.resource.as_str())
                || request.resource.ends_with("webhookconfigurations")
        };
        self.server
            .count(|request: &RequestInfo| request.user == USER && request.is_write() && is_of_rego(request))
    }
}

/// The difference between the expected and the actual report of violations.
fn wrong_report(expected: &Expected, objects: &[Value]) -> Option<String> {
    let report = objects.iter().find(|object| object["kind"] == "Report");
    let is_expected = expected.denies() && expected.secrets.contains("two");
    match report {
        None => is_expected.then(|| "the report is missing".to_owned()),
        Some(report) => {
            let results = report["results"].as_array().map_or(0, Vec::len);
            let is_right = results == 1 && report["summary"]["fail"] == 1;
            (!is_expected || !is_right).then(|| format!("unexpected report: {report}"))
        }
    }
}

/// The difference between the expected and the actual Gateway that a Rego policy places.
fn wrong_gateway(expected: &Expected, objects: &[Value]) -> Option<String> {
    let Some(gateway) = objects.iter().find(|object| object["kind"] == "Gateway") else {
        return Some("the Gateway is missing".to_owned());
    };
    let metadata = &gateway["metadata"];
    let is_placed = metadata["labels"]["a"] == "b";
    let is_noted = metadata["annotations"]["kuadrant.io/placed-by-policy"].is_string();
    let should = expected.policies.contains_key("places");
    (is_placed != should || is_noted != should).then(|| format!("the Gateway has {metadata}"))
}

/// Performs the actions of [`STORY`]. With `to_the_end`, also waits for the cleanup that follows much later.
async fn play(faults: &Faults, to_the_end: bool) -> Result<()> {
    let server = MemoryServer::hub()?;
    for name in ["policies", "shop", "default"] {
        apply(&server.client(), &fixtures::namespace(name)).await?;
    }
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": NAME}});
        apply(&server.client(), &configuration).await?;
    }
    for definition in crds::reports()? {
        apply(&server.client(), definition.value()).await?;
    }
    apply(&server.client(), &fixtures::gateway_class("rego", CONTROLLER, None)).await?;
    apply(&server.client(), &fixtures::gateway("shop", "web", "rego", None)).await?;
    let mut flow = server.flow_of(USER, CONTROLLER, faults.clone())?;
    let settings = Settings {
        namespaces: BTreeSet::from(["policies".to_owned()]),
        replicate: BTreeSet::from(["secrets".to_owned()]),
        aliases: BTreeMap::new(),
        packages: Default::default(),
        evaluator: Default::default(),
        limit: 100,
        bytes: 128 << 20,
    };
    // Modules are checked in this process, because a separate process would not use the paused time.
    let check: confined::CheckFn = Arc::new(|texts, _| {
        async move { Ok(confined::checked(&texts, Default::default(), &Default::default())) }.boxed()
    });
    let loading = RegoLoading::new(flow.controller.clone(), settings, flow.clock, check)?;
    let hub = Hub { server, loaded: loading.loaded() };
    flow.rego = Some((loading, RegoMetrics::new(&flow.metrics)?));
    let settings = auditing::Settings {
        interval: Some(Duration::from_secs(10)),
        is_served: false,
        name: NAME.to_owned(),
    };
    let (policies_and_exemptions, metrics) =
        ((hub.loaded.clone(), Exemptions::default()), AuditMetrics::new(&flow.metrics)?);
    flow.auditing = Some(Auditing::new(
        policies_and_exemptions,
        Vec::new,
        settings,
        flow.controller.clone(),
        flow.clock,
        metrics,
    ));
    let settings = webhook_config::Settings {
        name: NAME.to_owned(),
        namespace: "default".to_owned(),
        url: Url::of_service("policy-sync-webhook", "default"),
        failure_policy: FailurePolicy::Fail,
        exemptions: Exemptions::default(),
        policy_namespaces: BTreeSet::from(["policies".to_owned()]),
        authority: Authority::Own,
    };
    let registration =
        WebhookConfigWriter::new(flow.controller.clone(), settings, flow.clock, Arc::default());
    flow.webhook_config = Some((registration, WebhookConfigMetrics::new(&flow.metrics)?));
    let settings = remediation::Settings::default();
    let metrics = RemediationMetrics::new(&flow.metrics)?;
    flow.remediation = Some(Remediation::new(flow.controller.clone(), settings, flow.clock, metrics));
    let stop = CancellationToken::new();
    flow.start(stop.clone());
    let (mut expected, over) = (Expected::default(), faults.over(&hub.server, LIMIT));
    let actions = async {
        for act in STORY {
            hub.act(act, &mut expected).await?;
            hub.until(&expected, LIMIT + SOON).await?;
        }
        Ok(())
    };
    match faults.plan() {
        Some(_) => drop(tokio::try_join!(actions, over)?),
        None => actions.await?,
    }
    hub.until(&expected, SOON).await?;
    let writes = hub.writes();
    sleep(LIMIT).await;
    ensure!(hub.writes() == writes, "the controller still writes:\n{}", hub.server.log_of(USER));
    hub.until(&expected, Duration::ZERO).await?;
    if !to_the_end {
        stop.cancel();
        return Ok(());
    }
    // After the cleanup, the controller stops watching kinds for placement.
    let keeps = || hub.loaded.watches().contains_key("gateways.gateway.networking.k8s.io");
    ensure!(keeps(), "Gateways are not watched");
    hub.act(UserAction::DeletePolicy("places"), &mut expected).await?;
    hub.until(&expected, LIMIT).await?;
    sleep(2 * SOON).await;
    ensure!(!keeps(), "Gateways are still watched:\n{}", hub.server.log_of(USER));
    stop.cancel();
    Ok(())
}

fn played(faults: &Faults, to_the_end: bool) -> Result<()> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(play(faults, to_the_end))
}

/// Plays each of `plans` whose request belongs to the Rego part of the controller.
fn sweep(plans: &[Plan], faults: &[&str]) -> Result<()> {
    // Requests with high numbers are left out: the controller repeats discovery long after the story has ended.
    let number = |at: &str| at.rsplit('#').next().and_then(|number| number.parse::<usize>().ok());
    let of_rego = |plan: &&Plan| {
        let at = &plan.at;
        let is_one_of = |first: usize| number(at).is_some_and(|number| number <= first);
        let is_discovery = at.starts_with("get #") && is_one_of(10);
        // The sync also requests Gateways, so only their patches and events belong to placement policies.
        let placed = ["namespaces", "patch gateways", "event of gateways"];
        let is_placed = placed.iter().any(|what| at.contains(what)) && is_one_of(3);
        // Each audit lists its reports. The number of audits in a story differs from run to run, but the first
        // audit always exists.
        let lists = at.starts_with("list ");
        let is_audited = at.contains("openreports.io") && is_one_of(if lists { 1 } else { 3 });
        let about = ["configmaps", "secrets", "webhookconfigurations", "selfsubjectreviews"];
        about.iter().any(|what| at.contains(what)) || is_discovery || is_placed || is_audited
    };
    if let Ok(part) = std::env::var("POLICY_SYNC_FAULT_PLAN") {
        // The variable `POLICY_SYNC_FAULT_PLAN` selects plans as in `tests/faults`.
        let named: Vec<&Plan> = plans.iter().filter(|plan| plan.to_string().contains(&part)).collect();
        println!("{} plans match {part}", named.len());
        return named
            .into_iter()
            .try_for_each(|plan| played(&Faults::of(plan), false).with_context(|| plan.to_string()));
    }
    let plans: Vec<&Plan> = plans.iter().filter(of_rego).collect();
    println!("{} plans", plans.len());
    let tried: BTreeSet<&str> = plans.iter().map(|plan| plan.fault).collect();
    ensure!(tried.len() == faults.len(), "{tried:?}");
    plans.iter().try_for_each(|plan| played(&Faults::of(plan), false).with_context(|| plan.to_string()))
}

#[test]
fn written_modules_are_in_force_and_reported() -> Result<()> {
    played(&Faults::default(), true)
}

#[test]
fn state_is_correct_after_any_fault_of_a_request() -> Result<()> {
    let faults = Faults::default();
    played(&faults, false)?;
    sweep(&faults.request_plans(), &REQUEST_FAULTS.map(|(fault, _)| fault))
}

#[test]
fn state_is_correct_after_any_fault_of_an_event() -> Result<()> {
    let faults = Faults::default();
    played(&faults, false)?;
    sweep(&faults.event_plans(), &EVENT_FAULTS.map(|(fault, _)| fault))
}
