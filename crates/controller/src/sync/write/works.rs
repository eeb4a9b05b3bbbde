//! Writes works and logs these writes. Patches test the uid and generation of the work, and deletes test its uid.

use std::collections::{BTreeMap, BTreeSet};

use http::Request;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation, TestOperation};
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::request;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::{debug, info};

use super::WriteError;
use super::own_writes::UndeliveredWrite;
use policy_sync_api::annotations::{PARENT, UNPLACED_SINCE};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, WorkName};
use policy_sync_api::object::Metadata;
use policy_sync_api::text::join_limited;
use policy_sync_hub::reconcile::{RequestError, Requests, of_kind};
use policy_sync_sync::Problem;
use policy_sync_sync::desired::PlannedWork;
use policy_sync_sync::diff::WorkAction;
use policy_sync_sync::kinds::WORKS;

/// A request, or the reason why the request cannot be built.
type BuiltRequest = Result<Request<Vec<u8>>, request::Error>;

/// Sends the request of an action. `None` if the intended state exists already.
pub(super) async fn write(
    requests: &Requests,
    action: &WorkAction,
    request: BuiltRequest,
) -> Result<Option<UndeliveredWrite>, WriteError> {
    let (cluster, name) = (action.cluster(), action.name());
    let sent = match action {
        WorkAction::Update { .. } | WorkAction::Mark { .. } => {
            let get = of_kind(&WORKS.gvr(), &cluster.0).get(&name.0, &GetParams::default());
            requests.write_guarded(request, get, |found| is_stale(action, found)).await
        }
        WorkAction::Create { .. } | WorkAction::Delete { .. } => requests.write(request).await,
    };
    match sent {
        Ok(metadata) => Ok(Some(written(action, &metadata))),
        Err(error) => match classify_rejection(action, error.code()) {
            RejectedWrite::AlreadyDone => Ok(None),
            RejectedWrite::Exists(work) => adopt(requests, cluster, work, error).await.map(Some),
            RejectedWrite::Failed => Err(failed(verb(action), cluster, name, error)),
        },
    }
}

/// Builds the request of `action`.
///
/// # Errors
///
/// If the request cannot be built.
pub fn request(action: &WorkAction) -> BuiltRequest {
    let works = of_kind(&WORKS.gvr(), &action.cluster().0);
    match action {
        WorkAction::Create { cluster, work } => {
            let object = work.object(&cluster.0).map_err(unbuildable)?;
            let body = serde_json::to_vec(&object).map_err(request::Error::SerializeBody)?;
            works.create(&PostParams::default(), body)
        }
        WorkAction::Update { cluster, work, uid, generation } => {
            update(cluster, work, uid, *generation, false)
        }
        WorkAction::Mark { cluster, name, uid, unplaced } => mark(cluster, name, uid, *unplaced),
        WorkAction::Delete { name, uid, .. } => {
            let preconditions = Preconditions { uid: Some(uid.to_string()), resource_version: None };
            works.delete(&name.0, &DeleteParams::background().preconditions(preconditions))
        }
    }
}

/// The state after `action`, for which the hub returned `metadata`.
#[must_use]
pub fn written(action: &WorkAction, metadata: &Metadata) -> UndeliveredWrite {
    match action {
        WorkAction::Delete { uid, .. } => UndeliveredWrite::Deleted(uid.clone()),
        _ => UndeliveredWrite::At(metadata.version()),
    }
}

/// Whether the hub rejects the patch of `action` because the work's metadata `found` has changed. If not, the hub
/// rejects the content of the patch.
fn is_stale(action: &WorkAction, found: &Metadata) -> bool {
    match action {
        WorkAction::Update { work, uid, generation, .. } => {
            found.uid != **uid
                || found.generation != *generation
                // A JSON Patch can only add a value whose parent exists.
                || found.labels.is_empty()
                || found.annotations.is_empty() && !work.annotations.is_empty()
        }
        WorkAction::Mark { uid, unplaced, .. } => {
            found.uid != **uid
                || found.annotations.is_empty()
                || unplaced.is_none() && !found.annotations.contains_key(UNPLACED_SINCE)
        }
        WorkAction::Create { .. } | WorkAction::Delete { .. } => false,
    }
}

/// The meaning of a rejection.
#[derive(Debug)]
pub enum RejectedWrite<'a> {
    /// The work is already in the intended state.
    AlreadyDone,
    /// A work of the planned name exists that the mirror does not show. The work must be read.
    Exists(&'a PlannedWork),
    /// The action failed. It is planned again.
    Failed,
}

/// Classifies a rejection of `action` by its HTTP status `code`. The code is 0 if there was no response.
#[must_use]
pub fn classify_rejection(action: &WorkAction, code: u16) -> RejectedWrite<'_> {
    match (action, code) {
        (WorkAction::Create { work, .. }, 409) => RejectedWrite::Exists(work),
        (WorkAction::Delete { .. }, 404) => RejectedWrite::AlreadyDone,
        _ => RejectedWrite::Failed,
    }
}

fn unbuildable(problem: Problem) -> request::Error {
    request::Error::Validation(problem.to_string())
}

fn verb(action: &WorkAction) -> &'static str {
    match action {
        WorkAction::Update { .. } | WorkAction::Mark { .. } => "patch",
        other => other.verb(),
    }
}

fn failed(verb: &'static str, cluster: &ClusterName, name: &WorkName, source: RequestError) -> WriteError {
    WriteError::Request { verb, object: format!("ManifestWork {cluster}/{name}"), source }
}

/// A work of the planned name that the mirror does not show.
#[derive(Debug)]
pub enum ExistingWork {
    /// The work does not belong to this controller.
    Foreign,
    /// The work belongs to this controller, and the watch has not delivered it yet.
    Lagging,
    /// The work belongs to this controller, but lacks labels by which the watch selects works. The request restores the
    /// labels.
    Unlabelled(Box<BuiltRequest>),
}

/// Classifies the existing work of the planned name by its metadata `found`. The work belongs to this controller if it
/// has the planned origin. An access work has no origin, but its name is unique to this controller.
#[must_use]
pub fn classify_existing(cluster: &ClusterName, work: &PlannedWork, found: &Metadata) -> ExistingWork {
    let planned = work.annotations.get(PARENT);
    if planned.is_some() && found.annotations.get(PARENT) != planned {
        ExistingWork::Foreign
    } else if work.labels.iter().all(|(key, value)| found.labels.get(key) == Some(value)) {
        ExistingWork::Lagging
    } else {
        let without_labels = found.labels.is_empty();
        ExistingWork::Unlabelled(Box::new(update(
            cluster,
            work,
            &found.uid,
            found.generation,
            without_labels,
        )))
    }
}

/// Reads the work that blocks a create, and takes it over if it belongs to this controller.
async fn adopt(
    requests: &Requests,
    cluster: &ClusterName,
    work: &PlannedWork,
    conflict: RequestError,
) -> Result<UndeliveredWrite, WriteError> {
    let get = of_kind(&WORKS.gvr(), &cluster.0).get(&work.name.0, &GetParams::default());
    let existing = requests.write(get).await;
    let existing = existing.map_err(|source| failed("get", cluster, &work.name, source))?;
    match classify_existing(cluster, work, &existing) {
        ExistingWork::Foreign => {
            Err(WriteError::ForeignWork { cluster: cluster.to_string(), name: work.name.to_string() })
        }
        ExistingWork::Lagging => Err(failed("create", cluster, &work.name, conflict)),
        ExistingWork::Unlabelled(request) => match requests.write(*request).await {
            Ok(metadata) => Ok(UndeliveredWrite::At(metadata.version())),
            Err(source) => Err(failed("patch", cluster, &work.name, source)),
        },
    }
}

fn update(
    cluster: &ClusterName,
    work: &PlannedWork,
    uid: &str,
    generation: i64,
    without_labels: bool,
) -> BuiltRequest {
    let spec =
        serde_json::to_value(work.spec().map_err(unbuildable)?).map_err(request::Error::SerializeBody)?;
    let mut operations = vec![
        test(["metadata", "uid"], uid.into()),
        test(["metadata", "generation"], generation.into()),
        add(["spec"], spec),
    ];
    if without_labels {
        operations.push(add(["metadata", "labels"], json!({})));
    }
    for (field, texts) in [("labels", &work.labels), ("annotations", &work.annotations)] {
        operations
            .extend(texts.iter().map(|(key, text)| add(["metadata", field, key], text.as_str().into())));
    }
    patch(cluster, &work.name, operations)
}

fn mark(cluster: &ClusterName, name: &WorkName, uid: &str, unplaced: Option<Moment>) -> BuiltRequest {
    let place = ["metadata", "annotations", UNPLACED_SINCE];
    let change = match unplaced {
        Some(since) => add(place, since.rfc3339().into()),
        None => PatchOperation::Remove(RemoveOperation { path: PointerBuf::from_tokens(place) }),
    };
    patch(cluster, name, vec![test(["metadata", "uid"], uid.into()), change])
}

fn patch(cluster: &ClusterName, name: &WorkName, operations: Vec<PatchOperation>) -> BuiltRequest {
    let patch = Patch::<()>::Json(json_patch::Patch(operations));
    of_kind(&WORKS.gvr(), &cluster.0).patch(&name.0, &PatchParams::default(), &patch)
}

fn test<const N: usize>(place: [&str; N], value: Value) -> PatchOperation {
    PatchOperation::Test(TestOperation { path: PointerBuf::from_tokens(place), value })
}

fn add<const N: usize>(place: [&str; N], value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path: PointerBuf::from_tokens(place), value })
}

/// Collects the writes for one object and logs them when dropped, also after an error. Logs one line for each action
/// and not for each work.
pub(super) struct WriteLog {
    object: String,
    written: Mutex<BTreeMap<&'static str, BTreeSet<ClusterName>>>,
}

impl WriteLog {
    /// Creates a log for `object` without writes.
    pub(super) fn new(object: String) -> Self {
        Self { object, written: Mutex::default() }
    }

    /// Records that `action` was carried out.
    pub(super) fn wrote(&self, action: &WorkAction) {
        let (object, verb, cluster, work) = (&self.object, action.verb(), action.cluster(), action.name());
        debug!(object, action = verb, %cluster, %work, "wrote a work");
        self.written.lock().entry(verb).or_default().insert(cluster.clone());
    }
}

impl Drop for WriteLog {
    fn drop(&mut self) {
        let object = &self.object;
        for (action, clusters) in &*self.written.lock() {
            let names = join_limited(clusters.iter().map(ToString::to_string));
            info!(object, action, works = clusters.len(), clusters = names, "wrote works");
        }
    }
}

#[cfg(test)]
mod tests;
