//! W3: the page of a Gateway with many routes. W5: the memory of the server for these routes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, ListParams};
use kube::core::request::Request as Requests;
use policy_sync_testenv::apply::apply_all;
use policy_sync_testenv::fixtures;
use serde_json::{Value, json};

use super::world::{EMPTY, pages, time, until};
use crate::Options;
use crate::hub::{CLASS, MeasuredHub};
use crate::raw;
use crate::report::{Measure, progress};
use crate::sample::{Sample, count};
use crate::scene::{self, AT_ONCE, create_all};
use crate::usage::Memory;

const NAMESPACE: &str = "shop";
const ROUTES: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes";
/// Name and number of routes of the small Gateway.
const FEW: (&str, usize) = ("few", 100);
/// Number of requests for each page.
const TIMES: usize = 20;
/// Goals: ratio of times, picture in KiB, and memory in MiB.
const TIME_GOAL: f64 = 2.0;
const PICTURE_GOAL: f64 = 200.0;
const MEMORY_GOAL: f64 = 16.0;

fn route(gateway: &str, number: usize) -> Value {
    let rules = json!([
        {"matches": [{"path": {"type": "PathPrefix", "value": "/"}}]},
        {"matches": [{"path": {"type": "PathPrefix", "value": "/api"}}]},
    ]);
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": format!("{gateway}-{number}"), "namespace": NAMESPACE},
        "spec": {"parentRefs": [{"name": gateway}], "hostnames": [format!("host-{number}.example.com")], "rules": rules}})
}

/// Measures W3, and the memory of W5 for a Gateway.
pub(crate) async fn measure(hub: &mut MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    apply_all(&hub.client, [&fixtures::gateway(NAMESPACE, FEW.0, CLASS, None)]).await?;
    let policies = hub.policies;
    hub.set_policies(0).await?;
    let empty = settled(hub, Some(EMPTY), "/effective").await?;
    progress(&format!("{} and {} routes", options.objects, FEW.1));
    let many = (0..options.objects).map(|number| route(scene::NAME, number));
    let few = (0..FEW.1).map(|number| route(FEW.0, number));
    create_all(&hub.client, many.chain(few).map(|object| (ROUTES.to_owned(), object))).await?;

    let shown = pages(hub, Some(NAMESPACE)).await;
    let [many, few] = [scene::NAME, FEW.0].map(|name| format!("/gateways/{NAMESPACE}/{name}"));
    // This page is complete only once all routes have been read.
    until(&shown, "/effective", &many).await?;
    tokio::time::sleep(options.settles).await;
    let loaded = Memory::of_process(shown.process.pid())?.resident;
    let (mut of_many, mut of_few, mut picture) = (Vec::new(), Vec::new(), 0);
    for _ in 0..TIMES {
        of_few.push(time(&shown, &few).await?.0);
        let (took, page) = time(&shown, &many).await?;
        of_many.push(took);
        let begin = page.body.find("<svg").context("no SVG")?;
        let end = page.body.find("</svg>").context("an SVG without an end")?;
        picture = end - begin;
    }
    ensure!(of_many.iter().all(|took| *took > Duration::ZERO), "a duration is zero");
    let all = Requests::new(ROUTES).delete_collection(&DeleteParams::background(), &ListParams::default());
    raw::send(&hub.client, vec![all.context("building a delete request")?], AT_ONCE).await?;
    hub.set_policies(policies).await?;
    let what = format!("{} routes on one Gateway", options.objects);
    let anew = format!("made anew {:.3} against {:.3} s", of_many[0].as_secs_f64(), of_few[0].as_secs_f64());
    let (of_many, of_few) = (Sample::seconds(&of_many), Sample::seconds(&of_few));
    Ok(vec![
        Measure::ratio(
            "W3",
            format!("its page, {what}, over one with {}", FEW.1),
            &of_many,
            &of_few,
            TIME_GOAL,
        )
        .detail(anew),
        Measure::at_most("W3", "its picture", count(picture) / 1024.0, "KiB", PICTURE_GOAL),
        Measure::at_most("W5", format!("memory, {what}"), loaded - empty, "MiB", MEMORY_GOAL)
            .detail(format!("{loaded:.1} against {empty:.1} MiB")),
    ])
}

/// The memory of a web server for this namespace, once it serves `path`.
async fn settled(hub: &MeasuredHub, namespace: Option<&str>, path: &str) -> Result<f64> {
    let shown = pages(hub, namespace).await;
    until(&shown, path, "</html>").await?;
    Ok(Memory::of_process(shown.process.pid())?.resident)
}
