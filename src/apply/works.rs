//! Writes works: a create, a patch of what differs guarded by uid and generation, or a delete guarded by uid.

use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use tracing::info;

use super::ApplyError;
use super::pending::Written;
use super::requests::{RequestError, Requests, of_kind};
use crate::api::annotations::PARENT;
use crate::api::names::{ClusterName, GroupVersionResource, WorkName};
use crate::api::object::Metadata;
use crate::api::work::GROUP;
use crate::plan::PlannedWork;
use crate::plan::diff::WorkAction;

/// Carries an action out for `object`; `None` where what it was to do is done already.
pub(super) async fn write(
    requests: &Requests,
    object: &str,
    action: &WorkAction,
) -> Result<Option<Written>, ApplyError> {
    let (cluster, name) = (action.cluster(), action.name());
    let written = match action {
        WorkAction::Create { work, .. } => create(requests, cluster, work).await?,
        WorkAction::Update { work, uid, generation, .. } => {
            Some(update(requests, cluster, work, uid, *generation, false).await?)
        }
        WorkAction::Delete { uid, .. } => delete(requests, cluster, name, uid).await?,
    };
    info!(object, cluster = %cluster, work = %name, action = action.verb(), "wrote a work");
    Ok(written)
}

fn kind() -> GroupVersionResource {
    GroupVersionResource::new(GROUP, "v1", "manifestworks")
}

fn failed(verb: &'static str, cluster: &ClusterName, name: &WorkName, source: RequestError) -> ApplyError {
    ApplyError::Request { verb, object: format!("ManifestWork {cluster}/{name}"), source }
}

async fn create(
    requests: &Requests,
    cluster: &ClusterName,
    work: &PlannedWork,
) -> Result<Option<Written>, ApplyError> {
    let body = serde_json::to_vec(&work.object(&cluster.0)).unwrap_or_default();
    let request = of_kind(&kind(), &cluster.0).create(&PostParams::default(), body);
    match requests.write("manifestworks", request).await {
        Ok(metadata) => Ok(Some(Written::At(metadata.version()))),
        Err(error) if error.code() == 409 => adopt(requests, cluster, work, error).await,
        Err(error) => Err(failed("create", cluster, &work.name, error)),
    }
}

/// A work of the planned name is there although the mirror shows none: the watch lags, or the labels that it selects
/// by were taken away. With the planned parent it is ours all the same.
async fn adopt(
    requests: &Requests,
    cluster: &ClusterName,
    work: &PlannedWork,
    conflict: RequestError,
) -> Result<Option<Written>, ApplyError> {
    let request = of_kind(&kind(), &cluster.0).get(&work.name.0, &GetParams::default());
    let found: Metadata = match requests.write("manifestworks", request).await {
        Ok(found) => found,
        Err(error) => return Err(failed("get", cluster, &work.name, error)),
    };
    let planned = work.annotations.get(PARENT);
    if planned.is_none() || found.annotations.get(PARENT) != planned {
        return Err(ApplyError::ForeignWork { cluster: cluster.to_string(), name: work.name.to_string() });
    }
    let selected = work.labels.iter().all(|(key, value)| found.labels.get(key) == Some(value));
    if selected {
        return Err(failed("create", cluster, &work.name, conflict));
    }
    update(requests, cluster, work, &found.uid, found.generation, found.labels.is_empty()).await.map(Some)
}

async fn update(
    requests: &Requests,
    cluster: &ClusterName,
    work: &PlannedWork,
    uid: &str,
    generation: i64,
    without_labels: bool,
) -> Result<Written, ApplyError> {
    let mut patch = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": uid}),
        json!({"op": "test", "path": "/metadata/generation", "value": generation}),
        json!({"op": "add", "path": "/spec", "value": work.spec}),
    ];
    if without_labels {
        patch.push(json!({"op": "add", "path": "/metadata/labels", "value": {}}));
    }
    patch.extend(work.labels.iter().map(|(key, value)| add("labels", key, value)));
    patch.extend(work.annotations.iter().map(|(key, value)| add("annotations", key, value)));
    let patch = serde_json::from_value(Value::Array(patch)).unwrap_or_default();
    let request =
        of_kind(&kind(), &cluster.0).patch(&work.name.0, &PatchParams::default(), &Patch::<()>::Json(patch));
    match requests.write("manifestworks", request).await {
        Ok(metadata) => Ok(Written::At(metadata.version())),
        Err(error) => Err(failed("patch", cluster, &work.name, error)),
    }
}

fn add(field: &str, key: &str, value: &str) -> Value {
    let key = key.replace('~', "~0").replace('/', "~1");
    json!({"op": "add", "path": format!("/metadata/{field}/{key}"), "value": value})
}

async fn delete(
    requests: &Requests,
    cluster: &ClusterName,
    name: &WorkName,
    uid: &str,
) -> Result<Option<Written>, ApplyError> {
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    let request = of_kind(&kind(), &cluster.0)
        .delete(&name.0, &DeleteParams::background().preconditions(preconditions));
    match requests.write("manifestworks", request).await {
        Ok(_) => Ok(Some(Written::Deleted(uid.into()))),
        Err(error) if error.code() == 404 => Ok(None),
        Err(error) => Err(failed("delete", cluster, name, error)),
    }
}
