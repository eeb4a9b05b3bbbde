//! Watches on the spoke for works that request them: one for each kind and namespace, shared by all works.
//!
//! As in OCM's agent, the number of watches is limited; further objects are polled without notice. A deletion on
//! the spoke triggers nothing before the next poll.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use kube::api::DynamicObject;
use kube::runtime::reflector::{ObjectRef, Store, store::Writer};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use parking_lot::Mutex;
use policy_sync_api::work::ResourceMeta;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::spoke::resource_of;

/// A watched kind and namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    group: String,
    version: String,
    resource: String,
    namespace: String,
}

impl Key {
    fn new(meta: &ResourceMeta) -> Self {
        Self {
            group: meta.group.clone(),
            version: meta.version.clone(),
            resource: meta.resource.clone(),
            namespace: meta.namespace.clone(),
        }
    }
}

/// Works to queue, by the name of the changed object.
type Listeners = Arc<Mutex<HashMap<String, BTreeSet<String>>>>;

struct Watch {
    objects: Store<DynamicObject>,
    synced: Arc<AtomicBool>,
    listeners: Listeners,
    _stop: DropGuard,
}

/// Cached state of an object.
pub(super) enum CachedObject {
    /// No synced watch covers the object, so the object must be read from the API server.
    NotCached,
    /// The cached object, or `None` if it does not exist.
    Object(Option<Arc<DynamicObject>>),
}

/// All watches of an agent.
pub(super) struct Watches {
    client: Client,
    limit: usize,
    wake: UnboundedSender<String>,
    stop: CancellationToken,
    running: Mutex<HashMap<Key, Watch>>,
}

impl Watches {
    /// Creates an empty set of at most `limit` watches. Sends the names of works that must be observed to `wake`.
    pub(super) fn new(
        client: Client,
        limit: usize,
        wake: UnboundedSender<String>,
        stop: CancellationToken,
    ) -> Self {
        Self { client, limit, wake, stop, running: Mutex::default() }
    }

    /// Queues `work` at each change of one of `objects`. Changes of objects in earlier calls no longer queue `work`.
    pub(super) fn listen(&self, work: &str, objects: &[ResourceMeta]) {
        let mut running = self.running.lock();
        for meta in objects {
            let key = Key::new(meta);
            if !running.contains_key(&key) {
                if running.len() >= self.limit {
                    tracing::info!(work, resource = key.resource, "too many watches: this object is polled");
                    continue;
                }
                running.insert(key.clone(), self.start(meta));
            }
            if let Some(watch) = running.get(&key) {
                let mut listeners = watch.listeners.lock();
                listeners.entry(meta.name.clone()).or_default().insert(work.to_owned());
            }
        }
        running.retain(|key, watch| {
            let mut listeners = watch.listeners.lock();
            listeners.retain(|name, works| {
                let wanted = objects.iter().any(|meta| meta.name == *name && Key::new(meta) == *key);
                if !wanted {
                    works.remove(work);
                }
                !works.is_empty()
            });
            !listeners.is_empty()
        });
    }

    /// Reads an object from the cache.
    pub(super) fn read(&self, meta: &ResourceMeta) -> CachedObject {
        match self.running.lock().get(&Key::new(meta)) {
            Some(watch) if watch.synced.load(Ordering::Acquire) => {
                let mut object = ObjectRef::new_with(&meta.name, resource_of(meta));
                object.namespace = Some(meta.namespace.clone()).filter(|namespace| !namespace.is_empty());
                CachedObject::Object(watch.objects.get(&object))
            }
            _ => CachedObject::NotCached,
        }
    }

    fn start(&self, meta: &ResourceMeta) -> Watch {
        let resource = resource_of(meta);
        let api: Api<DynamicObject> = if meta.namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &meta.namespace, &resource)
        };
        let writer = Writer::new(resource);
        let stop = self.stop.child_token();
        let watch = Watch {
            objects: writer.as_reader(),
            synced: Arc::default(),
            listeners: Arc::default(),
            _stop: stop.clone().drop_guard(),
        };
        let (synced, listeners) = (Arc::clone(&watch.synced), Arc::clone(&watch.listeners));
        let run = run(api, writer, synced, listeners, self.wake.clone());
        tokio::spawn(async move { stop.run_until_cancelled(run).await });
        watch
    }
}

async fn run(
    api: Api<DynamicObject>,
    writer: Writer<DynamicObject>,
    synced: Arc<AtomicBool>,
    listeners: Listeners,
    wake: UnboundedSender<String>,
) {
    let events = watcher(api, watcher::Config::default()).default_backoff().reflect(writer);
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        let works: BTreeSet<String> = match event {
            Ok(watcher::Event::Apply(object)) => {
                let name = object.metadata.name.unwrap_or_default();
                listeners.lock().get(&name).cloned().unwrap_or_default()
            }
            Ok(watcher::Event::InitDone) => {
                synced.store(true, Ordering::Release);
                listeners.lock().values().flatten().cloned().collect()
            }
            Ok(watcher::Event::Init | watcher::Event::InitApply(_) | watcher::Event::Delete(_)) => continue,
            Err(error) => {
                tracing::debug!(%error, "a watch on the spoke failed");
                continue;
            }
        };
        for work in works {
            if wake.send(work).is_err() {
                return;
            }
        }
    }
}
