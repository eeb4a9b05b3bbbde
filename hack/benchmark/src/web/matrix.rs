//! W1: the page of a large fleet. W2: the time until a browser paints this page. W5: the memory of the server for
//! this page. W6: many tabs during many changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::api::ListParams;
use kube::core::request::Request as Requests;
use policy_sync_testenv::web::Pages;
use tokio::task::JoinSet;

use super::paint;
use super::world::{EMPTY, annotate_all, annotation_request, pages, time, until};
use crate::Options;
use crate::hub::MeasuredHub;
use crate::raw;
use crate::report::{Measure, progress};
use crate::sample::{Sample, count};
use crate::usage::{Memory, processor_time};

/// Number of requests for the page.
const TIMES: usize = 20;
/// Page size for the list of policies.
const PAGE: u32 = 500;
const TABS: usize = 50;
/// Goals: of W1 as ratio and in KiB; of W5 in MiB; of W6 in events per second and tab, as fraction of a core, and
/// in MiB.
const PAGE_GOAL: f64 = 0.1;
const BODY_GOAL: f64 = 400.0;
const MEMORY_GOAL: f64 = 20.0;
const EVENTS_GOAL: f64 = 1.0;
const CORE_GOAL: f64 = 0.2;
const FLAT_GOAL: f64 = 4.0;

/// Measures W1, W2 and W6, and the memory of W5 for the fleet.
pub(crate) async fn measure(hub: &mut MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    progress(&format!(
        "annotating {} policies with their state on {} clusters",
        hub.policies,
        hub.clusters.len()
    ));
    annotate_all(hub, &hub.clusters).await?;
    let empty = {
        let shown = pages(hub, Some(EMPTY)).await;
        until(&shown, "/", "There is no policy").await?;
        Memory::of_process(shown.process.pid())?.resident
    };
    let shown = pages(hub, None).await;
    until(&shown, "/", &format!("{} policies on {} clusters", hub.policies, hub.clusters.len())).await?;
    // Allows the process to release the memory that the list of policies required.
    tokio::time::sleep(options.settles).await;
    let loaded = Memory::of_process(shown.process.pid())?.resident;

    let (mut took, mut listed, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut events = shown.events().await?;
    for turn in 0..TIMES {
        raw::send(
            &hub.client,
            vec![annotation_request(hub, &hub.clusters, 0, Some((turn + 1) % hub.clusters.len()))?],
            1,
        )
        .await?;
        // A change invalidates the cached page.
        events.next().await?;
        let (page_took, page) = time(&shown, "/").await?;
        took.push(page_took);
        bytes = page.body.len();
        if turn < options.runs {
            listed.push(list(hub).await?);
        }
    }
    drop(events);
    let of = format!("{} policies × {} clusters", hub.policies, hub.clusters.len());
    let (page, list) = (Sample::seconds(&took), Sample::seconds(&listed));
    let kib = count(bytes) / 1024.0;
    let mut measures = vec![
        Measure::ratio(
            "W1",
            format!("the first page of {of}, over a list of these policies"),
            &page,
            &list,
            PAGE_GOAL,
        ),
        Measure::at_most("W1", "its body", kib, "KiB", BODY_GOAL),
        Measure::at_most("W5", format!("memory, {of}"), loaded - empty, "MiB", MEMORY_GOAL)
            .detail(format!("{loaded:.1} against {empty:.1} MiB")),
    ];
    measures.push(paint::measure(&shown, options.runs).await?);
    measures.extend(tabs(hub, &shown, options).await?);
    hub.mark_unsettled();
    Ok(measures)
}

/// The time to list the policies in pages, without decoding them.
async fn list(hub: &MeasuredHub) -> Result<Duration> {
    let began = Instant::now();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let request = Requests::new(hub.scene.path()).list(&params).context("building a list request")?;
        let text = hub.client.request_text(request).await.context("listing policies")?;
        let head: kube::core::ObjectList<serde::de::IgnoredAny> =
            serde_json::from_str(&text).context("parsing a list")?;
        match head.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(began.elapsed()),
        }
    }
}

/// Opens many tabs while policies change at a constant rate. Each tab requests its page after every event.
async fn tabs(hub: &MeasuredHub, shown: &Pages, options: &Options) -> Result<Vec<Measure>> {
    let (rate, seconds) = (options.rate, options.load);
    progress(&format!("{TABS} tabs, {rate} changes a second for {seconds} s"));
    let pid = shown.process.pid();
    let received = Arc::new(AtomicUsize::new(0));
    let watching = async {
        let tabs = (0..TABS).map(|_| async {
            let mut events = shown.events().await?;
            loop {
                events.next().await?;
                received.fetch_add(1, Ordering::Relaxed);
                shown.get("/").await?;
            }
        });
        futures::future::try_join_all(tabs).await.map(|_: Vec<()>| ())
    };
    // Uses few clusters, so that the hub can process all changes.
    let few = &hub.clusters[..hub.clusters.len().min(3)];
    let changing = async {
        let mut sent = JoinSet::new();
        let mut every = tokio::time::interval(Duration::from_secs(1) / u32::try_from(rate.max(1))?);
        let (began, mut memory) = (Instant::now(), None);
        let before = processor_time(pid)?;
        for turn in 0..rate * seconds {
            every.tick().await;
            // Each time that a policy changes, the next cluster rejects it.
            let refusing = Some(turn / hub.policies % few.len());
            let (client, request) =
                (hub.client.clone(), annotation_request(hub, few, turn % hub.policies, refusing)?);
            sent.spawn(async move { raw::send(&client, vec![request], 1).await });
            // Once each policy has changed, memory should not grow.
            if memory.is_none() && turn >= hub.policies {
                memory = Some(Memory::of_process(pid)?.resident);
            }
        }
        let took = began.elapsed().as_secs_f64();
        let processor = (processor_time(pid)? - before).as_secs_f64();
        let after = Memory::of_process(pid)?.resident;
        while let Some(done) = sent.join_next().await {
            done.context("a change panicked")??;
        }
        anyhow::Ok((took, processor, after - memory.unwrap_or(after)))
    };
    let (took, processor, grown) = tokio::select! {
        watched = watching => return Err(watched.err().context("the tabs have ended")?),
        changed = changing => changed?,
    };
    let events = count(received.load(Ordering::Relaxed)) / count(TABS) / took;
    let of = format!("{TABS} tabs, {rate} changes a second for {seconds} s");
    Ok(vec![
        Measure::at_most("W6", format!("events a second and tab, {of}"), events, "", EVENTS_GOAL),
        Measure::at_most("W6", "of a core", processor / took, "", CORE_GOAL),
        Measure::at_most("W6", "memory more at the end", grown, "MiB", FLAT_GOAL),
    ])
}
