//! R6: a cluster loses its certification, and one in ten apps moves. Measures the time until the last app has
//! moved, and compares it with a raw burst of the same patches.
//!
//! The other apps require certification too, but keep their developers' placement. The placement policy is evaluated
//! for all apps.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::ObjectList;
use kube::core::request::Request as Requests;
use policy_sync_api::annotations::{PLACED_BY_POLICY, REPLICA_PREFERENCES};
use policy_sync_testenv::apply::{apply, apply_all, delete};
use policy_sync_testenv::fixtures;
use serde_json::{Value, json};

use super::counts::Counts;
use super::documents::{self, DEPLOYMENTS};
use super::hub::MeasuredHub;
use super::observer::{EventType, Observer};
use super::raw::{self, PreparedRequest};
use super::report::{self, Measure, progress};
use super::sample::{self, Sample};
use super::{Options, apps, rego_policies};

/// The class that syncs apps, and the namespace of its parameters.
const NAME: &str = "moving";
/// One in this many apps moves.
const PART: usize = 10;
/// Label of the apps that move.
const MOVES: &str = "moves";
/// Goal for the time as a multiple of the time of a raw burst.
const RATIO: f64 = 1.3;
/// Seconds that are added to the goal in [`RATIO`].
const MORE: f64 = 1.0;

/// Measures the time and the number of patches.
pub(super) async fn measure(hub: &MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    let classes = set(hub, options.documents).await?;
    let count = options.documents.div_ceil(PART);
    let at_once =
        raw::best(async |at_once| raw_bursts(hub, count, at_once).await.map(|took| took[0])).await?;
    let (mut raw, mut moved, mut patches) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..options.runs {
        raw.extend(raw_bursts(hub, count, at_once).await?);
        let (took, patched) = move_by_controller(hub, count, run % 2 == 1).await?;
        progress(&format!(
            "{count} apps move, {} of {}: raw {:.3?}, {took:.3?}",
            run + 1,
            options.runs,
            raw[raw.len() - 1]
        ));
        moved.push(took);
        patches.push(patched);
    }
    clear(hub, &classes).await?;
    let (raw, moved, patches) = (Sample::seconds(&raw), Sample::seconds(&moved), Sample::new(patches));
    let what = format!("{count} of {} apps move", options.documents);
    Ok(vec![
        Measure::at_most("R6", what.clone(), patches.max(), "patches", sample::count(count)),
        Measure::at_most("R6", what, moved.median(), "s", RATIO * raw.median() + MORE)
            .detail(format!("{}, {at_once} raw patches at once", report::against(&moved, &raw))),
    ])
}

/// Creates the apps, and runs a controller until the placement policy has placed all apps that have no placement.
async fn set(hub: &MeasuredHub, documents: usize) -> Result<[Value; 2]> {
    rego_policies::set(hub).await?;
    let params = json!({"resourcesToSync": [fixtures::resources("apps", "deployments")]});
    let objects = [
        fixtures::params_config_map(NAME, "params", &params),
        fixtures::gateway_class(NAME, rego_policies::CONTROLLER_NAME, Some((NAME, "params"))),
    ];
    apply(&hub.client, &fixtures::namespace(NAME)).await?;
    apply_all(&hub.client, &objects).await?;
    progress(&format!("{documents} apps"));
    documents::create(&hub.client, DEPLOYMENTS, (0..documents).map(app)).await?;
    let controller = rego_policies::start(hub, 0, &[]).await?;
    hub.quiet().await?;
    controller.terminate().await?;
    Ok(objects)
}

async fn clear(hub: &MeasuredHub, objects: &[Value]) -> Result<()> {
    for object in objects {
        delete(&hub.client, object).await?;
    }
    documents::clear(&hub.client, DEPLOYMENTS, documents::namespaces()).await
}

/// An app that requires certification. The placement policy places one in ten of these apps. Developers place the other
/// apps.
fn app(index: usize) -> Value {
    let mut app = apps::app(&documents::namespace(index), &format!("app-{index:05}"));
    if index.is_multiple_of(PART) {
        app["metadata"]["labels"][MOVES] = "yes".into();
    } else {
        let cluster = documents::cluster(2)["metadata"]["name"].clone();
        let wish = json!({"clusters": {cluster.as_str().unwrap_or_default(): {"weight": 1}}});
        app["metadata"]["annotations"][REPLICA_PREFERENCES] = wish.to_string().into();
    }
    app
}

async fn observe(hub: &MeasuredHub) -> Result<Observer> {
    Observer::start(&hub.client, &DEPLOYMENTS.everywhere(), MOVES).await
}

/// Changes a cluster. Returns the time until the last app has moved, and the number of patches.
async fn move_by_controller(hub: &MeasuredHub, count: usize, is_certified: bool) -> Result<(Duration, f64)> {
    // A new process for each move, because the controller stops moving an app that it has moved three times.
    let controller = rego_policies::start(hub, 0, &[]).await?;
    hub.quiet().await?;
    let (before, mut observer) = (Counts::now(&hub.client).await?, observe(hub).await?);
    apply(&hub.client, &documents::cluster_of(0, is_certified)).await?;
    let written = Instant::now();
    let last = observer.until(count, |seen| seen.what == EventType::Modified).await?;
    hub.quiet().await?;
    let patched = Counts::now(&hub.client).await?.since(&before).writes_of("deployments");
    controller.terminate().await?;
    Ok((last.saturating_duration_since(written), patched))
}

/// Two raw bursts; the second reverts the first.
async fn raw_bursts(hub: &MeasuredHub, count: usize, at_once: usize) -> Result<[Duration; 2]> {
    let list = Requests::new(DEPLOYMENTS.everywhere()).list(&ListParams::default().labels(MOVES));
    let apps: ObjectList<DynamicObject> =
        hub.client.request(list.context("building a list request")?).await?;
    ensure!(apps.items.len() == count, "{} apps, expected {count}", apps.items.len());
    let mut took = [Duration::ZERO; 2];
    for (took, more) in took.iter_mut().zip([" ", ""]) {
        let patches = apps.items.iter().map(|app| patch(app, more)).collect::<Result<Vec<_>>>()?;
        let mut observer = observe(hub).await?;
        let began = Instant::now();
        let (_, last) = tokio::try_join!(
            raw::send(&hub.client, patches, at_once),
            observer.until(count, |seen| seen.what == EventType::Modified)
        )?;
        *took = last - began;
    }
    Ok(took)
}

/// A patch as the controller would send it; `more` is appended to the values that the placement policy has set.
fn patch(app: &DynamicObject, more: &str) -> Result<PreparedRequest> {
    let found = |key: &str| app.annotations().get(key).map(|value| format!("{value}{more}"));
    let set =
        json!({REPLICA_PREFERENCES: found(REPLICA_PREFERENCES), PLACED_BY_POLICY: found(PLACED_BY_POLICY)});
    ensure!(found(PLACED_BY_POLICY).is_some(), "{} is not placed", app.name_any());
    let patch = Patch::Merge(json!({"metadata": {"uid": app.uid(), "annotations": set}}));
    let apps = Requests::new(DEPLOYMENTS.within(&app.namespace().unwrap_or_default()));
    let patch = apps.patch(&app.name_any(), &PatchParams::default(), &patch);
    Ok(raw::with_metadata_response(patch.context("building a patch request")?))
}
