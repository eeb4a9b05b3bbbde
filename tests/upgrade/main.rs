//! Upgrades and downgrades: the present version takes over a hub in the state that another version has left.
//!
//! `<version>/hub.yaml` is the state of a hub under that version. Each release adds a directory, and the last two
//! directories are kept. This command adds the directory:
//!
//! ```text
//! POLICY_SYNC_UPDATE=1 cargo test --test upgrade the_present_version
//! ```

mod recording;
mod restoring;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams};
use policy_sync_testenv::apply::api_for;
use policy_sync_testenv::audit::Request;
use policy_sync_testenv::{Controller, wait};
use serde_json::{Value, json};

use recording::{CONTROLLER, Recording};
use restoring::Restored;

const BINARY: &str = env!("CARGO_BIN_EXE_policy-sync");
/// A time limit that is sufficient on a busy machine.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

async fn start(hub: &Restored) -> Result<Controller> {
    Controller::start(Path::new(BINARY), hub.control_plane(), &[&format!("--controller-name={CONTROLLER}")])
        .await
}

/// Checks that works were only patched, each work at most once.
fn changed_at_most_once(writes: &[Request]) -> Result<()> {
    let mut changes: BTreeMap<(String, String), usize> = BTreeMap::new();
    for write in writes {
        let object = write.object();
        if object.resource == "manifestworks" {
            ensure!(write.verb == "patch", "{write:?}");
            *changes.entry((object.namespace, object.name)).or_default() += 1;
        }
    }
    ensure!(changes.values().all(|times| *times == 1), "changed several times: {changes:?}");
    Ok(())
}

/// Checks that a restart writes nothing.
async fn is_silent(hub: &Restored, controller: Controller) -> Result<()> {
    controller.terminate().await?;
    let again = start(hub).await?;
    let before = hub.works().await?;
    let earlier = again.settled(hub.control_plane()).await?.len();
    // The audit log distinguishes users, not processes, and all processes run as the same user.
    ensure!(hub.works().await? == before, "works changed");
    again.terminate().await?;
    let third = start(hub).await?;
    let later = third.settled(hub.control_plane()).await?;
    ensure!(later.len() == earlier, "the restarted controller wrote {:#?}", &later[earlier..]);
    Ok(())
}

#[tokio::test]
async fn recorded_hubs_are_taken_over_without_recreating_works() -> Result<()> {
    let recordings = Recording::all()?;
    ensure!(!recordings.is_empty() && recordings.len() <= 3, "{} recordings", recordings.len());
    for recording in recordings {
        let version = recording.version.clone();
        let hub = Restored::new(&recording).await.with_context(|| version.clone())?;
        let before = hub.works().await?;
        ensure!(before.len() > 5, "{version}: {} works", before.len());
        let controller = start(&hub).await?;
        let writes = controller.settled(hub.control_plane()).await?;
        changed_at_most_once(&writes).with_context(|| version.clone())?;
        let after = hub.works().await?;
        ensure!(before.uids() == after.uids(), "{version}: works were recreated");
        if version == env!("CARGO_PKG_VERSION") {
            ensure!(writes.is_empty(), "this version changed its own recording: {writes:#?}");
        }
        is_silent(&hub, controller).await.with_context(|| version.clone())?;
    }
    Ok(())
}

#[tokio::test]
async fn works_of_a_newer_version_are_patched_once_and_its_lease_is_kept() -> Result<()> {
    let mut recording = Recording::present()?;
    let written: BTreeMap<String, Value> = recording.specs();
    for work in recording.of_kind("ManifestWork") {
        work["metadata"]["annotations"]["kuadrant.io/added-later"] = "a note".into();
        work["metadata"]["labels"]["kuadrant.io/added-later"] = "a-label".into();
        let manifests = work["spec"]["workload"]["manifests"].as_array_mut().context("no manifests")?;
        for manifest in manifests {
            manifest["metadata"]["annotations"]["kuadrant.io/added-later"] = "to the copy".into();
        }
    }
    for lease in recording.of_kind("Lease") {
        lease["metadata"]["annotations"] = json!({ "kuadrant.io/added-later": "a note" });
    }
    let hub = Restored::new(&recording).await?;
    let before = hub.works().await?;
    let controller = start(&hub).await?;
    let writes = controller.settled(hub.control_plane()).await?;
    ensure!(!writes.is_empty(), "changes by a newer version are not reverted");
    changed_at_most_once(&writes)?;
    let after = hub.works().await?;
    ensure!(before.uids() == after.uids(), "works were recreated");
    for (name, spec) in after.specs() {
        ensure!(written.get(&name) == Some(spec), "{name} is {spec}");
    }
    let leases = hub.objects("coordination.k8s.io/v1", "Lease").await?;
    let kept = |lease: &Value| {
        lease["metadata"]["annotations"]["kuadrant.io/added-later"] == "a note"
            && lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty())
    };
    ensure!(leases.iter().any(kept), "{leases:#?}");
    is_silent(&hub, controller).await
}

#[tokio::test]
async fn parameters_of_a_newer_version_freeze_until_they_are_reverted() -> Result<()> {
    let mut recording = Recording::present()?;
    let mut written = Value::Null;
    for map in recording.of_kind("ConfigMap") {
        written = map.clone();
        let text = map["data"]["params"].as_str().context("no parameters")?;
        let mut parameters: Value = serde_json::from_str(text)?;
        parameters["addedLater"] = true.into();
        map["data"]["params"] = parameters.to_string().into();
    }
    let hub = Restored::new(&recording).await?;
    let before = hub.works().await?;
    let controller = start(&hub).await?;
    let client = hub.control_plane().client()?;
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": { "name": "upgrade" },
    });
    let (classes, name) = api_for(&client, &class).await?;
    let accepted = async |status: &str| {
        wait::until(&format!("Accepted is {status}"), LIMIT, || async {
            let conditions = classes.get(&name).await?.data["status"]["conditions"].to_string();
            let expected = format!(r#""status":"{status}","type":"Accepted""#);
            ensure!(conditions.contains(&expected), "{conditions}");
            Ok(conditions)
        })
        .await
    };
    let conditions = accepted("False").await?;
    ensure!(conditions.contains("addedLater"), "the message does not contain the key: {conditions}");
    controller.settled(hub.control_plane()).await?;
    ensure!(hub.works().await? == before, "works changed");

    let (maps, name) = api_for(&client, &written).await?;
    let patch = json!({ "data": written["data"] });
    maps.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    accepted("True").await?;
    controller.settled(hub.control_plane()).await?;
    ensure!(hub.works().await? == before, "works changed");

    // The controller still owns the works: it withdraws a deleted policy.
    let policy = recording.of_kind("RateLimitPolicy").next().context("no policy")?.clone();
    let (policies, name) = api_for(&client, &policy).await?;
    policies.delete(&name, &DeleteParams::default()).await?;
    wait::until("the works of the policy are being deleted", LIMIT, || async {
        let deleting = hub.works().await?.deleting();
        ensure!(deleting == 2, "{deleting} works are being deleted");
        Ok(())
    })
    .await
}
