//! Waits for expected states of objects, with a time limit.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use policy_sync_api::annotations::{
    CONTROLLER, POLICIES_SYNCED, POLICIES_SYNCED_SUMMARY, Summary, Synced, UNPLACED_SINCE, WORK_FOR,
};
use policy_sync_api::work::ManifestWork;
use serde_json::Value;

use policy_sync_testenv::apply::api_for;
use policy_sync_testenv::wait;

/// Time limit on a busy machine. On an idle machine, a wait takes about a second.
const LIMIT: Duration = Duration::from_secs(30);

/// Waits until `wanted` accepts the object with the kind and name of `object`.
pub(super) async fn there(
    client: &Client,
    what: &str,
    object: &Value,
    wanted: impl Fn(&DynamicObject) -> Result<()>,
) -> Result<DynamicObject> {
    let (api, name) = api_for(client, object).await?;
    wait::until(what, LIMIT, || async {
        let found = api.get_opt(&name).await?.context("the object does not exist")?;
        wanted(&found)?;
        Ok(found)
    })
    .await
}

/// Waits until the object with the kind and name of `object` is gone.
pub(super) async fn gone(client: &Client, what: &str, object: &Value) -> Result<()> {
    let (api, name) = api_for(client, object).await?;
    wait::until(what, LIMIT, || async {
        ensure!(api.get_opt(&name).await?.is_none(), "the object exists");
        Ok(())
    })
    .await
}

/// Waits until the Gateway's work in `cluster` has the timestamp at which its placement ended. Returns this
/// timestamp.
pub(super) async fn unplaced_at(hub: &Client, cluster: &str) -> Result<String> {
    let works: Api<ManifestWork> = Api::namespaced(hub.clone(), cluster);
    let of_gateways = ListParams::default().labels(&format!("{WORK_FOR}=gateway"));
    wait::until(&format!("the Gateway's work of {cluster} is marked as unplaced"), LIMIT, || async {
        let works = works.list_metadata(&of_gateways).await?.items;
        let since = works.iter().find_map(|work| work.annotations().get(UNPLACED_SINCE));
        since.cloned().context("no such annotation")
    })
    .await
}

/// Waits until the controller has no works on the hub, except works whose label [`WORK_FOR`] has a value in `except`.
pub(super) async fn no_works(hub: &Client, what: &str, except: &[&str]) -> Result<()> {
    let works: Api<ManifestWork> = Api::all(hub.clone());
    let ours = ListParams::default().labels(CONTROLLER);
    wait::until(what, LIMIT, || async {
        let mut left = works.list_metadata(&ours).await?.items;
        left.retain(|work| !work.labels().get(WORK_FOR).is_some_and(|purpose| except.contains(&&**purpose)));
        let names: Vec<String> = left.iter().map(ResourceExt::name_any).collect();
        ensure!(names.is_empty(), "{} left", names.join(", "));
        Ok(())
    })
    .await
}

/// Fails unless the Namespace `name` exists and is not terminating.
pub(super) async fn namespace_stays(client: &Client, name: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let found = namespaces.get(name).await.with_context(|| format!("reading the namespace {name}"))?;
    ensure!(found.metadata.deletion_timestamp.is_none(), "the namespace {name} is being deleted");
    Ok(())
}

/// The status of a policy's copies in the policy's annotations.
pub(super) struct Fold {
    pub(super) entries: Vec<Synced>,
    pub(super) summary: Summary,
}

impl Fold {
    fn read(policy: &DynamicObject) -> Result<Self> {
        let read = |key: &str| policy.annotations().get(key).with_context(|| format!("{key} does not exist"));
        let entries = read(POLICIES_SYNCED)?;
        let summary = read(POLICIES_SYNCED_SUMMARY)?;
        Ok(Self {
            entries: serde_json::from_str(entries).with_context(|| format!("reading {entries}"))?,
            summary: serde_json::from_str(summary).with_context(|| format!("reading {summary}"))?,
        })
    }
}

/// Waits until `wanted` accepts the annotations of the hub's policy, and returns them.
pub(super) async fn folded(
    hub: &Client,
    what: &str,
    policy: &Value,
    wanted: impl Fn(&Fold) -> Result<()>,
) -> Result<Fold> {
    let found = there(hub, what, policy, |found| wanted(&Fold::read(found)?)).await?;
    Fold::read(&found)
}

/// A condition of an object, as `status (reason)`.
pub(super) fn condition(object: &DynamicObject, kind: &str) -> Option<String> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some(format!("{} ({})", condition["status"].as_str()?, condition["reason"].as_str()?))
}
