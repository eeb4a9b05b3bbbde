//! T3: memory of the topology. T4: the cost of one change among many objects. T5: a policy on a Gateway with many
//! routes. Measures the delay of the policy's works, and of the statuses of the routes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::request::Request as Requests;
use policy_sync_testenv::{Controller, fixtures, wait};
use serde_json::{Value, json};

use crate::Options;
use crate::counts::Counts;
use crate::hub::MeasuredHub;
use crate::observer::ObservedEvent;
use crate::raw;
use crate::report::{Measure, progress};
use crate::sample::{self, Sample};
use crate::scene::{self, AT_ONCE, create_all};
use crate::usage::Memory;

/// The namespace of the routes and of the Gateway.
const NAMESPACE: &str = "shop";
const ROUTES: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes";
const PENDING: &str = "policy_sync_topology_status_writes_pending";
/// Two goals of T3 in MiB, then three goals of T5: a ratio, statuses per second, and seconds.
const ROWS_GOAL: f64 = 6.0;
const BUILD_GOAL: f64 = 8.0;
const ARRIVE_GOAL: f64 = 1.1;
const RATE_GOAL: f64 = 20.5;
const FIRST_GOAL: f64 = 5.0;
/// Period for counting status writes.
const COUNTED_FOR: Duration = Duration::from_secs(20);
/// Time limit for each route's status: twice the controller's interval of 1/20 s.
const EACH: Duration = Duration::from_millis(100);

fn route(number: usize, services: usize) -> Value {
    let backend =
        |port: u16| json!([{"name": format!("service-{}", number % services.max(1)), "port": port}]);
    let rules = json!([
        {"matches": [{"path": {"type": "PathPrefix", "value": "/"}}], "backendRefs": backend(80)},
        {"matches": [{"path": {"type": "PathPrefix", "value": "/api"}}], "backendRefs": backend(81)},
    ]);
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": format!("route-{number}"), "namespace": NAMESPACE},
        "spec": {"parentRefs": [{"name": scene::NAME}], "hostnames": [format!("host-{number}.example.com")], "rules": rules}})
}

fn policy(number: usize) -> Value {
    let mut policy = fixtures::rate_limit_policy(NAMESPACE, &format!("own-{number}"), scene::NAME);
    policy["spec"]["targetRef"] =
        json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": format!("route-{number}")});
    policy
}

/// A headless Service, because the service IP range is too small.
fn service(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("service-{number}"), "namespace": NAMESPACE},
        "spec": {"clusterIP": "None", "ports": [{"name": "http", "port": 80}, {"name": "admin", "port": 81}]}})
}

/// The cost of one change.
#[derive(Debug)]
struct Cost {
    rebuilds: f64,
    seconds: f64,
    writes: f64,
    described: String,
}

/// Measures T3, T4 and T5.
pub(crate) async fn measure(hub: &mut MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    let policies = hub.policies;
    hub.set_policies(0).await?;
    hub.clear().await?;
    let (_, controller) = hub.start_with(&["--topology".to_owned()]).await?;
    hub.quiet().await?;
    let without = arrivals(hub, options.runs).await?;
    controller.terminate().await?;

    let (routes, services) = (options.objects * 7 / 10, options.objects / 5);
    let own = options.objects * 95 / 1000;
    progress(&format!("{routes} routes, {services} Services and {own} policies"));
    let of = |path: &str| path.to_owned();
    let objects = (0..services).map(|number| (of("/api/v1/namespaces/shop/services"), service(number)));
    let objects = objects.chain((0..routes).map(|number| (of(ROUTES), route(number, services))));
    let objects = objects.chain((0..own).map(|number| (hub.scene.path(), policy(number))));
    create_all(&hub.client, objects).await?;

    let (_, controller) = hub.start_controller().await?;
    hub.quiet().await?;
    let off = Memory::of_process(controller.pid())?.resident;
    controller.terminate().await?;
    let (_, controller) = hub.start_with(&["--topology".to_owned()]).await?;
    let limit = Duration::from_secs(60) + EACH * u32::try_from(routes).unwrap_or(u32::MAX);
    none_pending(&controller, limit).await?;
    hub.quiet().await?;
    let settled = Memory::of_process(controller.pid())?.resident;

    let limits = json!({"spec": {"limits": {"all": {"rates": [{"limit": 7, "window": "10s"}]}}}});
    let limit_cost = cost(hub, &controller, &format!("{}/own-0", hub.scene.path()), &limits).await?;
    let elsewhere = json!({"spec": {"parentRefs": [{"name": scene::NAME, "sectionName": "nowhere"}]}});
    cost(hub, &controller, &format!("{ROUTES}/route-0"), &elsewhere).await?;
    // The controller writes the ConfigMap of the topology at most once every ten seconds.
    hub.quiet().await?;
    Memory::reset_peak(controller.pid())?;
    let before = Memory::of_process(controller.pid())?;
    let attached = json!({"spec": {"parentRefs": [{"name": scene::NAME}]}});
    let route_cost = cost(hub, &controller, &format!("{ROUTES}/route-0"), &attached).await?;
    let after = Memory::of_process(controller.pid())?;

    let with = arrivals(hub, options.runs).await?;
    hub.scene.add(0..1).await?;
    let (rate, first) = statuses(hub, &controller).await?;
    controller.terminate().await?;

    clear(hub, (routes, services, own)).await?;
    hub.scene.remove(0..1).await?;
    hub.clear().await?;
    hub.set_policies(policies).await?;
    let objects = options.objects;
    let what = |what: &str| format!("{what}, {objects} objects");
    Ok(vec![
        Measure::at_most("T3", what("memory of rows, settled"), settled - off, "MiB", ROWS_GOAL)
            .detail(format!("{settled:.1} against {off:.1} MiB")),
        Measure::at_most(
            "T3",
            what("more while a graph is built"),
            after.peak - before.resident,
            "MiB",
            BUILD_GOAL,
        ),
        Measure::at_most("T3", what("of which is kept"), after.resident - before.resident, "MiB", 1.0),
        Measure::at_most("T4", what("rebuilds for a limit"), limit_cost.rebuilds, "", 1.0)
            .detail(format!("{:.0} ms on a thread that gives way", 1e3 * limit_cost.seconds)),
        Measure::at_most("T4", what("writes for a limit"), limit_cost.writes, "writes", 1.0)
            .detail(limit_cost.described),
        Measure::at_most("T4", what("rebuilds for a route that attaches"), route_cost.rebuilds, "", 1.0),
        Measure::at_most(
            "T4",
            what("writes for it, and for the ConfigMap"),
            route_cost.writes,
            "writes",
            3.0,
        )
        .detail(route_cost.described),
        Measure::ratio(
            "T5",
            format!("a policy's works on {} clusters, {routes} routes on its Gateway", hub.clusters.len()),
            &Sample::seconds(&with),
            &Sample::seconds(&without),
            ARRIVE_GOAL,
        ),
        Measure::at_most("T5", "statuses a second", rate, "", RATE_GOAL),
        Measure::at_most("T5", "a route that changes meanwhile", first, "s", FIRST_GOAL),
    ])
}

/// Repeatedly creates a policy. Returns the times until the works of the policy exist.
async fn arrivals(hub: &MeasuredHub, runs: usize) -> Result<Vec<Duration>> {
    let mut took = Vec::new();
    for _ in 0..runs {
        let mut observer = hub.observe().await?;
        let began = Instant::now();
        hub.scene.add(0..1).await?;
        let last = observer.until(hub.clusters.len(), ObservedEvent::added).await?;
        took.push(last.saturating_duration_since(began));
        hub.scene.remove(0..1).await?;
        wait::until("the works are deleted", crate::hub::LIMIT, || async {
            let mut left = 0;
            hub.pages(async |page| {
                left += page.len();
                Ok(())
            })
            .await?;
            ensure!(left == 0, "{left} works exist");
            Ok(())
        })
        .await?;
    }
    Ok(took)
}

/// The cost of merging `patch` into the object at `path`.
async fn cost(hub: &MeasuredHub, controller: &Controller, path: &str, patch: &Value) -> Result<Cost> {
    let (folder, name) = path.rsplit_once('/').context("a path without a slash")?;
    let (built, counts) = (builds(controller).await?, Counts::now(&hub.client).await?);
    let request = Requests::new(folder).patch(name, &PatchParams::default(), &Patch::Merge(patch));
    raw::send(&hub.client, vec![request.context("building a patch request")?], 1).await?;
    hub.quiet().await?;
    let after = builds(controller).await?;
    let written = Counts::now(&hub.client).await?.since(&counts);
    Ok(Cost {
        rebuilds: after.0 - built.0,
        seconds: after.1 - built.1,
        writes: written.writes(),
        described: written.describe_writes(),
    })
}

/// Number and total duration of builds.
async fn builds(controller: &Controller) -> Result<(f64, f64)> {
    let metrics = controller.metrics().await?;
    let value = |what: &str| metrics.value(&format!("policy_sync_topology_build_seconds_{what}"), &[]);
    Ok((value("count")?, value("sum")?))
}

async fn pending(controller: &Controller) -> Result<f64> {
    controller.metrics().await?.value(PENDING, &[])
}

async fn none_pending(controller: &Controller, limit: Duration) -> Result<()> {
    wait::until("no status write is pending", limit, || async {
        let waits = pending(controller).await?;
        ensure!(waits < 0.5 && builds(controller).await?.0 > 0.5, "{waits} are pending");
        Ok(())
    })
    .await
}

/// The rate of status writes per second, and the delay in seconds until a changed route has its new status.
async fn statuses(hub: &MeasuredHub, controller: &Controller) -> Result<(f64, f64)> {
    wait::until("status writes are pending", crate::hub::LIMIT, || async {
        ensure!(pending(controller).await? > 0.5, "none is pending");
        Ok(())
    })
    .await?;
    let (waited, began) = (pending(controller).await?, Instant::now());
    let patch = Patch::Merge(json!({"spec": {"hostnames": ["another.example.com"]}}));
    let request = Requests::new(ROUTES).patch("route-1", &PatchParams::default(), &patch);
    raw::send(&hub.client, vec![request.context("building a patch request")?], 1).await?;
    let get = || Requests::new(ROUTES).get("route-1", &Default::default());
    wait::until("the route's status is current", crate::hub::LIMIT, || async {
        let found: Value = hub.client.request(get().context("building a get request")?).await?;
        let observed = &found["status"]["parents"][0]["conditions"][0]["observedGeneration"];
        ensure!(*observed == found["metadata"]["generation"], "{observed}");
        Ok(())
    })
    .await?;
    let first = began.elapsed().as_secs_f64();
    tokio::time::sleep(COUNTED_FOR.saturating_sub(began.elapsed())).await;
    let written = waited - pending(controller).await?;
    Ok((written / began.elapsed().as_secs_f64(), first))
}

/// Deletes the created objects.
async fn clear(hub: &MeasuredHub, (routes, services, own): (usize, usize, usize)) -> Result<()> {
    let all = (0..routes).map(|number| (ROUTES.to_owned(), format!("route-{number}")));
    let all = all.chain(
        (0..services)
            .map(|number| ("/api/v1/namespaces/shop/services".to_owned(), format!("service-{number}"))),
    );
    let all = all.chain((0..own).map(|number| (hub.scene.path(), format!("own-{number}"))));
    let deletes = all.map(|(path, name)| {
        Requests::new(path).delete(&name, &DeleteParams::background()).context("building a delete request")
    });
    raw::send(&hub.client, deletes.collect::<Result<_>>()?, AT_ONCE)
        .await
        .map(drop)
        .context("deleting the objects")?;
    progress(&format!("{} objects deleted", sample::count(routes + services + own)));
    Ok(())
}
