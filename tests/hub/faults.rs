//! A single fault between the controller and a real API server does not change the final state.
//!
//! The sweep over every request and event is in `tests/faults`, against a server in memory. This sample shows
//! that a real API server gives the same result.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use policy_sync_testenv::fixtures::{gateway, managed_cluster, namespace, rate_limit_policy};
use policy_sync_testenv::proxy::{Fault, Proxy, Target};
use policy_sync_testenv::tenant::{LIMIT, Tenant, WorkReport, all_kinds};
use policy_sync_testenv::{ControlPlane, Controller, Fleet, FleetOptions, wait};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{ON_BOTH, ON_EU, limit_of};

/// How many scenarios run concurrently.
const AT_ONCE: usize = 8;

/// The process that is killed when the fault strikes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crash {
    Nothing,
    Controller,
    ApiServer,
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    target: Target,
    fault: Fault,
    crash: Crash,
}

fn plan((verb, resource, nth): (&'static str, &'static str, usize), fault: Fault) -> Plan {
    Plan { target: Target { verb, resource, nth }, fault, crash: Crash::Nothing }
}

fn crash(at: (&'static str, &'static str, usize), crash: Crash) -> Plan {
    Plan { crash, ..plan(at, Fault::Halted) }
}

/// Faults of requests and of watches, spread over the requests of the scenario.
fn plans() -> Vec<Plan> {
    let requests = [
        ("create", "manifestworks", 1),
        ("create", "manifestworks", 4),
        ("patch", "manifestworks", 1),
        ("delete", "manifestworks", 1),
        ("delete", "manifestworks", 3),
        ("patch", "ratelimitpolicies", 1),
        ("patch", "ratelimitpolicies", 2),
        ("list", "manifestworks", 1),
        ("list", "placementdecisions", 2),
        ("get", "customresourcedefinitions", 2),
    ];
    let faults = [
        Fault::ResponseLost,
        Fault::NeverSent,
        Fault::Refused(409),
        Fault::Refused(403),
        Fault::Refused(422),
        Fault::Refused(429),
        Fault::Refused(500),
        Fault::Refused(503),
        Fault::Late(Duration::from_secs(8)),
    ];
    // Combines each request with three faults, so that each fault has several requests.
    let of_requests = requests.into_iter().enumerate().flat_map(|(index, request)| {
        [0, 1, 4].map(|step| plan(request, faults[(index + step * 2) % faults.len()]))
    });
    let of_events = [
        plan(("event", "manifestworks", 3), Fault::Cut),
        plan(("event", "ratelimitpolicies", 2), Fault::CutWithin),
        plan(("event", "placementdecisions", 1), Fault::Expired),
        plan(("event", "manifestworks", 5), Fault::Twice),
        plan(("event", "ratelimitpolicies", 1), Fault::Garbled),
        plan(("event", "placements", 1), Fault::Late(Duration::from_secs(8))),
        plan(("event", "manifestworks", 1), Fault::Late(Duration::from_secs(8))),
    ];
    let crashes = [
        crash(("create", "manifestworks", 2), Crash::Controller),
        crash(("patch", "manifestworks", 2), Crash::Controller),
        crash(("delete", "manifestworks", 2), Crash::Controller),
    ];
    of_requests.chain(of_events).chain(crashes).collect()
}

/// The result of a scenario.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    /// The copy in each work, as text.
    works: BTreeMap<String, String>,
    /// How often each work was created and deleted.
    effects: BTreeMap<String, usize>,
}

/// A tenant with its controller behind a proxy.
struct ProxiedTenant<'h> {
    tenant: Tenant<'h>,
    proxy: Proxy,
    controller: Mutex<Option<Controller>>,
}

impl<'h> ProxiedTenant<'h> {
    async fn new(hub: &'h ControlPlane, name: &str, plan: Option<Plan>) -> Result<Self> {
        let tenant = Tenant::new(hub, binary(), name, &["eu-1", "us-1"]).await?;
        let fault = plan.map(|plan| (plan.target, plan.fault));
        let proxy = Proxy::start(hub, &format!("proxied-{name}"), fault).await?;
        let proxied = Self { tenant, proxy, controller: Mutex::default() };
        proxied.start_controller().await?;
        Ok(proxied)
    }

    async fn start_controller(&self) -> Result<()> {
        let name = format!("--controller-name={}", self.tenant.controller_name());
        let started = Controller::launch_behind(&self.proxy, binary(), self.tenant.hub(), &[&name])?;
        // Replacing the previous controller kills that controller.
        *self.controller.lock().await = Some(started);
        Ok(())
    }

    /// Runs the scenario; each step waits for its effect.
    async fn story(&self) -> Result<()> {
        let tenant = &self.tenant;
        let mut limits = rate_limit_policy(tenant.name(), "limits", "web");
        self.retry_while_down("create the policy", || tenant.apply(&limits)).await?;
        tenant.until_works(&ON_BOTH).await?;
        for cluster in ["eu-1", "us-1"] {
            let work = tenant.work(cluster, "ratelimitpolicy-limits").await?;
            let report = WorkReport::applied().condition("Enforced", "True", "Enforced", "");
            self.retry_while_down("report the policy as enforced", || tenant.report(&work, &report)).await?;
        }
        tenant.until_folded(&limits, |_, summary| summary.enforced == 2).await?;

        limits["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(20);
        self.retry_while_down("change the policy", || tenant.apply(&limits)).await?;
        for cluster in ["eu-1", "us-1"] {
            tenant.until_work(cluster, "ratelimitpolicy-limits", |work| limit_of(work) == 20).await?;
        }
        tenant.until_folded(&limits, |_, summary| summary.applied == 0).await?;

        self.retry_while_down("unplace us-1", || tenant.place("all", &["eu-1"])).await?;
        tenant.until_works(&ON_EU).await?;
        self.retry_while_down("place us-1", || tenant.place("all", &["eu-1", "us-1"])).await?;
        tenant.until_works(&ON_BOTH).await?;

        let mut parameters = all_kinds();
        parameters["downstreamClass"] = "cilium".into();
        self.retry_while_down("change the parameters", || tenant.parameters(&parameters)).await?;
        for cluster in ["eu-1", "us-1"] {
            let class = |work: &policy_sync_api::work::ManifestWork| {
                work.spec.workload.manifests[1].0["spec"]["gatewayClassName"] == "cilium"
            };
            tenant.until_work(cluster, "gateway-web", class).await?;
        }
        self.retry_while_down("delete the policy", || tenant.delete(&limits)).await?;
        tenant.until_works(&["eu-1/access", "eu-1/gateway-web", "us-1/access", "us-1/gateway-web"]).await?;
        let [unplaced, placed] =
            ["none", "all"].map(|placement| gateway(tenant.name(), "web", tenant.name(), Some(placement)));
        self.retry_while_down("unplace the Gateway", || tenant.apply(&unplaced)).await?;
        tenant.until_works(&[]).await?;
        self.retry_while_down("place the Gateway", || tenant.apply(&placed)).await?;
        tenant.until_works(&["eu-1/access", "eu-1/gateway-web", "us-1/access", "us-1/gateway-web"]).await
    }

    /// Performs a user's request, and repeats it while the API server is down.
    async fn retry_while_down<T, F: Future<Output = Result<T>>>(
        &self,
        what: &str,
        act: impl FnMut() -> F,
    ) -> Result<()> {
        wait::until(what, LIMIT, act).await.map(drop)
    }

    async fn crashes(&self, crash: Crash) -> Result<()> {
        self.proxy.injected().await;
        match crash {
            Crash::Nothing => Ok(()),
            Crash::Controller => self.start_controller().await,
            Crash::ApiServer => {
                self.tenant.hub().stop_api_server();
                self.tenant.hub().start_api_server().await
            }
        }
    }

    /// Waits until the controller is idle, and returns the works and the counts of creates and deletes.
    async fn outcome(&self) -> Result<Outcome> {
        let controller = self.controller.lock().await;
        let controller = controller.as_ref().context("no controller")?;
        let writes = self.tenant.settled(controller).await?;
        let mut outcome = Outcome::default();
        for (work, name) in self.tenant.works().await?.iter().zip(self.tenant.work_names().await?) {
            let copy = &work.spec.workload.manifests.last().context("no manifest")?.0;
            let text = json!([copy["spec"], copy["rules"]]).to_string();
            outcome.works.insert(name, text.replace(self.tenant.name(), "tenant"));
        }
        for write in writes.iter().filter(|write| (200..300).contains(&write.code())) {
            if matches!(write.verb.as_str(), "create" | "delete") {
                let object = write.object();
                let readable = object.name.rsplit_once('-').map_or(&*object.name, |(readable, _)| readable);
                *outcome
                    .effects
                    .entry(format!("{} {}/{readable}", write.verb, object.namespace))
                    .or_default() += 1;
            }
        }
        Ok(outcome)
    }
}

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_policy-sync"))
}

/// Runs the scenario on `hub`, with the fault in `plan`, if any.
async fn run_scenario(hub: &ControlPlane, name: &str, plan: Option<Plan>) -> Result<Outcome> {
    let proxied = ProxiedTenant::new(hub, name, plan).await?;
    match plan {
        Some(Plan { crash, .. }) if crash != Crash::Nothing => {
            tokio::try_join!(proxied.story(), proxied.crashes(crash))?;
        }
        _ => proxied.story().await?,
    }
    let outcome = proxied.outcome().await?;
    ensure!(proxied.proxy.is_injected(), "the fault was not injected");
    Ok(outcome)
}

/// Checks that `found` has the same works as the run without faults, and no additional creates or deletes
/// except for one repetition of the request that the fault hit.
fn check_against_faultless(found: &Outcome, faultless: &Outcome, plan: Plan) -> Result<()> {
    ensure!(found.works == faultless.works, "works: expected {:?}, found {:?}", faultless.works, found.works);
    let more: usize = found
        .effects
        .iter()
        .map(|(effect, count)| {
            count.saturating_sub(faultless.effects.get(effect).copied().unwrap_or_default())
        })
        .sum();
    let repeated = usize::from(matches!(plan.target.verb, "create" | "delete"));
    ensure!(
        more <= repeated,
        "creates and deletes: expected {:?}, found {:?}",
        faultless.effects,
        found.effects
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_fault_does_not_change_the_final_state() -> Result<()> {
    let fleet = Fleet::shared_hub().await?;
    let faultless = Arc::new(run_scenario(fleet.hub(), "faultless", None).await?);
    ensure!(faultless.works.len() == 4, "{faultless:?}");
    let stories = plans().into_iter().enumerate().map(|(index, plan)| {
        let faultless = faultless.clone();
        async move {
            let found = run_scenario(fleet.hub(), &format!("fault-{index}"), Some(plan)).await;
            found
                .and_then(|found| check_against_faultless(&found, &faultless, plan))
                .with_context(|| format!("fault-{index}: {plan:?}"))
        }
    });
    let results: Vec<Result<()>> = futures::stream::iter(stories).buffer_unordered(AT_ONCE).collect().await;
    ensure!(results.len() == 40, "{} plans", results.len());
    let failed: Vec<String> =
        results.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    ensure!(failed.is_empty(), "{} plans failed:\n{}", failed.len(), failed.join("\n\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_api_server_does_not_change_the_final_state() -> Result<()> {
    let fleet = Fleet::start(FleetOptions::spokes([])).await?;
    let hub = fleet.hub();
    for cluster in ["eu-1", "us-1"] {
        let objects: [Value; 2] = [managed_cluster(cluster, &BTreeMap::new()), namespace(cluster)];
        policy_sync_testenv::apply::apply_all(&hub.client()?, &objects).await?;
    }
    let faultless = run_scenario(hub, "faultless", None).await?;
    for (index, at) in
        [("create", "manifestworks", 3), ("delete", "manifestworks", 1)].into_iter().enumerate()
    {
        let plan = crash(at, Crash::ApiServer);
        let found = run_scenario(hub, &format!("killed-{index}"), Some(plan)).await?;
        check_against_faultless(&found, &faultless, plan)?;
    }
    Ok(())
}
