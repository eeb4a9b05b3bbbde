//! Confirms the causes of deletes: reads them from the server and compares them with the mirror.
//!
//! When a cluster leaves, many keys delete for the same cause. Checks that arrive during a request are batched: each
//! object is read once, and one list reads many objects of one kind and namespace. Nothing is cached, so a check uses
//! only reads that start after it.

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
use policy_sync_mirror::Extent;
use policy_sync_sync::delete_guard::Read;
use policy_sync_sync::kinds::{CLUSTERS, DECISIONS};

/// The maximum number of checks in a batch.
const BATCH: usize = 256;
/// The number of objects of one kind and namespace from which they are listed instead of read one by one.
const MANY: usize = 16;
/// The limit of a list, per requested object. Objects missing from the first page are read one by one.
const LISTED: usize = 4;
/// The number of batches in progress at once, so that a slow one does not block the others.
const CONCURRENT_BATCHES: usize = 4;

/// Confirms causes for all keys of a worker. Stops when dropped.
pub(in crate::sync) struct LiveReads(mpsc::UnboundedSender<Asked>);

struct Asked {
    reads: BTreeSet<Read>,
    answer: oneshot::Sender<Result<(), WriteError>>,
}

/// The object or objects that a check reads, without the expected state.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Object(GroupVersionResource, ObjectKey),
    Decisions(ObjectKey),
}

/// Objects by name.
type Objects = Arc<BTreeMap<String, HubObject>>;
type Outcome<T> = Shared<BoxFuture<'static, Result<T, Arc<WriteError>>>>;
type Reading = Outcome<Objects>;
/// The first page of a list, and whether it is the only one.
type Page = Outcome<(Objects, bool)>;

impl LiveReads {
    /// Starts the task that checks causes for `controller`.
    pub(in crate::sync) fn start(requests: Requests, controller: ControllerName, tasks: Tasks) -> Self {
        let (sender, mut asked) = mpsc::unbounded_channel();
        let watched = tasks.clone();
        tokio::spawn(watched.watch("causes", async move {
            let slots = Arc::new(Semaphore::new(CONCURRENT_BATCHES));
            loop {
                let slot = slots.clone().acquire_owned().await;
                let mut batch = Vec::new();
                if asked.recv_many(&mut batch, BATCH).await == 0 {
                    return;
                }
                let (requests, controller) = (requests.clone(), controller.clone());
                tokio::spawn(tasks.clone().watch("causes", async move {
                    answer(&requests, &controller, batch).await;
                    drop(slot);
                }));
            }
        }));
        Self(sender)
    }

    /// Compares the server with `reads`, the state that the mirror shows. Fails if they differ.
    pub(in crate::sync) async fn check(&self, reads: BTreeSet<Read>) -> Result<(), WriteError> {
        let (answer, answered) = oneshot::channel();
        let asked = self.0.send(Asked { reads, answer }).is_ok();
        let answered = if asked { answered.await.ok() } else { None };
        answered.unwrap_or_else(|| Err(WriteError::CauseChanged("its cause, which was not read".to_owned())))
    }
}

/// Reads the objects of a batch and completes each check as soon as its own reads are done.
async fn answer(requests: &Requests, controller: &ControllerName, batch: Vec<Asked>) {
    let readings = readings(requests, batch.iter().flat_map(|asked| &asked.reads).map(Place::new).collect());
    let readings = &readings;
    let answers = batch.into_iter().map(|Asked { reads, answer }| async move {
        let mut outcome = Ok(());
        for read in &reads {
            let place = Place::new(read);
            outcome = match readings[&place].clone().await {
                Ok(found) if place.shows(read, &found, controller) => continue,
                Ok(_) => Err(WriteError::CauseChanged(place.text())),
                Err(error) => Err(WriteError::Shared(error)),
            };
            break;
        }
        // The receiver may have been cancelled.
        answer.send(outcome).ok();
    });
    futures::join!(join_all(readings.values().cloned()), join_all(answers));
}

/// The shared futures that read each of `places`, by list or one by one.
fn readings(requests: &Requests, places: BTreeSet<Place>) -> BTreeMap<Place, Reading> {
    let mut groups: BTreeMap<Group, usize> = BTreeMap::new();
    for group in places.iter().filter_map(Place::group) {
        *groups.entry(group).or_default() += 1;
    }
    groups.retain(|_, count| *count >= MANY);
    let pages: BTreeMap<Group, Page> = groups
        .into_iter()
        .map(|(group, count)| {
            let page = list(requests.clone(), group.clone(), count * LISTED);
            (group, page.boxed().shared())
        })
        .collect();
    let reading = |place: Place| {
        let page = place.group().and_then(|group| pages.get(&group)).cloned();
        let reading = place.clone().read_in(page, requests.clone());
        (place, reading.boxed().shared())
    };
    places.into_iter().map(reading).collect()
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
    let listed = requests.list(request, extent(&gvr)).await;
    let (found, next) = listed.map_err(|error| unread(format!("{} in {namespace}", gvr.kind), error))?;
    Ok((by_name(found), next.is_none()))
}

/// How much of an object of this kind the checks compare. For most kinds the metadata suffices.
fn extent(gvr: &GroupVersionResource) -> Extent {
    match &*gvr.kind.resource {
        "configmaps" | "placements" => Extent::Whole,
        _ => Extent::Metadata,
    }
}

fn unread(object: String, source: RequestError) -> Arc<WriteError> {
    Arc::new(WriteError::Request { verb: "get", object, source })
}

fn by_name(found: Vec<HubObject>) -> Objects {
    Arc::new(found.into_iter().map(|object| (object.metadata.name.clone(), object)).collect())
}

impl Place {
    fn new(read: &Read) -> Self {
        match read {
            Read::Object(_, gvr, key, _) | Read::Absent(gvr, key) => Self::Object(gvr.clone(), key.clone()),
            Read::Decisions(placement, _) => Self::Decisions(placement.clone()),
            Read::Leaving(name) => Self::Object(CLUSTERS.gvr(), ObjectKey::new("", &name.0)),
            Read::Namespace(name) => {
                let namespaces = GroupVersionResource::new("", "v1", "namespaces");
                Self::Object(namespaces, ObjectKey { namespace: "".into(), name: name.clone() })
            }
        }
    }

    /// Whether the objects `found` here match `read`.
    fn shows(&self, read: &Read, found: &Objects, controller: &ControllerName) -> bool {
        match self {
            Self::Object(_, key) => read.shows(found.get(&*key.name), controller),
            Self::Decisions(_) => read.shows(found.values(), controller),
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

    /// Takes the object from `page`. Reads it singly if the page lacks it and is not the only page.
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
                match requests.read(request, extent(gvr)).await {
                    Ok(object) => Ok(vec![object]),
                    Err(error) if error.code() == 404 => Ok(Vec::new()),
                    Err(error) => Err(error),
                }
            }
            Self::Decisions(placement) => {
                let gvr = DECISIONS.gvr();
                let params = ListParams::default().labels(&format!("{PLACEMENT_LABEL}={}", placement.name));
                let request = of_kind(&gvr, &placement.namespace).list(&params);
                requests.list(request, Extent::Whole).await.map(|(found, _)| found)
            }
        };
        found.map(by_name).map_err(|error| unread(self.text(), error))
    }
}

#[cfg(test)]
mod tests;
