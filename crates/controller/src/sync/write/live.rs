//! Confirms the causes of deletes. Reads from the API server the objects that caused the deletion of works, and
//! compares them with the mirror.
//!
//! When a cluster is removed from a Placement, many keys delete works for the same cause. Checks that arrive during a
//! request are batched: each object is read once, and one list reads many objects of one kind and namespace. Nothing is
//! cached, so a check uses only reads that start after the check.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, join_all};
use kube::api::{GetParams, ListParams};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::sync::write::WriteError;
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::names::{ControllerName, GroupVersionResource, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_hub::reconcile::{RequestError, Requests, of_kind};
use policy_sync_hub::tasks::Tasks;
use policy_sync_mirror::Projection;
use policy_sync_sync::delete_guard::Precondition;
use policy_sync_sync::kinds::{CLUSTERS, DECISIONS};

/// The maximum number of checks in a batch.
const MAX_BATCH: usize = 256;
/// If at least this many objects of one kind and namespace are requested, they are listed instead of read one by one.
const LIST_THRESHOLD: usize = 16;
/// The page size of a list, as a multiple of the number of requested objects. Objects missing from the first page are
/// read one by one.
const LIST_LIMIT_FACTOR: usize = 4;
/// The number of batches that may run at once, so that a slow batch does not block other batches.
const CONCURRENT_BATCHES: usize = 4;

/// Confirms the causes of deletes for all keys of a worker. Stops when dropped.
pub(in crate::sync) struct LiveReads(mpsc::UnboundedSender<CheckRequest>);

struct CheckRequest {
    reads: BTreeSet<Precondition>,
    reply: oneshot::Sender<Result<(), WriteError>>,
}

/// The object or objects that a check reads. Does not contain the expected state.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ReadTarget {
    Object(GroupVersionResource, ObjectKey),
    Decisions(ObjectKey),
}

/// Objects by name.
type Objects = Arc<BTreeMap<String, HubObject>>;
type SharedResult<T> = Shared<BoxFuture<'static, Result<T, Arc<WriteError>>>>;
type SharedRead = SharedResult<Objects>;
/// The first page of a list, and whether it is the only page.
type Page = SharedResult<(Objects, bool)>;

impl LiveReads {
    /// Starts the task that checks causes for `controller`.
    pub(in crate::sync) fn start(requests: Requests, controller: ControllerName, tasks: Tasks) -> Self {
        let (sender, mut pending) = mpsc::unbounded_channel();
        let watched = tasks.clone();
        tokio::spawn(watched.watch("causes", async move {
            let slots = Arc::new(Semaphore::new(CONCURRENT_BATCHES));
            loop {
                let slot = slots.clone().acquire_owned().await;
                let mut batch = Vec::new();
                if pending.recv_many(&mut batch, MAX_BATCH).await == 0 {
                    return;
                }
                let (requests, controller) = (requests.clone(), controller.clone());
                tokio::spawn(tasks.clone().watch("causes", async move {
                    reply(&requests, &controller, batch).await;
                    drop(slot);
                }));
            }
        }));
        Self(sender)
    }

    /// Compares the objects on the API server with `reads`, which is their state in the mirror. Fails if they differ.
    pub(in crate::sync) async fn check(&self, reads: BTreeSet<Precondition>) -> Result<(), WriteError> {
        let (reply, replied) = oneshot::channel();
        let pending = self.0.send(CheckRequest { reads, reply }).is_ok();
        let replied = if pending { replied.await.ok() } else { None };
        replied.unwrap_or_else(|| Err(WriteError::CauseChanged("its cause, which was not read".to_owned())))
    }
}

/// Reads the objects of a batch and completes each check as soon as its own reads are done.
async fn reply(requests: &Requests, controller: &ControllerName, batch: Vec<CheckRequest>) {
    let readings =
        readings(requests, batch.iter().flat_map(|pending| &pending.reads).map(ReadTarget::new).collect());
    let readings = &readings;
    let replies = batch.into_iter().map(|CheckRequest { reads, reply }| async move {
        let mut outcome = Ok(());
        for read in &reads {
            let target = ReadTarget::new(read);
            outcome = match readings[&target].clone().await {
                Ok(found) if target.shows(read, &found, controller) => continue,
                Ok(_) => Err(WriteError::CauseChanged(target.text())),
                Err(error) => Err(WriteError::Shared(error)),
            };
            break;
        }
        // The receiver may have been dropped.
        reply.send(outcome).ok();
    });
    futures::join!(join_all(readings.values().cloned()), join_all(replies));
}

/// Futures that read each of `targets`, from a list or one by one. Checks of the same target share a future.
fn readings(requests: &Requests, targets: BTreeSet<ReadTarget>) -> BTreeMap<ReadTarget, SharedRead> {
    let mut groups: BTreeMap<Group, usize> = BTreeMap::new();
    for group in targets.iter().filter_map(ReadTarget::group) {
        *groups.entry(group).or_default() += 1;
    }
    groups.retain(|_, count| *count >= LIST_THRESHOLD);
    let pages: BTreeMap<Group, Page> = groups
        .into_iter()
        .map(|(group, count)| {
            let page = list(requests.clone(), group.clone(), count * LIST_LIMIT_FACTOR);
            (group, page.boxed().shared())
        })
        .collect();
    let reading = |target: ReadTarget| {
        let page = target.group().and_then(|group| pages.get(&group)).cloned();
        let reading = target.clone().read_in(page, requests.clone());
        (target, reading.boxed().shared())
    };
    targets.into_iter().map(reading).collect()
}

/// The kind and the namespace of an object.
type Group = (GroupVersionResource, Arc<str>);

async fn list(
    requests: Requests,
    (gvr, namespace): Group,
    limit: usize,
) -> Result<(Objects, bool), Arc<WriteError>> {
    let params = ListParams::default().limit(u32::try_from(limit).unwrap_or(u32::MAX));
    let request = of_kind(&gvr, &namespace).list(&params);
    let listed = requests.list(request, projection(&gvr)).await;
    let (found, next) = listed.map_err(|error| unread(format!("{} in {namespace}", gvr.kind), error))?;
    Ok((by_name(found), next.is_none()))
}

/// The part of an object of this kind that the checks compare. For most kinds the metadata suffices.
fn projection(gvr: &GroupVersionResource) -> Projection {
    match &*gvr.kind.resource {
        "configmaps" | "placements" => Projection::Full,
        _ => Projection::Metadata,
    }
}

fn unread(object: String, source: RequestError) -> Arc<WriteError> {
    Arc::new(WriteError::Request { verb: "get", object, source })
}

fn by_name(found: Vec<HubObject>) -> Objects {
    Arc::new(found.into_iter().map(|object| (object.metadata.name.clone(), object)).collect())
}

impl ReadTarget {
    fn new(read: &Precondition) -> Self {
        match read {
            Precondition::Object(_, gvr, key, _) | Precondition::Absent(gvr, key) => {
                Self::Object(gvr.clone(), key.clone())
            }
            Precondition::Decisions(placement, _) => Self::Decisions(placement.clone()),
            Precondition::ClusterTerminating(name) => {
                Self::Object(CLUSTERS.gvr(), ObjectKey::new("", &name.0))
            }
            Precondition::Namespace(name) => {
                let namespaces = GroupVersionResource::new("", "v1", "namespaces");
                Self::Object(namespaces, ObjectKey { namespace: "".into(), name: name.clone() })
            }
        }
    }

    /// Whether the objects `found` for this target match `read`.
    fn shows(&self, read: &Precondition, found: &Objects, controller: &ControllerName) -> bool {
        match self {
            Self::Object(_, key) => read.is_met(found.get(&*key.name), controller),
            Self::Decisions(_) => read.is_met(found.values(), controller),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Object(gvr, key) => format!("{} {key}", gvr.kind),
            Self::Decisions(placement) => format!("the decisions of Placement {placement}"),
        }
    }

    fn group(&self) -> Option<Group> {
        match self {
            Self::Object(gvr, key) => Some((gvr.clone(), key.namespace.clone())),
            Self::Decisions(_) => None,
        }
    }

    /// Takes the object from `page`. Reads the object from the API server if the page lacks it and is not the only
    /// page.
    async fn read_in(self, page: Option<Page>, requests: Requests) -> Result<Objects, Arc<WriteError>> {
        if let (Some(page), Self::Object(_, key)) = (page, &self) {
            let (found, whole) = page.await?;
            if whole || found.contains_key(&*key.name) {
                return Ok(found);
            }
        }
        self.read(requests).await
    }

    async fn read(self, requests: Requests) -> Result<Objects, Arc<WriteError>> {
        let found = match &self {
            Self::Object(gvr, key) => {
                let request = of_kind(gvr, &key.namespace).get(&key.name, &GetParams::default());
                match requests.read(request, projection(gvr)).await {
                    Ok(object) => Ok(vec![object]),
                    Err(error) if error.code() == 404 => Ok(Vec::new()),
                    Err(error) => Err(error),
                }
            }
            Self::Decisions(placement) => {
                let gvr = DECISIONS.gvr();
                let params = ListParams::default().labels(&format!("{PLACEMENT_LABEL}={}", placement.name));
                let request = of_kind(&gvr, &placement.namespace).list(&params);
                requests.list(request, Projection::Full).await.map(|(found, _)| found)
            }
        };
        found.map(by_name).map_err(|error| unread(self.text(), error))
    }
}

#[cfg(test)]
mod tests;
