//! Policies are synced from a hub to a spoke with istiod and the Kuadrant operator, and the reports of these
//! controllers return to the hub. The test simulates only the kubelet and the load balancer.

use std::path::Path;
use std::pin::pin;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, watcher};
use policy_sync_api::annotations::{Summary, Synced};
use policy_sync_api::policy_state::PolicyState;
use policy_sync_testenv::apply::{api_for, apply, apply_with_status, delete};
use policy_sync_testenv::fixtures::{auth_policy, gateway, rate_limit_policy};
use policy_sync_testenv::{Controller, Fleet, FleetOptions, Tenant, crds, wait};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::{LIMIT, second, until_after};
use crate::controllers::{Controllers, Folder, OPERATORS, kuadrant};

const BINARY: &str = env!("CARGO_BIN_EXE_policy-sync");
const RATE_LIMITS: [&str; 3] = ["pilot-discovery", "kuadrant-operator", "limitador-operator"];
const ALL: [&str; 5] =
    ["pilot-discovery", "kuadrant-operator", "limitador-operator", "authorino-operator", "authorino"];

/// A hub, and the spoke `eu-1` with controllers.
struct Downstream {
    // Fields are dropped in this order, so that clients stop before the API server.
    _kubelet: AbortOnDropHandle<()>,
    _controllers: Controllers,
    fleet: Fleet,
    spoke: Client,
}

/// Reports that all replicas of the operators' Deployments are available, whenever a Deployment has changed.
async fn play_kubelet(client: Client) {
    let api: Api<Deployment> = Api::namespaced(client, OPERATORS);
    let deployments = watcher(api.clone(), Config::default()).default_backoff().applied_objects();
    let mut deployments = pin!(deployments);
    while let Some(deployment) = deployments.next().await {
        let reported = match deployment {
            Ok(deployment) => play_pods(&api, deployment).await,
            Err(error) => Err(error.into()),
        };
        // If the report fails, the next event of the Deployment triggers another report.
        if let Err(error) = reported {
            eprintln!("kubelet: {error:#}");
        }
    }
}

async fn play_pods(api: &Api<Deployment>, deployment: Deployment) -> Result<()> {
    let generation = deployment.metadata.generation;
    if deployment.status.is_some_and(|status| status.observed_generation == generation) {
        return Ok(());
    }
    let replicas = deployment.spec.replicas.unwrap_or(1);
    let available = json!({
        "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({
        "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas, "conditions": [available],
    });
    let name = deployment.metadata.name.unwrap_or_default();
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
    Ok(())
}

impl Downstream {
    /// Starts the controllers `names`; `None` if `POLICY_SYNC_DOWNSTREAM` does not have these programs.
    async fn start(names: &[&'static str]) -> Result<Option<Self>> {
        let Some(folder) = Folder::with(names).filter(|folder| folder.has(names)) else { return Ok(None) };
        let options = FleetOptions { policy_controllers: false, ..FleetOptions::spokes(["eu-1"]) };
        let fleet = Fleet::start(options).await?;
        let plane = fleet.spoke("eu-1")?.control_plane();
        let (definitions, spoke) = (folder.crds()?, plane.client()?);
        crds::install(&spoke, &definitions).await?;
        let of_kuadrant: Vec<_> = definitions
            .into_iter()
            .filter(|definition| definition.name().ends_with(".kuadrant.io"))
            .collect();
        crds::install(&fleet.hub().client()?, &of_kuadrant).await?;
        let controllers = Controllers::start(plane, &folder, names).await?;
        let kubelet = AbortOnDropHandle::new(tokio::spawn(play_kubelet(spoke.clone())));
        Ok(Some(Self { _kubelet: kubelet, _controllers: controllers, fleet, spoke }))
    }

    /// Creates the Kuadrant object, and waits until `objects` of the operators are ready.
    async fn install_kuadrant(&self, objects: &[(&str, &str, &str)]) -> Result<()> {
        apply(&self.spoke, &kuadrant()).await?;
        for (api_version, kind, name) in objects {
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": OPERATORS}});
            wait::until(&format!("{kind} {name} is ready"), LIMIT, || async {
                let (api, name) = api_for(&self.spoke, &object).await?;
                let found = api.get(&name).await?;
                let conditions = found.data["status"]["conditions"].as_array().into_iter().flatten();
                let mut ready = conditions.filter(|found| found["type"] == "Ready");
                ensure!(ready.any(|found| found["status"] == "True"), "{}", found.data);
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// A tenant of the hub with its controller. Its Gateway `web` is programmed on the spoke, and `routes` of the spoke
    /// are attached to this Gateway.
    async fn tenant(&self, name: &str, kinds: &[&str], routes: &[&str]) -> Result<SyncedTenant<'_>> {
        let tenant = Tenant::new(self.fleet.hub(), Path::new(BINARY), name, &["eu-1"]).await?;
        let kinds: Vec<Value> = kinds
            .iter()
            .map(|resource| json!({"group": "kuadrant.io", "version": "v1", "resource": resource}))
            .collect();
        let parameters =
            json!({"policiesToSync": kinds, "policyWaitSeconds": 60, "policyWaitAction": "serve"});
        tenant.parameters(&parameters).await?;
        let controller = tenant.controller().await?;
        let traveller = SyncedTenant { tenant, spoke: self.spoke.clone(), controller: Some(controller) };
        traveller.until_copied(&gateway(name, "web", name, None), |_| true).await?;
        traveller.play_load_balancer().await?;
        for route in routes {
            traveller.route(route).await?;
        }
        Ok(traveller)
    }
}

/// A tenant of the hub, and its namespace on the spoke.
struct SyncedTenant<'f> {
    tenant: Tenant<'f>,
    spoke: Client,
    controller: Option<Controller>,
}

impl SyncedTenant<'_> {
    fn namespace(&self) -> String {
        format!("kuadrant-{}", self.tenant.name())
    }

    fn limits(&self, name: &str) -> Value {
        rate_limit_policy(self.tenant.name(), name, "web")
    }

    /// The copy of the object on the spoke.
    fn downstream(&self, object: &Value) -> Value {
        let mut copy = object.clone();
        copy["metadata"]["namespace"] = self.namespace().into();
        copy
    }

    /// Creates the Service that istiod expects for the Gateway `web`, with an address.
    async fn play_load_balancer(&self) -> Result<()> {
        let metadata = json!({"name": "web-istio", "namespace": self.namespace()});
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
        });
        apply_with_status(&self.spoke, &service).await?;
        let mut metadata = metadata;
        metadata["labels"] = json!({"kubernetes.io/service-name": "web-istio"});
        let endpoints = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata, "addressType": "IPv4",
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["10.1.1.1"], "conditions": {"ready": true}}],
        });
        apply(&self.spoke, &endpoints).await?;
        Ok(())
    }

    /// Creates a route on the spoke for the Gateway `web`, with its Service.
    async fn route(&self, name: &str) -> Result<()> {
        let metadata = json!({"name": name, "namespace": self.namespace()});
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"name": "http", "port": 80}]},
        });
        let matches = json!([{"path": {"type": "PathPrefix", "value": format!("/{name}")}}]);
        let route = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": metadata,
            "spec": {
                "parentRefs": [{"name": "web"}],
                "rules": [{"matches": matches, "backendRefs": [{"name": name, "port": 80}]}],
            },
        });
        apply(&self.spoke, &service).await?;
        apply(&self.spoke, &route).await?;
        Ok(())
    }

    /// The spoke's own policy for the route `route`.
    fn own(&self, route: &str) -> Value {
        let mut own = rate_limit_policy(&self.namespace(), &format!("own-{route}"), route);
        own["spec"]["targetRef"]["kind"] = "HTTPRoute".into();
        own
    }

    async fn until_copied(
        &self,
        object: &Value,
        fits: impl Fn(&DynamicObject) -> bool,
    ) -> Result<DynamicObject> {
        let copy = self.downstream(object);
        wait::until("the copy is as expected", LIMIT, || async {
            let (api, name) = api_for(&self.spoke, &copy).await?;
            let copy = api.get(&name).await?;
            ensure!(fits(&copy), "{}", copy.data);
            Ok(copy)
        })
        .await
    }

    async fn until_gone(&self, object: &Value) -> Result<()> {
        let (api, name) = api_for(&self.spoke, &self.downstream(object)).await?;
        wait::until("the copy is deleted", LIMIT, || async {
            ensure!(api.get_opt(&name).await?.is_none(), "the copy exists");
            Ok(())
        })
        .await
    }

    /// Waits until the policy is synced, and the hub reports this state for the spoke.
    async fn until(&self, policy: &Value, state: PolicyState) -> Result<(Synced, Summary)> {
        let fits = |entries: &[Synced], summary: &Summary| {
            summary.synced && matches!(entries, [entry] if PolicyState::of(entry) == state)
        };
        let (mut entries, summary) = self.tenant.until_folded(policy, fits).await?;
        Ok((entries.remove(0), summary))
    }

    /// Waits until the Limitador object has exactly these limits for the policies of this tenant. The operator writes
    /// these limits.
    async fn until_limited(&self, expected: &[i64]) -> Result<()> {
        let object = json!({
            "apiVersion": "limitador.kuadrant.io/v1alpha1", "kind": "Limitador",
            "metadata": {"name": "limitador", "namespace": OPERATORS},
        });
        let (api, name) = api_for(&self.spoke, &object).await?;
        wait::until("Limitador has the limits", LIMIT, || async {
            let found = api.get(&name).await?;
            let limits = found.data["spec"]["limits"].as_array().into_iter().flatten();
            let own = limits.filter(|limit| {
                limit["namespace"].as_str().is_some_and(|namespace| namespace.starts_with(&self.namespace()))
            });
            let mut values: Vec<i64> = own.filter_map(|limit| limit["max_value"].as_i64()).collect();
            values.dedup();
            ensure!(values == expected, "{}", found.data["spec"]);
            Ok(())
        })
        .await
    }

    fn run(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(BINARY);
        command.args(arguments).args(["--controller-name", &self.tenant.controller_name()]);
        Ok(command.arg("--kubeconfig").arg(self.tenant.hub().kubeconfig()).output()?)
    }

    /// Checks the exit code of `status policies`, and that the row of `policy` has all `words`.
    fn shows(&self, policy: &Value, code: i32, words: &[&str]) -> Result<()> {
        let output = self.run(&["status", "policies", "-n", self.tenant.name()])?;
        let text = String::from_utf8_lossy(&output.stdout);
        let name = policy["metadata"]["name"].as_str().unwrap_or_default();
        let row = text.lines().find(|line| line.split_whitespace().any(|word| word == name));
        let row = row.with_context(|| format!("{output:?}"))?;
        ensure!(words.iter().all(|word| row.contains(word)), "{row}");
        ensure!(output.status.code() == Some(code), "{output:?}");
        Ok(())
    }
}

fn message<'e>(entry: &'e Synced, condition: &str) -> &'e str {
    entry.condition(condition).and_then(|condition| condition.message.as_deref()).unwrap_or_default()
}

fn with_limit(policy: &Value, limit: i64) -> Value {
    let mut policy = policy.clone();
    policy["spec"]["limits"]["all"]["rates"][0]["limit"] = limit.into();
    policy
}

#[tokio::test]
async fn rate_limits_of_the_hub_are_enforced_by_the_operator() -> Result<()> {
    let Some(downstream) = Downstream::start(&RATE_LIMITS).await? else { return Ok(()) };
    let kinds = ["ratelimitpolicies", "dnspolicies", "tlspolicies"];
    let traveller = downstream.tenant("limits", &kinds, &["one", "two"]).await?;
    let limits = traveller.limits("limits");
    traveller.tenant.apply(&limits).await?;

    // Kuadrant is not installed yet.
    let (entry, _) = traveller.until(&limits, PolicyState::NotEnforced).await?;
    let reason = entry.condition("Enforced").and_then(|condition| condition.reason.as_deref());
    ensure!(reason == Some("MissingResource"), "{entry:?}");
    traveller.shows(&limits, 1, &["eu-1: NotEnforced: ", "MissingResource"])?;

    downstream.install_kuadrant(&[("limitador.kuadrant.io/v1alpha1", "Limitador", "limitador")]).await?;
    let (entry, _) = traveller.until(&limits, PolicyState::Enforced).await?;
    ensure!(
        message(&entry, "Enforced") == "RateLimitPolicy has been successfully enforced",
        "unexpected message: {entry:?}"
    );
    traveller.until_limited(&[10]).await?;
    traveller.shows(&limits, 0, &["Enforced"])?;
    travels(&traveller, &limits).await?;
    conflicts(&traveller, &limits).await?;
    refusals(&traveller).await?;
    same_policy_wins(&downstream).await
}

/// Checks that a change and an override reach the spoke, and that the Gateway reports the policy.
async fn travels(traveller: &SyncedTenant<'_>, limits: &Value) -> Result<()> {
    traveller.tenant.apply(&with_limit(limits, 20)).await?;
    traveller.until_limited(&[20]).await?;
    traveller.until(limits, PolicyState::Enforced).await?;

    let patch = json!({"limits": {"all": {"rates": [{"limit": 5, "window": "10s"}]}}});
    let overrides = json!([{"clusterSelector": "region=eu", "patch": patch}]).to_string();
    let mut overridden = limits.clone();
    overridden["metadata"]["annotations"] = json!({"kuadrant.io/cluster-overrides": overrides});
    traveller.tenant.apply(&overridden).await?;
    traveller.until_limited(&[5]).await?;
    traveller.tenant.apply(limits).await?;
    traveller.until_limited(&[10]).await?;
    traveller.until(limits, PolicyState::Enforced).await?;

    wait::until("the Gateway reports the policy", LIMIT, || async {
        let output = traveller.run(&["status", "cluster", "eu-1", "-o", "json"])?;
        let shown: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
        let mut items = shown["items"].as_array().into_iter().flatten();
        let says = format!("Object affected by RateLimitPolicy [{}/limits]", traveller.namespace());
        ensure!(items.any(|item| item["fields"]["RateLimitPolicyAffected"] == *says), "{shown}");
        Ok(())
    })
    .await
}

/// The spoke's own policies take precedence on one route, and then on all routes.
async fn conflicts(traveller: &SyncedTenant<'_>, limits: &Value) -> Result<()> {
    let [one, two] = ["one", "two"].map(|route| traveller.own(route));
    apply(&traveller.spoke, &one).await?;
    let (entry, _) = traveller.until(limits, PolicyState::PartiallyEnforced).await?;
    ensure!(message(&entry, "Enforced").contains("partially enforced"), "{entry:?}");
    traveller.shows(limits, 1, &["eu-1: PartiallyEnforced: "])?;

    apply(&traveller.spoke, &two).await?;
    let (entry, _) = traveller.until(limits, PolicyState::Overridden).await?;
    ensure!(message(&entry, "Enforced").contains("/own-"), "{entry:?}");
    traveller.shows(limits, 0, &["Overridden"])?;
    let explained =
        traveller.run(&["explain", "ratelimitpolicy", "limits", "-n", traveller.tenant.name()])?;
    let text = String::from_utf8_lossy(&explained.stdout);
    ensure!(text.contains("overridden by a policy that was created on the cluster"), "{text}");

    for own in [&one, &two] {
        delete(&traveller.spoke, own).await?;
    }
    traveller.until(limits, PolicyState::Enforced).await?;
    traveller.tenant.delete(limits).await?;
    traveller.until_gone(limits).await?;
    traveller.until_limited(&[]).await
}

/// Policies that the operator does not accept.
async fn refusals(traveller: &SyncedTenant<'_>) -> Result<()> {
    let policy = |kind: &str, name: &str, namespace: &str, field: &str, value: Value| {
        let mut policy = rate_limit_policy(namespace, name, "web");
        policy["kind"] = kind.into();
        if let Some(spec) = policy["spec"].as_object_mut() {
            spec.remove("limits");
            spec.insert(field.to_owned(), value);
        }
        policy
    };
    let issuer = json!({"name": "missing", "kind": "Issuer"});
    let tls = policy("TLSPolicy", "tls", traveller.tenant.name(), "issuerRef", issuer);
    traveller.tenant.apply(&tls).await?;
    let (entry, _) = traveller.until(&tls, PolicyState::Rejected).await?;
    let accepted = entry.condition("Accepted").context("the condition Accepted is missing")?;
    ensure!(accepted.reason.as_deref() == Some("Invalid"), "{entry:?}");
    traveller.shows(&tls, 1, &["eu-1: Rejected: ", "Invalid", "unable to find issuer"])?;

    let providers = json!([{"name": "provider"}]);
    let own = policy("DNSPolicy", "own", &traveller.namespace(), "providerRefs", providers.clone());
    until_after(second(&apply(&traveller.spoke, &own).await?)?).await?;
    let dns = policy("DNSPolicy", "dns", traveller.tenant.name(), "providerRefs", providers);
    traveller.tenant.apply(&dns).await?;
    let (entry, summary) = traveller.until(&dns, PolicyState::Rejected).await?;
    let accepted = entry.condition("Accepted").context("the condition Accepted is missing")?;
    ensure!(accepted.reason.as_deref() == Some("Conflicted"), "{entry:?}");
    ensure!(summary.rejected == 1, "{summary:?}");
    traveller.shows(&dns, 1, &["eu-1: Rejected: ", "Conflicted"])?;
    for policy in [&tls, &dns] {
        traveller.tenant.delete(policy).await?;
        traveller.until_gone(policy).await?;
    }
    delete(&traveller.spoke, &own).await
}

/// Two policies of the hub have the same target. The spoke must enforce the younger policy, as an operator on the
/// hub would. If both copies were created in the same second, the operator would enforce the older policy because
/// of its name.
async fn same_policy_wins(downstream: &Downstream) -> Result<()> {
    let mut traveller = downstream.tenant("order", &["ratelimitpolicies"], &["one"]).await?;
    let (zzz, aaa) = (with_limit(&traveller.limits("zzz"), 7), with_limit(&traveller.limits("aaa"), 8));
    traveller.controller.take().context("no controller runs")?.terminate().await?;
    until_after(second(&traveller.tenant.apply(&zzz).await?)?).await?;
    traveller.tenant.apply(&aaa).await?;
    traveller.controller = Some(traveller.tenant.controller().await?);

    let older = second(&traveller.until_copied(&zzz, |_| true).await?)?;
    let younger = second(&traveller.until_copied(&aaa, |_| true).await?)?;
    ensure!(older < younger, "the copies were created at {older} and {younger}");
    traveller.until(&aaa, PolicyState::Enforced).await?;
    traveller.until(&zzz, PolicyState::Overridden).await?;
    traveller.until_limited(&[8]).await?;
    let explained = traveller.run(&["explain", "ratelimitpolicy", "zzz", "-n", traveller.tenant.name()])?;
    let text = String::from_utf8_lossy(&explained.stdout);
    ensure!(text.contains("overridden by policy order/aaa of the hub"), "{text}");
    Ok(())
}

#[tokio::test]
async fn authentication_of_the_hub_is_enforced_by_the_operator() -> Result<()> {
    let Some(downstream) = Downstream::start(&ALL).await? else { return Ok(()) };
    let ready = [
        ("limitador.kuadrant.io/v1alpha1", "Limitador", "limitador"),
        ("operator.authorino.kuadrant.io/v1beta1", "Authorino", "authorino"),
    ];
    downstream.install_kuadrant(&ready).await?;
    let traveller = downstream.tenant("login", &["authpolicies"], &["one"]).await?;
    let login = auth_policy(traveller.tenant.name(), "login", "web");
    traveller.tenant.apply(&login).await?;
    let (entry, _) = traveller.until(&login, PolicyState::Enforced).await?;
    ensure!(
        message(&entry, "Enforced") == "AuthPolicy has been successfully enforced",
        "unexpected message: {entry:?}"
    );
    traveller.tenant.delete(&login).await?;
    traveller.until_gone(&login).await
}
