//! Reads the causes of deletes from the server, and compares them with what the mirror decided from.
//!
//! When a cluster leaves, many keys delete for the same cause. Those that ask while others are answered are answered
//! together, and what several of them ask for is read once. Nothing is remembered: whoever asks is answered by what is
//! read afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{BoxFuture, Shared, join_all};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use kube::api::{GetParams, ListParams};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::ApplyError;
use super::requests::{RequestError, Requests, of_kind};
use crate::api::cluster::{GROUP, PLACEMENT_LABEL};
use crate::api::names::{GroupVersionResource, ObjectKey};
use crate::plan::cause::Read;

/// How many keys are answered together at most.
const BATCH: usize = 256;
/// How many batches are read at once: one that is slow to be answered holds up no other.
const CONCURRENT_BATCHES: usize = 4;

/// Reads causes for all keys of a worker. What is asked once its worker is gone is not answered any more.
pub(super) struct Causes(mpsc::UnboundedSender<Asked>);

struct Asked {
    reads: BTreeSet<Read>,
    answer: oneshot::Sender<Result<(), ApplyError>>,
}

/// Something on the server, whatever version it should have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Object(GroupVersionResource, ObjectKey),
    Decisions(ObjectKey),
}

/// Resource versions by name.
type Versions = Arc<BTreeMap<String, u64>>;
type Reading = Shared<BoxFuture<'static, Result<Versions, Arc<ApplyError>>>>;

impl Causes {
    /// Starts to answer, until this is dropped.
    pub(super) fn start(requests: Requests) -> Self {
        let (sender, mut asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let slots = Arc::new(Semaphore::new(CONCURRENT_BATCHES));
            loop {
                let slot = slots.clone().acquire_owned().await;
                let mut batch = Vec::new();
                if asked.recv_many(&mut batch, BATCH).await == 0 {
                    return;
                }
                let requests = requests.clone();
                tokio::spawn(async move {
                    answer(&requests, batch).await;
                    drop(slot);
                });
            }
        });
        Self(sender)
    }

    /// Fails where the server shows something else than `reads`, what the mirror shows.
    pub(super) async fn check(&self, reads: BTreeSet<Read>) -> Result<(), ApplyError> {
        let (answer, answered) = oneshot::channel();
        let asked = self.0.send(Asked { reads, answer }).is_ok();
        let answered = if asked { answered.await.ok() } else { None };
        answered.unwrap_or_else(|| Err(ApplyError::CauseChanged("its cause, which was not read".to_owned())))
    }
}

/// Answers each as soon as what it asks for is read.
async fn answer(requests: &Requests, batch: Vec<Asked>) {
    let mut readings: BTreeMap<Place, Reading> = BTreeMap::new();
    for read in batch.iter().flat_map(|asked| &asked.reads) {
        let place = Place::of(read);
        readings.entry(place.clone()).or_insert_with(|| place.read(requests.clone()).boxed().shared());
    }
    let readings = &readings;
    let answers = batch.into_iter().map(|Asked { reads, answer }| async move {
        let mut outcome = Ok(());
        for read in &reads {
            let place = Place::of(read);
            let Some(reading) = readings.get(&place) else { continue };
            outcome = match reading.clone().await {
                Ok(found) if shows(read, &found) => continue,
                Ok(_) => Err(ApplyError::CauseChanged(place.text())),
                Err(error) => Err(ApplyError::Shared(error)),
            };
            break;
        }
        // Who asked may have been stopped meanwhile.
        answer.send(outcome).ok();
    });
    let answers: FuturesUnordered<_> = answers.collect();
    futures::join!(join_all(readings.values().cloned()), answers.collect::<()>());
}

fn shows(read: &Read, found: &BTreeMap<String, u64>) -> bool {
    match read {
        Read::Object(_, key, expected) => found.get(&*key.name) == expected.as_ref(),
        Read::Decisions(_, expected) => found == expected,
    }
}

impl Place {
    fn of(read: &Read) -> Self {
        match read {
            Read::Object(gvr, key, _) => Self::Object(gvr.clone(), key.clone()),
            Read::Decisions(placement, _) => Self::Decisions(placement.clone()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Object(gvr, key) => format!("{} {key}", gvr.kind),
            Self::Decisions(placement) => format!("the decisions of Placement {placement}"),
        }
    }

    async fn read(self, requests: Requests) -> Result<Versions, Arc<ApplyError>> {
        let found = match &self {
            Self::Object(gvr, key) => {
                let request = of_kind(gvr, &key.namespace).get(&key.name, &GetParams::default());
                match requests.write(&gvr.kind.resource, request).await {
                    Ok(metadata) => Ok(vec![metadata]),
                    Err(error) if error.code() == 404 => Ok(Vec::new()),
                    Err(error) => Err(error),
                }
            }
            Self::Decisions(placement) => {
                let gvr = GroupVersionResource::new(GROUP, "v1beta1", "placementdecisions");
                let params = ListParams::default().labels(&format!("{PLACEMENT_LABEL}={}", placement.name));
                requests.list(&gvr.kind.resource, of_kind(&gvr, &placement.namespace).list(&params)).await
            }
        };
        let unread =
            |source: RequestError| Arc::new(ApplyError::Request { verb: "get", object: self.text(), source });
        let found = found.map_err(unread)?.into_iter();
        Ok(Arc::new(found.map(|metadata| (metadata.name.clone(), metadata.version())).collect()))
    }
}

#[cfg(test)]
mod tests;
