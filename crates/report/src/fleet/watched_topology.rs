//! Keeps a topology of Gateways, routes and policies up to date. The watches start when a page first requests the
//! topology.
//!
//! ```text
//! kinds, every ten seconds ──▶ watches ──▶ rows ──once a second──▶ objects ──▶ graph thread ◀── queries
//!                                 ▲                                   │
//!                                 ╰──── referenced kinds ◀────────────╯
//! ```
//!
//! If the user may not watch a kind in all namespaces, the kind is watched only in the selected namespace, if any.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::graphs::{GraphSnapshot, GraphThread};
use super::inbox::{ChangedPart, Inbox};
use super::watched_kinds::{PAGE, REFRESH_INTERVAL, failing};
use crate::topology::{DEFINITION, TopologyKinds};
use crate::watched::{self, TopologyIndex, WatchedRow};
use crate::{ClusterObjects, ServedKind};
use policy_sync_api::names::ControllerName;
use policy_sync_api::text::with_causes;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::tasks::Tasks;
use policy_sync_hub::tasks::send_if_changed;
use policy_sync_hub::watch::{Feed, Supervisor};
use policy_sync_hub::{HubClient, HubError};
use policy_sync_mirror::{
    Changes, Mirror, MirrorChange, Scope, Source, Table, Tables, WatchFailureKind, WatchedSources,
};
use policy_sync_topology::Needs;
use policy_sync_topology::locator::KindRef;

/// Changes within this time are combined into one rebuild.
const DEBOUNCE: Duration = Duration::from_secs(1);
/// The interval at which a rebuild checks whether all sources have been listed.
const LIST_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A topology that is kept up to date.
#[derive(Debug)]
pub struct WatchedTopology {
    mirror: Arc<Mirror<TopologyIndex>>,
    graphs: Arc<GraphThread>,
    /// Why the last read of the kinds failed.
    failure: watch::Receiver<Option<String>>,
    /// The tasks that watch the hub; empty for files.
    running: Vec<AbortHandle>,
}

impl Drop for WatchedTopology {
    fn drop(&mut self) {
        self.running.iter().for_each(AbortHandle::abort);
    }
}

/// Why the topology is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The hub cannot be read.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The thread for the graph cannot be started.
    #[error("no thread can be started")]
    ThreadStart(#[from] io::Error),
}

/// The dependencies of [`WatchedTopology::start`].
pub(super) struct WatchContext {
    pub(super) hub: HubClient,
    pub(super) client: Client,
    pub(super) controller: ControllerName,
    pub(super) scope: Scope,
    pub(super) inbox: Arc<Inbox>,
    pub(super) tasks: Tasks,
}

impl WatchedTopology {
    /// Starts to watch the hub.
    pub(super) async fn start(watch_context: WatchContext) -> Result<Self, TopologyError> {
        let WatchContext { hub, client, controller, scope, inbox, tasks } = watch_context;
        let kinds = TopologyKinds::read(&hub, &controller).await?;
        let graphs = Arc::new(GraphThread::start()?);
        let mirror = Arc::new(Mirror::new(controller.clone()));
        let changed = Arc::new(Inbox::default());
        let into = changed.clone();
        let feed = Feed::new(mirror.clone(), controller.clone(), Clock::start(), move |changes| {
            into.put(changes.iter().flat_map(|changed| changed_parts(changed, changes)));
        });
        let (wanted, sources) = watch::channel(WatchedSources::default());
        let (failing, failure) = watch::channel(None);
        let supervisor = Supervisor::new(client, feed, tasks.clone()).with_page_size(PAGE);
        let watching = tasks.clone().watch("watches", async move { supervisor.run(&[], sources).await });
        let keeper = GraphUpdater {
            hub,
            controller,
            scope,
            mirror: mirror.clone(),
            graphs: graphs.clone(),
            wanted,
            needs: Needs::default(),
            changed,
            inbox,
            failing,
        };
        let keeping = tasks.watch("topology", keeper.run(kinds));
        let running = vec![tokio::spawn(watching).abort_handle(), tokio::spawn(keeping).abort_handle()];
        Ok(Self { mirror, graphs, failure, running })
    }

    /// A topology of files, which does not change.
    pub(super) async fn from_files(found: ClusterObjects, controller: &ControllerName) -> io::Result<Self> {
        let (graphs, mirror) = (Arc::new(GraphThread::start()?), Arc::new(Mirror::new(controller.clone())));
        graphs.replace(found).await;
        let (_, failure) = watch::channel(None);
        Ok(Self { mirror, graphs, failure, running: Vec::new() })
    }

    /// Runs `query` on the graph, as soon as all sources have been listed. Returns `None` if the query panics. Other
    /// queries wait until this query ends.
    pub async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(GraphSnapshot<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        self.graphs.query(query).await
    }

    /// The reasons why the hub cannot be watched at present, one line each.
    #[must_use]
    pub fn watch_errors(&self) -> Vec<String> {
        let guard = self.mirror.read();
        let failure = self.failure.borrow().clone();
        let failing = failing(guard.tables(), |kind| kind != WatchFailureKind::Forbidden, Source::label);
        failure.into_iter().chain(failing).collect()
    }
}

/// The page parts that a change affects.
fn changed_parts(changed: &MirrorChange, changes: &Changes<'_, TopologyIndex>) -> Vec<ChangedPart> {
    let view = changes.view();
    let Some(gateways) = view.gateways(changed) else { return vec![ChangedPart::Everything] };
    let policy =
        view.policy(changed).map(|(resource, key)| ChangedPart::Policy(resource.clone(), key.clone()));
    gateways
        .into_iter()
        .map(ChangedPart::Gateway)
        .chain(policy)
        .chain([ChangedPart::EffectivePolicies])
        .collect()
}

/// The task that rebuilds the graph after changes.
struct GraphUpdater {
    hub: HubClient,
    controller: ControllerName,
    scope: Scope,
    mirror: Arc<Mirror<TopologyIndex>>,
    graphs: Arc<GraphThread>,
    wanted: watch::Sender<WatchedSources>,
    /// The kinds that the objects of the last build refer to.
    needs: Needs,
    /// Changes that are not in the graph yet.
    changed: Arc<Inbox>,
    /// The inbox that receives changes once the graph contains them.
    inbox: Arc<Inbox>,
    failing: watch::Sender<Option<String>>,
}

impl GraphUpdater {
    async fn run(mut self, mut kinds: TopologyKinds) {
        let mut looked = Instant::now();
        let mut is_stale = true;
        loop {
            if is_stale {
                let is_built = self.build(&kinds).await;
                is_stale = !is_built;
                tokio::time::sleep(if is_built { DEBOUNCE } else { LIST_POLL_INTERVAL }).await;
            }
            tokio::select! {
                () = self.changed.arrived() => is_stale = true,
                () = tokio::time::sleep_until(looked + REFRESH_INTERVAL) => {
                    looked = Instant::now();
                    is_stale |= self.refresh_kinds(&mut kinds).await;
                }
            }
        }
    }

    /// Reads the kinds again. Returns whether they have changed.
    async fn refresh_kinds(&self, kinds: &mut TopologyKinds) -> bool {
        match TopologyKinds::read(&self.hub, &self.controller).await {
            Ok(now) => {
                send_if_changed(&self.failing, None);
                let differs = !now.is_same(kinds);
                *kinds = now;
                if differs {
                    self.changed.put([ChangedPart::Everything]);
                }
                differs
            }
            Err(error) => {
                send_if_changed(&self.failing, Some(with_causes(&error)));
                false
            }
        }
    }

    /// Rebuilds the graph from the current mirror. Returns `false` if some sources have not been listed yet.
    async fn build(&mut self, kinds: &TopologyKinds) -> bool {
        loop {
            let watched: Vec<&ServedKind> = kinds.always.iter().chain(kinds.needed(self.needs)).collect();
            let changed = self.changed.take();
            let found = {
                let guard = self.mirror.read();
                let tables = guard.tables();
                let wanted = self.sources(tables, &watched);
                let is_settled = wanted.keys().all(|source| tables.is_settled(source));
                send_if_changed(&self.wanted, wanted);
                is_settled.then(|| self.objects(tables, &watched, kinds))
            };
            let Some(found) = found else {
                self.changed.put_back(changed);
                return false;
            };
            let needs = found.objects.needs();
            if needs != self.needs {
                self.needs = needs;
                self.changed.put_back(changed);
                continue;
            }
            self.graphs.replace(found).await;
            self.inbox.put(changed);
            return true;
        }
    }

    /// The sources to watch: each kind in all namespaces. If the user may not watch a kind in all namespaces, also this
    /// kind in the selected namespace.
    fn sources(&self, tables: &Tables, kinds: &[&ServedKind]) -> WatchedSources {
        let mut wanted = WatchedSources::default();
        for kind in kinds {
            let source = source(kind);
            if kind.is_namespaced && self.scope != Scope::All && tables.access_denial(&source).is_some() {
                wanted.insert(source.clone().within(self.scope.clone()), kind.gvr.clone());
            }
            wanted.insert(source, kind.gvr.clone());
        }
        wanted
    }

    fn objects(&self, tables: &Tables, kinds: &[&ServedKind], of: &TopologyKinds) -> ClusterObjects {
        let mut found = of.objects();
        let mut refused: Vec<(&str, String)> = Vec::new();
        refused.extend(of.definitions_error.as_ref().map(|error| (DEFINITION, error.to_string())));
        for kind in kinds {
            let (of, mut source) = (KindRef { group: &kind.gvr.kind.group, kind: &kind.kind }, source(kind));
            if let Some(failing) = tables.access_denial(&source) {
                refused.push((&kind.kind, failing.text.clone()));
                source = source.within(self.scope.clone());
            } else if tables.synced(&source).is_some() {
                found.objects.lists(of);
            }
            if tables.access_denial(&source).is_some() {
                continue;
            }
            let table = tables.table::<WatchedRow>(&source);
            for (key, row) in table.into_iter().flat_map(Table::iter) {
                match row.read() {
                    Ok(row) => found.objects.put(of, key.clone(), row.clone()),
                    Err(fault) => found.fault(of, key, fault),
                }
            }
        }
        // All kinds that the user may not read share one line.
        if let Some((_, text)) = refused.first() {
            let kinds: Vec<&str> = refused.iter().map(|(kind, _)| *kind).collect();
            found.unread.push(format!("{}: {text}", kinds.join(", ")));
        }
        found
    }
}

fn source(kind: &ServedKind) -> Source {
    let of = KindRef { group: &kind.gvr.kind.group, kind: &kind.kind };
    watched::source(of, kind.gvr.kind.clone())
}
