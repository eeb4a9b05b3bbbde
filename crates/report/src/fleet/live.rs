//! [`Live`]: the fleet as the web page shows it, kept up to date by watches of the hub, or read from files.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::{fmt, io};

use futures::join;
use kube::Client;
use tokio::sync::{OnceCell, watch};
use tokio::task::AbortHandle;

use super::file_objects::FileObjects;
use super::graphs::GraphSnapshot;
use super::inbox::{ChangedPart, Inbox};
use super::rows::{CLUSTERS, ClusterRow, FleetRow, POLICIES};
use super::watched_kinds::{KindsPoller, PAGE, WatchedKinds, failing, source, wanted};
use super::watched_topology::{TopologyError, WatchContext, WatchedTopology};
use crate::{ClusterObjects, ServedKind, WatchError};
use policy_sync_api::interned::Interned;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ControllerName, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_api::params::Role;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::tasks::Tasks;
use policy_sync_hub::tasks::send_if_changed;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::watch::{Feed, Supervisor};
use policy_sync_hub::{HubClient, HubError};
use policy_sync_mirror::{
    AnyRow, Changes, KindDeclaration, Mirror, MirrorChange, MirrorGuard, Scope, Source, Table, Tables,
    WatchFailureKind,
};
use policy_sync_sync::kinds::REQUIRED;

/// The time at which objects from files are added to the mirror. The pages do not depend on this time.
const NOW: Moment = Moment(0);

/// Interned texts that rows share.
#[derive(Clone, Debug, Default)]
struct FleetIndex {
    texts: Interned<str>,
}

impl policy_sync_mirror::Index for FleetIndex {
    const REQUIRED_KINDS: &'static [&'static KindDeclaration] = &[];

    type View<'m> = &'m Tables;

    fn new(_controller: ControllerName) -> Self {
        Self::default()
    }

    fn view<'m>(&'m self, tables: &'m Tables, _now: Moment) -> &'m Tables {
        tables
    }

    fn complete(&mut self, _tables: &Tables, _source: &Source, key: &mut ObjectKey, row: &mut AnyRow) {
        key.namespace = self.texts.intern(key.namespace.clone());
        if let Some(row) = row.get_mut::<FleetRow>() {
            row.share(|text| self.texts.intern(text));
        }
    }
}

/// The source of the web pages: a hub that is watched, or files.
#[derive(Debug)]
pub struct Live {
    source: ObjectSource,
    controller: ControllerName,
    scope: Scope,
    mirror: Arc<Mirror<FleetIndex>>,
    watched_kinds: watch::Receiver<Arc<WatchedKinds>>,
    inbox: Arc<Inbox>,
    tasks: Tasks,
}

/// Where the objects come from.
pub(super) enum ObjectSource {
    /// A watched hub.
    Hub(Box<WatchedHub>),
    /// Files, and the topology of their objects.
    Files(Box<FileObjects>, WatchedTopology),
}

/// A hub that is watched.
pub(super) struct WatchedHub {
    pub(super) hub: HubClient,
    client: Client,
    running: [AbortHandle; 2],
    watched_topology: OnceCell<WatchedTopology>,
}

impl fmt::Debug for ObjectSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hub(watched) => watched.hub.url(),
            Self::Files(..) => "files",
        })
    }
}

impl Drop for WatchedHub {
    fn drop(&mut self) {
        self.running.iter().for_each(AbortHandle::abort);
    }
}

/// A snapshot of the fleet.
#[derive(Debug)]
pub struct FleetView<'l> {
    guard: MirrorGuard<'l, FleetIndex>,
    live: &'l Live,
    watched_kinds: Arc<WatchedKinds>,
}

impl Live {
    /// Starts to watch the policies in `namespace`, or in all namespaces. The timeout of `client` must be longer than
    /// the longest time between two events of a watch.
    ///
    /// # Errors
    ///
    /// If the hub cannot be read, or the cluster is no hub.
    pub async fn start(
        hub: HubClient,
        client: Client,
        controller: ControllerName,
        namespace: Option<&str>,
    ) -> Result<Self, LiveError> {
        let scope = Scope::new(namespace, None);
        let mirror = Arc::new(Mirror::new(controller.clone()));
        let inbox = Arc::new(Inbox::default());
        let into = inbox.clone();
        let feed = Feed::new(mirror.clone(), controller.clone(), Clock::start(), move |changes| {
            into.put(changes.iter().flat_map(|changed| changed_parts(changed, changes)));
        });
        let tasks = Tasks::new(Metrics::new().map_err(WatchError::from)?);
        // Clusters are listed while the kinds are resolved.
        let (watched, sources) = watch::channel(wanted(&WatchedKinds::default(), &scope));
        let supervisor = Supervisor::new(client.clone(), feed, tasks.clone()).with_page_size(PAGE);
        let watching = tokio::spawn(tasks.clone().watch("watches", async move {
            supervisor.run(&[], sources).await;
        }));
        let watching = watching.abort_handle();
        let looking_up = async { join!(hub.has(&REQUIRED), WatchedKinds::read(&hub, &controller)) };
        let first = match looking_up.await {
            (Err(error), _) | (_, Err(error)) => {
                watching.abort();
                return Err(error.into());
            }
            (Ok(()), Ok(first)) => Arc::new(first),
        };
        send_if_changed(&watched, wanted(&first, &scope));
        let (following, watched_kinds) = watch::channel(first);
        let following = KindsPoller {
            hub: hub.clone(),
            controller: controller.clone(),
            scope: scope.clone(),
            watched_kinds: following,
            wanted: watched,
            inbox: inbox.clone(),
        };
        let following = tokio::spawn(tasks.clone().watch("kinds", following.run()));
        let running = [watching, following.abort_handle()];
        let source = ObjectSource::Hub(Box::new(WatchedHub {
            hub,
            client,
            running,
            watched_topology: OnceCell::new(),
        }));
        Ok(Self { source, controller, scope, mirror, watched_kinds, inbox, tasks })
    }

    /// Shows the objects of `file_objects` in `namespace`, or in all namespaces. `watched_topology` contains the
    /// objects for the topology.
    ///
    /// # Errors
    ///
    /// If the thread for the topology cannot be started.
    pub async fn from_files(
        mut file_objects: FileObjects,
        watched_topology: ClusterObjects,
        namespace: Option<&str>,
    ) -> Result<Self, LiveError> {
        let (controller, scope) = (file_objects.mirror.controller().clone(), Scope::new(namespace, None));
        let mirror = Arc::new(Mirror::new(controller.clone()));
        let list = |source: &Source, objects: &[HubObject]| {
            let shown = objects.iter().filter(|object| source.is(&CLUSTERS) || scope.has(&object.key()));
            mirror.list(source, shown, &controller, NOW);
        };
        for (kind, objects) in &file_objects.policies {
            list(&source(kind, &scope), objects);
        }
        list(&CLUSTERS.all(), &file_objects.clusters);
        let watched_topology = WatchedTopology::from_files(watched_topology, &controller).await?;
        let faults = watched_topology.query(|GraphSnapshot { found, graph, .. }| found.faults(graph)).await;
        file_objects.faults.extend(faults.into_iter().flatten().map(|fault| fault.to_string()));
        let watched_kinds = WatchedKinds {
            kinds: file_objects.policies.iter().map(|(kind, _)| kind.clone()).collect(),
            faults: file_objects.faults.clone(),
            has_classes: file_objects.has_classes(),
            ..WatchedKinds::default()
        };
        let (_, watched_kinds) = watch::channel(Arc::new(watched_kinds));
        let (inbox, tasks) = (Arc::default(), Tasks::new(Metrics::new().map_err(WatchError::from)?));
        Ok(Self {
            source: ObjectSource::Files(Box::new(file_objects), watched_topology),
            controller,
            scope,
            mirror,
            watched_kinds,
            inbox,
            tasks,
        })
    }

    pub(super) fn source(&self) -> &ObjectSource {
        &self.source
    }

    /// The controller whose GatewayClasses are considered.
    #[must_use]
    pub fn controller(&self) -> &ControllerName {
        &self.controller
    }

    /// The selected namespace; `None` for all namespaces.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        match &self.scope {
            Scope::Namespace(namespace) => Some(namespace),
            _ => None,
        }
    }

    /// A snapshot of the current state. It holds a lock, so drop it as soon as the page is rendered.
    #[must_use]
    pub fn view(&self) -> FleetView<'_> {
        let watched_kinds = self.watched_kinds.borrow().clone();
        FleetView { guard: self.mirror.read(), live: self, watched_kinds }
    }

    /// The topology. The first call starts to watch its objects.
    ///
    /// # Errors
    ///
    /// If the hub cannot be read.
    pub async fn watched_topology(&self) -> Result<&WatchedTopology, TopologyError> {
        let watched = match &self.source {
            ObjectSource::Hub(watched) => watched,
            ObjectSource::Files(_, watched_topology) => return Ok(watched_topology),
        };
        let watch_context = || WatchContext {
            hub: watched.hub.clone(),
            client: watched.client.clone(),
            controller: self.controller.clone(),
            scope: self.scope.clone(),
            inbox: self.inbox.clone(),
            tasks: self.tasks.clone(),
        };
        watched.watched_topology.get_or_try_init(|| WatchedTopology::start(watch_context())).await
    }

    /// The topology, if a call of [`watched_topology`](Self::watched_topology) has started it.
    #[must_use]
    pub fn started_topology(&self) -> Option<&WatchedTopology> {
        match &self.source {
            ObjectSource::Hub(watched) => watched.watched_topology.get(),
            ObjectSource::Files(_, watched_topology) => Some(watched_topology),
        }
    }

    /// Takes the changes since the last call; empty if there are none.
    #[must_use]
    pub fn take_changes(&self) -> BTreeSet<ChangedPart> {
        self.inbox.take()
    }

    /// Waits for a change, and takes all changes.
    ///
    /// # Errors
    ///
    /// If the watch cannot continue: a task has panicked, or the hub was restored from a backup.
    pub async fn changed(&self) -> Result<BTreeSet<ChangedPart>, WatchError> {
        loop {
            let changed_parts = self.take_changes();
            if !changed_parts.is_empty() {
                return Ok(changed_parts);
            }
            tokio::select! {
                () = self.inbox.arrived() => {}
                () = self.tasks.ended() => self.tasks.check()?,
            }
        }
    }
}

/// Why the fleet cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The hub cannot be read.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The hub cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The thread for the topology cannot be started.
    #[error("no thread can be started")]
    ThreadStart(#[from] io::Error),
}

impl FleetView<'_> {
    /// The watched kinds.
    #[must_use]
    pub fn watched_kinds(&self) -> &WatchedKinds {
        &self.watched_kinds
    }

    /// One line for each missing right of the user to read parameters, a kind of policies, or ManagedClusters.
    #[must_use]
    pub fn unread(&self) -> Vec<String> {
        let refused = self.failing(|kind| kind == WatchFailureKind::Forbidden);
        self.watched_kinds.unread.iter().cloned().chain(refused).collect()
    }

    /// The reasons why the hub cannot be watched at present, one line each.
    #[must_use]
    pub fn watch_errors(&self) -> Vec<String> {
        let failing = self.failing(|kind| kind != WatchFailureKind::Forbidden);
        self.watched_kinds
            .failure
            .iter()
            .cloned()
            .chain(failing)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// The kinds that have not been listed yet.
    #[must_use]
    pub fn unlisted(&self) -> Vec<&str> {
        let tables = self.guard.tables();
        let is_missing = |kind: &&ServedKind| !tables.is_settled(&source(kind, &self.live.scope));
        self.watched_kinds.kinds.iter().filter(is_missing).map(|kind| kind.kind.as_str()).collect()
    }

    /// The clusters of the hub by name; `None` if the user may not read them, or if the list is not complete yet.
    #[must_use]
    pub fn clusters(&self) -> Option<impl Iterator<Item = (&Arc<str>, &ClusterRow)>> {
        let (tables, source) = (self.guard.tables(), CLUSTERS.all());
        (tables.synced(&source).is_some() && tables.access_denial(&source).is_none())
            .then(|| tables.rows(&CLUSTERS).map(|(key, row)| (&key.name, row)))
    }

    /// The unavailable clusters; empty if the user may not read clusters.
    #[must_use]
    pub fn unavailable(&self) -> BTreeSet<ClusterName> {
        let clusters = self.clusters().into_iter().flatten();
        let unavailable = clusters.filter(|(_, row)| row.unavailable_since.is_some());
        unavailable.map(|(name, _)| ClusterName(name.clone())).collect()
    }

    /// The hub's reason for denying the list of ManagedClusters; `None` if the list is allowed.
    #[must_use]
    pub fn clusters_unread(&self) -> Option<String> {
        let refusal = self.guard.tables().access_denial(&CLUSTERS.all())?;
        Some(format!("ManagedCluster: {}", refusal.text))
    }

    /// The policies with their kinds, and the resources that the controller has annotated.
    pub(super) fn policies(&self) -> impl Iterator<Item = (&ServedKind, &ObjectKey, &FleetRow)> {
        let tables = self.guard.tables();
        self.watched_kinds.kinds.iter().flat_map(move |kind| {
            let rows = tables.table::<FleetRow>(&source(kind, &self.live.scope));
            let rows = rows.into_iter().flat_map(Table::iter);
            rows.filter(|(_, row)| kind.role == Role::Policy || row.is_annotated)
                .map(move |(key, row)| (kind, key, row))
        })
    }

    fn failing(&self, counts: impl Fn(WatchFailureKind) -> bool) -> Vec<String> {
        failing(self.guard.tables(), counts, |source| match source.resource() {
            Some(resource) => {
                self.watched_kinds.kind(resource).map_or("policies", |kind| &kind.kind).to_owned()
            }
            None => "ManagedCluster".to_owned(),
        })
    }
}

/// The page parts that a change affects.
fn changed_parts(changed: &MirrorChange, changes: &Changes<'_, FleetIndex>) -> Vec<ChangedPart> {
    let MirrorChange::Object { source, key, before } = changed else { return vec![ChangedPart::Everything] };
    let Some(resource) = POLICIES.resource_of(source) else {
        return vec![ChangedPart::Cluster(ClusterName(key.name.clone()))];
    };
    let before = before.as_ref().and_then(AnyRow::get::<FleetRow>);
    let now = changes.view().row::<FleetRow>(source, key);
    let clusters = [(before, now), (now, before)].into_iter().flat_map(|(one, other)| {
        let cells = one.into_iter().flat_map(FleetRow::cells);
        let moved = cells.filter(move |(cluster, cell)| other.and_then(|row| row.on(cluster)) != Some(*cell));
        moved.map(|(cluster, _)| ChangedPart::Cluster(cluster.clone()))
    });
    let policy = ChangedPart::Policy(resource.clone(), key.clone());
    clusters.chain([policy]).collect()
}
