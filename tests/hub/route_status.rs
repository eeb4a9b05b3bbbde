//! Statuses of Gateways and routes on a hub with `--topology`: attachment, and the policies that affect Gateways and
//! routes.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::fixtures::namespace;
use policy_sync_testenv::fixtures::topology::{object, targets};
use policy_sync_testenv::hostile::costly::{EXPRESSIONS, rules_of_expressions};
use policy_sync_testenv::{ControlPlane, Controller, wait};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::topology::{hub, launch_as, until_stored};

const LIMIT: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_policy-sync");
const OURS: &str = "kuadrant.io/policy-sync";
const THEIRS: &str = "example.com/theirs";
const PENDING: &str = "policy_sync_topology_status_writes_pending";

async fn found(
    hub: &ControlPlane,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<(Api<DynamicObject>, DynamicObject)> {
    let (api, _) = api_for(&hub.client()?, &object(kind, (namespace, name), json!({}))).await?;
    let found = api.get(name).await?;
    Ok((api, found))
}

/// The entries of `controller` in a route's status.
fn entries<'r>(route: &'r DynamicObject, controller: &str) -> Vec<&'r Value> {
    let parents = route.data["status"]["parents"].as_array().into_iter().flatten();
    parents.filter(|entry| entry["controllerName"] == controller).collect()
}

fn condition<'e>(of: &'e Value, name: &str) -> Option<&'e Value> {
    of["conditions"].as_array()?.iter().find(|condition| condition["type"] == name)
}

/// `<status> <reason>` of a condition.
fn verdict(of: &Value, name: &str) -> String {
    let word = |field: &str| {
        let condition = condition(of, name).map(|condition| &condition[field]);
        condition.and_then(Value::as_str).unwrap_or("-").to_owned()
    };
    format!("{} {}", word("status"), word("reason"))
}

/// Waits until the route has one entry of this controller, and `is` accepts it.
async fn until(
    hub: &ControlPlane,
    kind: &str,
    name: &str,
    is: impl Fn(&Value) -> Result<()>,
) -> Result<DynamicObject> {
    wait::until(&format!("the status of {kind} {name} is as expected"), LIMIT, || async {
        let (_, route) = found(hub, kind, namespace_of(name), name).await?;
        let ours = entries(&route, OURS);
        ensure!(ours.len() == 1, "{}", route.data["status"]);
        is(ours[0])?;
        Ok(route)
    })
    .await
}

fn namespace_of(name: &str) -> &'static str {
    if name == "other" { "backends" } else { "shop" }
}

async fn nothing_waits(controller: &Controller) -> Result<()> {
    wait::until("no status write is pending", LIMIT, || async {
        let waits = controller.metrics().await?.value(PENDING, &[])?;
        ensure!(waits < 0.5, "{waits} status writes are pending");
        Ok(())
    })
    .await
}

/// Creates an HTTPRoute in the namespace `shop` and measures the time until its status has the controller's
/// entry.
async fn time_to_status(hub: &ControlPlane, name: &str) -> Result<Duration> {
    let spec = json!({"parentRefs": [{"name": "web", "namespace": "infra"}], "hostnames": [format!("{name}.example.com")]});
    apply(&hub.client()?, &object("HTTPRoute", ("shop", name), spec)).await?;
    let created = Instant::now();
    until(hub, "HTTPRoute", name, |_| Ok(())).await?;
    Ok(created.elapsed())
}

#[tokio::test]
async fn routes_of_many_expressions_delay_no_status_in_another_namespace() -> Result<()> {
    /// An allowance for decoding 130 KB of hostile routes on a busy machine. The allowance is added to twice the time
    /// without these routes.
    const MORE: Duration = Duration::from_secs(1);
    let hub = hub("route-fairness").await?;
    let client = hub.client()?;
    let controller = Controller::start(Path::new(BINARY), &hub, &["--topology"]).await?;
    until(&hub, "HTTPRoute", "shop", |_| Ok(())).await?;
    let mut quiet = Duration::ZERO;
    for number in 0..3 {
        quiet = quiet.max(time_to_status(&hub, &format!("quiet-{number}")).await?);
    }
    apply(&client, &namespace("hostile")).await?;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let writing = tokio::spawn(async move {
        let mut writes = 0;
        while !stopped.is_cancelled() {
            // The API server accepts fewer than 128 matches per route; these 112 matches have 1,792 regular
            // expressions.
            let rules = rules_of_expressions(7, EXPRESSIONS[0]);
            let spec = json!({"parentRefs": [{"name": "web", "namespace": "infra"}], "hostnames": [format!("{writes}.example.com")], "rules": rules});
            apply(&client, &object("HTTPRoute", ("hostile", &format!("r-{}", writes % 8)), spec)).await?;
            writes += 1;
        }
        anyhow::Ok(writes)
    });
    let mut beside = Duration::ZERO;
    for number in 0..10 {
        beside = beside.max(time_to_status(&hub, &format!("beside-{number}")).await?);
    }
    stop.cancel();
    let writes = writing.await??;
    println!("{quiet:?} without, {beside:?} with {writes} writes of hostile routes");
    ensure!(writes >= 10, "{writes} writes");
    ensure!(beside <= 2 * quiet + MORE, "{beside:?} with hostile routes, {quiet:?} without");
    controller.terminate().await?;
    Ok(())
}

/// Creates the route `name` in `shop`, and then starts a controller. Measures the time until HTTPRoutes are
/// watched and the route has the controller's entry.
async fn time_to_restart(hub: &ControlPlane, name: &str) -> Result<(Controller, Duration)> {
    let spec = json!({"parentRefs": [{"name": "web", "namespace": "infra"}], "hostnames": [format!("{name}.example.com")]});
    apply(&hub.client()?, &object("HTTPRoute", ("shop", name), spec)).await?;
    let started = Instant::now();
    let controller = Controller::start(Path::new(BINARY), hub, &["--topology"]).await?;
    wait::until("HTTPRoutes are watched", LIMIT, || async {
        let resource = [("resource", "httproutes.gateway.networking.k8s.io")];
        let up = controller.metrics().await?.value("policy_sync_watch_up", &resource)?;
        ensure!(up > 0.5, "policy_sync_watch_up is {up}");
        Ok(())
    })
    .await?;
    until(hub, "HTTPRoute", name, |_| Ok(())).await?;
    Ok((controller, started.elapsed()))
}

#[tokio::test]
async fn stored_routes_of_many_expressions_delay_no_watch_and_no_status_after_a_restart() -> Result<()> {
    /// The number of routes, each with 1,792 regular expressions. Compiling all expressions takes minutes.
    const ROUTES: usize = 8;
    /// An allowance for decoding a MiB of hostile routes on a busy machine. The allowance is added to twice the time
    /// without these routes.
    const MORE: Duration = Duration::from_secs(5);
    let hub = hub("route-restart").await?;
    let client = hub.client()?;
    let (controller, quiet) = time_to_restart(&hub, "quiet").await?;
    controller.terminate().await?;
    apply(&client, &namespace("hostile")).await?;
    for number in 0..ROUTES {
        let rules = rules_of_expressions(7, EXPRESSIONS[0]);
        let spec = json!({"parentRefs": [{"name": "web", "namespace": "infra"}], "rules": rules});
        apply(&client, &object("HTTPRoute", ("hostile", &format!("r-{number}")), spec)).await?;
    }
    let (controller, beside) = time_to_restart(&hub, "beside").await?;
    println!("{quiet:?} without, {beside:?} with {ROUTES} hostile routes");
    ensure!(beside <= 2 * quiet + MORE, "{beside:?} with hostile routes, {quiet:?} without");
    controller.terminate().await?;
    Ok(())
}

/// The names of the routes that the controller has written, once per write.
fn written(controller: &Controller, hub: &ControlPlane) -> Result<Vec<String>> {
    let writes = controller.writes(hub)?;
    let of_routes = writes.iter().filter(|write| write.object().resource.ends_with("routes"));
    Ok(of_routes.map(|write| write.object().name.clone()).collect())
}

#[tokio::test]
async fn routes_and_gateways_report_attachment_and_affecting_policies() -> Result<()> {
    let hub = hub("route-status").await?;
    let controller = Controller::start(Path::new(BINARY), &hub, &["--topology"]).await?;
    for (kind, name, accepted, resolved) in [
        ("HTTPRoute", "shop", "True Accepted", "True ResolvedRefs"),
        ("HTTPRoute", "other", "False NotAllowedByListeners", "True ResolvedRefs"),
        ("GRPCRoute", "calls", "True Accepted", "False RefNotPermitted"),
        ("TCPRoute", "raw", "True Accepted", "False RefNotPermitted"),
        ("TLSRoute", "through", "True Accepted", "False RefNotPermitted"),
    ] {
        until(&hub, kind, name, |entry| {
            let verdicts = (verdict(entry, "Accepted"), verdict(entry, "ResolvedRefs"));
            ensure!(verdicts == (accepted.to_owned(), resolved.to_owned()), "{kind} {name}: {entry}");
            Ok(())
        })
        .await?;
    }
    let route = until(&hub, "HTTPRoute", "shop", |entry| {
        let limits =
            condition(entry, "policysync.kuadrant.io/RateLimitPolicyAffected").context("no condition")?;
        ensure!(limits["message"] == "in force: infra/ceiling, shop/own", "{limits}");
        let timeouts =
            condition(entry, "policysync.kuadrant.io/TimeoutPolicyAffected").context("no condition")?;
        ensure!(timeouts["message"] == "in force: shop/timeouts", "{timeouts}");
        ensure!(limits["observedGeneration"] == 1, "{limits}");
        Ok(())
    })
    .await?;
    ensure!(entries(&route, OURS)[0]["parentRef"] == route.data["spec"]["parentRefs"][0], "{route:?}");
    let (_, gateway) = found(&hub, "Gateway", "infra", "web").await?;
    let affected = condition(&gateway.data["status"], "policysync.kuadrant.io/RateLimitPolicyAffected");
    ensure!(affected.context("no condition")?["message"] == "affected by infra/ceiling", "{gateway:?}");
    nothing_waits(&controller).await?;

    // A changed limit does not change any route status.
    controller.settled(&hub).await?;
    let before = written(&controller, &hub)?;
    let (policies, _) = found(&hub, "RateLimitPolicy", "shop", "own").await?;
    let limits = json!({"spec": {"limits": {"mine": {"rates": [{"limit": 7, "window": "1s"}]}}}});
    policies.patch("own", &PatchParams::default(), &Patch::Merge(limits)).await?;
    // The second change causes a write. Any write that the first change causes comes before this write.
    let (_, other) = found(&hub, "HTTPRoute", "backends", "other").await?;
    ensure!(verdict(entries(&other, OURS)[0], "Accepted").starts_with("False"), "{other:?}");
    let (namespaces, _) = api_for(
        &hub.client()?,
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "backends"}}),
    )
    .await?;
    let label = json!({"metadata": {"labels": {"team": "shop"}}});
    namespaces.patch("backends", &PatchParams::default(), &Patch::Merge(label)).await?;
    until(&hub, "HTTPRoute", "other", |entry| {
        ensure!(verdict(entry, "Accepted") == "True Accepted", "{entry}");
        Ok(())
    })
    .await?;
    controller.settled(&hub).await?;
    let more = written(&controller, &hub)?[before.len()..].to_vec();
    ensure!(more == ["other"], "one route was attached, but {more:?} were written");

    // Edits of the controller's condition are reverted. Conditions of other clients stay, even with the
    // controller's prefix.
    let (gateways, found_gateway) = found(&hub, "Gateway", "infra", "web").await?;
    let mut conditions =
        found_gateway.data["status"]["conditions"].as_array().context("no conditions")?.clone();
    let of_ours = "policysync.kuadrant.io/RateLimitPolicyAffected";
    let theirs = json!({"type": "policysync.kuadrant.io/NobodysAffected", "status": "True", "reason": "R", "message": "theirs",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    for condition in &mut conditions {
        if condition["type"] == of_ours {
            condition["message"] = "no policy at all".into();
        }
    }
    conditions.push(theirs.clone());
    let patch = json!({"status": {"conditions": conditions}});
    gateways.patch_status("web", &PatchParams::default(), &Patch::Merge(patch)).await?;
    wait::until("the Gateway's condition is restored", LIMIT, || async {
        let (_, gateway) = found(&hub, "Gateway", "infra", "web").await?;
        let status = &gateway.data["status"];
        ensure!(
            condition(status, of_ours).context("no condition")?["message"] == "affected by infra/ceiling",
            "{status}"
        );
        ensure!(condition(status, "policysync.kuadrant.io/NobodysAffected") == Some(&theirs), "{status}");
        Ok(())
    })
    .await?;

    // The condition is removed with the last policy that affects the object.
    policies.delete("own", &Default::default()).await?;
    until(&hub, "HTTPRoute", "shop", |entry| {
        let limits =
            condition(entry, "policysync.kuadrant.io/RateLimitPolicyAffected").context("no condition")?;
        ensure!(limits["message"] == "in force: infra/ceiling", "{limits}");
        Ok(())
    })
    .await?;
    let (ceilings, _) = found(&hub, "RateLimitPolicy", "infra", "ceiling").await?;
    ceilings.delete("ceiling", &Default::default()).await?;
    until(&hub, "HTTPRoute", "shop", |entry| {
        ensure!(condition(entry, "policysync.kuadrant.io/RateLimitPolicyAffected").is_none(), "{entry}");
        Ok(())
    })
    .await?;
    wait::until("the Gateway's condition is removed", LIMIT, || async {
        let (_, gateway) = found(&hub, "Gateway", "infra", "web").await?;
        let status = &gateway.data["status"];
        ensure!(condition(status, "policysync.kuadrant.io/RateLimitPolicyAffected").is_none(), "{status}");
        ensure!(condition(status, "Accepted").is_some(), "the condition Accepted is missing: {status}");
        Ok(())
    })
    .await?;
    nothing_waits(&controller).await?;
    // The topology is stored at most every 10 s.
    until_stored(&hub).await?;
    controller.settled(&hub).await?;
    controller.terminate().await?;

    // A restart writes nothing.
    let second = Controller::start(Path::new(BINARY), &hub, &["--topology"]).await?;
    wait::until("the topology is stored", LIMIT, || async {
        let stored = second.metrics().await?.value("policy_sync_topology_stored", &[])?;
        ensure!(stored > 0.5);
        Ok(())
    })
    .await?;
    nothing_waits(&second).await?;
    second.settled(&hub).await?;
    let writes = second.writes(&hub)?;
    ensure!(writes.is_empty(), "the restarted controller wrote {writes:#?}");
    second.terminate().await?;

    // With `--route-status=false`, existing entries are removed.
    let third = Controller::start(Path::new(BINARY), &hub, &["--topology", "--route-status=false"]).await?;
    for (kind, name) in [("HTTPRoute", "shop"), ("TCPRoute", "raw"), ("GRPCRoute", "calls")] {
        wait::until(&format!("{kind} {name} has no entry of the controller"), LIMIT, || async {
            let (_, route) = found(&hub, kind, "shop", name).await?;
            ensure!(entries(&route, OURS).is_empty(), "{}", route.data["status"]);
            Ok(())
        })
        .await?;
    }
    nothing_waits(&third).await
}

/// Plays another controller that updates its entry in the route's status `times` times. Returns the number of
/// conflicts.
async fn play_other_controller(routes: &Api<DynamicObject>, times: usize) -> Result<usize> {
    let mut conflicts = 0;
    for time in 0..times {
        loop {
            let route = routes.get("shop").await?;
            let mut parents: Vec<Value> =
                route.data["status"]["parents"].as_array().into_iter().flatten().cloned().collect();
            parents.retain(|entry| entry["controllerName"] != THEIRS);
            let accepted = json!({"type": "Accepted", "status": "True", "reason": "Handled", "message": format!("{time} times"),
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            parents.insert(0, json!({"controllerName": THEIRS, "parentRef": {"name": "theirs", "port": 8443}, "conditions": [accepted]}));
            let version = route.metadata.resource_version;
            let patch = json!({"metadata": {"resourceVersion": version}, "status": {"parents": parents}});
            match routes.patch_status("shop", &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => break,
                Err(kube::Error::Api(error)) if error.code == 409 => conflicts += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(conflicts)
}

#[tokio::test]
async fn concurrent_writes_of_another_controller_are_not_lost() -> Result<()> {
    let hub = hub("route-status-two").await?;
    let controller = Controller::start(Path::new(BINARY), &hub, &["--topology"]).await?;
    let (routes, _) = found(&hub, "HTTPRoute", "shop", "shop").await?;
    let (policies, _) = api_for(&hub.client()?, &object("TimeoutPolicy", ("shop", "x"), json!({}))).await?;
    // The controller's entry changes with the policies on the route, which the test creates and deletes meanwhile.
    let comes_and_goes = async {
        for number in 0..10 {
            let name = format!("again-{number}");
            let policy = object(
                "TimeoutPolicy",
                ("shop", &name),
                json!({"targetRefs": [targets("HTTPRoute", "shop")], "request": "1s"}),
            );
            apply(&hub.client()?, &policy).await?;
            until(&hub, "HTTPRoute", "shop", |entry| {
                let affected = condition(entry, "policysync.kuadrant.io/TimeoutPolicyAffected")
                    .context("no condition")?;
                ensure!(affected["message"].as_str().is_some_and(|text| text.contains(&name)), "{affected}");
                Ok(())
            })
            .await?;
            policies.delete(&name, &Default::default()).await?;
        }
        anyhow::Ok(())
    };
    let (ours, theirs) = tokio::join!(comes_and_goes, play_other_controller(&routes, 400));
    ours?;
    theirs?;
    let route = until(&hub, "HTTPRoute", "shop", |entry| {
        let affected =
            condition(entry, "policysync.kuadrant.io/TimeoutPolicyAffected").context("no condition")?;
        ensure!(affected["message"] == "in force: shop/timeouts", "{affected}");
        Ok(())
    })
    .await?;
    let theirs = entries(&route, THEIRS);
    ensure!(theirs.len() == 1, "{}", route.data["status"]);
    ensure!(theirs[0]["conditions"][0]["message"] == "399 times", "{}", theirs[0]);
    ensure!(theirs[0]["parentRef"]["port"] == 8443, "the port changed: {}", theirs[0]);

    // The controller's entry is restored after another client removes it.
    let only_theirs = json!({"status": {"parents": theirs}});
    routes.patch_status("shop", &PatchParams::default(), &Patch::Merge(only_theirs)).await?;
    until(&hub, "HTTPRoute", "shop", |entry| {
        ensure!(verdict(entry, "Accepted") == "True Accepted", "{entry}");
        Ok(())
    })
    .await?;

    // Other clients fill the status of the route to the maximum number of entries: their entries stay, and the
    // controller does not retry.
    let entry = |number: usize| {
        let mut entry = theirs[0].clone();
        entry["parentRef"]["name"] = format!("theirs-{number}").into();
        entry
    };
    let all: Vec<Value> = (0..32).map(entry).collect();
    routes
        .patch_status("shop", &PatchParams::default(), &Patch::Merge(json!({"status": {"parents": all}})))
        .await?;
    nothing_waits(&controller).await?;
    let (_, route) = found(&hub, "HTTPRoute", "shop", "shop").await?;
    let names: BTreeSet<&str> =
        entries(&route, THEIRS).into_iter().filter_map(|entry| entry["parentRef"]["name"].as_str()).collect();
    ensure!(names.len() == 32 && entries(&route, OURS).is_empty(), "{}", route.data["status"]);
    Ok(())
}

/// A user with all permissions for the sync, but not for the status of routes.
#[tokio::test]
async fn missing_permission_for_route_statuses_is_logged_and_blocks_nothing_else() -> Result<()> {
    let hub = hub("route-status-rights").await?;
    let controller = launch_as(&hub, "mute", &["configmaps", "services", "namespaces"]).await?;
    wait::until("the missing permission is logged", LIMIT, || async {
        let log = controller.log()?;
        let logged = log.lines().filter(|line| line.contains("no right to write the status")).count();
        ensure!(logged == 1, "logged {logged} times");
        let waits = controller.metrics().await?.value(PENDING, &[])?;
        ensure!(waits > 1.5, "{waits}");
        let stored = controller.metrics().await?.value("policy_sync_topology_stored", &[])?;
        ensure!(stored > 0.5, "the topology is not stored");
        Ok(())
    })
    .await?;
    let (_, gateway) = found(&hub, "Gateway", "infra", "web").await?;
    ensure!(condition(&gateway.data["status"], "policysync.kuadrant.io/RateLimitPolicyAffected").is_some());
    Ok(())
}
