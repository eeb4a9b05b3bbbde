//! An example of a capability. It annotates labelled ConfigMaps with the number of their keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::core::Request;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{
    Capability, Expectations, LastWrite, Leadership, Queue, RequestError, Requests, Slot, Worker,
};
use policy_sync_hub::tasks::Tasks;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::watch::{Feed, Supervisor};
use policy_sync_mirror::{
    Changes, Index, Key, Kind, KindDeclaration, Mirror, MirrorChange, ObjectRow, Priority, Row, Tables,
    WatchedSources,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The annotation with the number of keys.
pub(crate) const COUNT: &str = "example.com/keys";

static CONFIG_MAPS: Kind<Counted> =
    Kind::new("", "v1", "configmaps").with_labels(|_| "example.com/count=true".to_owned());
const NEEDED: [&KindDeclaration; 1] = [CONFIG_MAPS.declaration()];

#[derive(Clone, Debug, PartialEq)]
struct Counted {
    uid: String,
    keys: usize,
    annotated: Option<String>,
}

impl Row for Counted {}

impl ObjectRow for Counted {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        let (uid, keys) = (object.metadata.uid.clone(), object.data_as::<BTreeMap<String, Value>>().len());
        Self { uid, keys, annotated: object.metadata.annotations.get(COUNT).cloned() }
    }
}

/// An index without derived data.
#[derive(Clone, Debug)]
struct NoIndex;

impl Index for NoIndex {
    const REQUIRED_KINDS: &'static [&'static KindDeclaration] = &NEEDED;
    type View<'m> = &'m Tables;

    fn new(_: ControllerName) -> Self {
        Self
    }

    fn view<'m>(&'m self, tables: &'m Tables, _: Moment) -> &'m Tables {
        tables
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct ConfigMap(ObjectKey);

impl Key for ConfigMap {
    const CATEGORIES: &'static [&'static str] = &["configmap"];

    fn category(&self) -> &'static str {
        "configmap"
    }

    fn priority(&self) -> Priority {
        Priority::Fair(self.0.namespace.clone())
    }
}

/// The keys that `changes` affect.
fn affected(changes: &Changes<'_, NoIndex>) -> BTreeSet<ConfigMap> {
    let of = |changed: &MirrorChange| match changed {
        MirrorChange::Everything => everything(changes.view()),
        changed => {
            changed.object_of(&CONFIG_MAPS).map(|(key, _)| ConfigMap(key.clone())).into_iter().collect()
        }
    };
    changes.iter().flat_map(of).collect()
}

fn everything(tables: &Tables) -> BTreeSet<ConfigMap> {
    tables.rows(&CONFIG_MAPS).map(|(key, _)| ConfigMap(key.clone())).collect()
}

struct KeyCounter {
    mirror: Arc<Mirror<NoIndex>>,
    queue: Arc<Queue<ConfigMap>>,
    requests: Requests,
    written: Expectations<ConfigMap, LastWrite>,
}

impl Capability for KeyCounter {
    type Key = ConfigMap;
    type Error = RequestError;

    fn all_keys(&self) -> BTreeSet<ConfigMap> {
        everything(self.mirror.read().tables())
    }

    async fn reconcile(&self, key: &ConfigMap, _slot: Slot) -> Result<(), RequestError> {
        let (row, seen) = {
            let guard = self.mirror.read();
            let tables = guard.tables();
            (tables.get(&CONFIG_MAPS, &key.0).cloned(), tables.version(&CONFIG_MAPS.all()))
        };
        let is_visible = self.written.with(key, |last| last.is_visible(seen));
        let Some(row) = row.filter(|row| row.annotated != Some(row.keys.to_string())) else { return Ok(()) };
        if !is_visible {
            self.queue.add_after_window(key.clone());
            return Ok(());
        }
        let (namespace, name) = (&key.0.namespace, &key.0.name);
        let metadata = json!({"name": name, "namespace": namespace, "uid": row.uid,
            "annotations": {COUNT: row.keys.to_string()}});
        let body = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
        let request = Request::new(CONFIG_MAPS.gvr().path(namespace));
        let request = request.patch(name, &PatchParams::apply("counting").force(), &body);
        let written = self.requests.write(request).await?;
        self.written.note(key, |last| last.wrote(written.version()));
        Ok(())
    }
}

/// Starts the capability. It runs until `stop` is cancelled, and watches while the returned sender exists.
pub(crate) fn start(
    client: Client,
    clock: Clock,
    stop: CancellationToken,
) -> Result<watch::Sender<WatchedSources>> {
    let (name, metrics) = (ControllerName::new("example.com/counting"), Metrics::new()?);
    let (tasks, leadership) = (Tasks::new(metrics.clone()), Leadership::always());
    let mirror = Arc::new(Mirror::new(name.clone()));
    let queue = Arc::new(Queue::new(Duration::from_secs(1), metrics.clone()));
    let adding = queue.clone();
    let feed = Feed::new(mirror.clone(), name, clock, move |changes| {
        adding.enqueue(affected(changes));
    });
    let (wanted, watched) = watch::channel(WatchedSources::new());
    tokio::spawn(Supervisor::new(client.clone(), feed, tasks.clone()).run(&NEEDED, watched));
    let requests = Requests::new(client, leadership.clone());
    let counting = KeyCounter { mirror, queue: queue.clone(), requests, written: Expectations::default() };
    tokio::spawn(Worker::new(counting, queue, leadership, metrics, tasks).run(stop));
    Ok(wanted)
}
