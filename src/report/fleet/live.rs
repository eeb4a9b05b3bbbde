//! What a hub has of the fleet while it is watched, and what of that has changed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell, watch};
use tokio::task::AbortHandle;

use super::attached::{Attached, AttachedError, Watcher};
use super::matrix::{Matrix, MatrixQuery};
use super::rows::{CLUSTERS, ClusterRow, FleetRow, POLICIES};
use crate::announce::announce;
use crate::api::moment::Moment;
use crate::api::names::{ClusterName, ControllerName, GroupResource, ObjectKey};
use crate::api::params::Role;
use crate::api::text::with_causes;
use crate::clock::Clock;
use crate::hub::watch::{Feed, Supervisor};
use crate::hub::{
    self, AnyRow, Changed, Changes, FailureKind, HubClient, HubError, Line, Mirror, MirrorGuard, Scope,
    Source, Table, Tables, Wanted,
};
use crate::interned::Interned;
use crate::report::query::Listed;
use crate::report::{ServedKind, WatchError};
use crate::sync::kinds::REQUIRED;
use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;

/// How often it is looked what the classes list: they change seldom, and may not be watched with the rights of many.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How many objects are listed at a time: somebody waits for them.
pub(super) const PAGE: u32 = 500;

/// What is watched: what the classes of the controller list, as far as that may be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// The kinds.
    pub kinds: Vec<ServedKind>,
    /// What is wrong with the parameters.
    pub faults: Vec<String>,
    /// What may not be read of them.
    pub unread: Vec<String>,
    /// Whether there is any class of the controller.
    pub has_classes: bool,
    /// Why it could not be looked again; the kinds are those of the last time.
    pub failure: Option<String>,
}

impl Roster {
    async fn read(hub: &HubClient, controller: &ControllerName) -> Result<Self, HubError> {
        let Listed { kinds, faults, unread, has_classes, .. } = Listed::read(hub, controller).await?;
        Ok(Self { kinds, faults, unread, has_classes, failure: None })
    }

    /// The kind in objects of what is served as `resource`.
    #[must_use]
    pub fn kind(&self, resource: &GroupResource) -> Option<&ServedKind> {
        self.kinds.iter().find(|kind| kind.gvr.kind == *resource)
    }
}

/// Something that is shown in a place of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// What is true of all: the kinds, what may not be read, whether the hub answers.
    Everything,
    /// A policy.
    Policy(GroupResource, ObjectKey),
    /// A cluster, or how something is on it.
    Cluster(ClusterName),
    /// What is attached to a Gateway.
    Gateway(ObjectKey),
    /// Which rules are in force.
    InForce,
}

/// The most places that are named one by one: more is everything.
const PLACES: usize = 1_000;

/// What has changed, and was not told yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    places: Mutex<BTreeSet<Place>>,
    arrived: Notify,
}

impl Inbox {
    /// Takes what is in it, which may be nothing.
    pub(super) fn take(&self) -> BTreeSet<Place> {
        std::mem::take(&mut *self.places.lock())
    }

    /// Waits until something was put in since it was last waited for.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Puts something in again that was taken, which nobody is told of.
    pub(super) fn put_back(&self, places: BTreeSet<Place>) {
        self.places.lock().extend(places);
    }

    /// Puts in what has changed.
    pub(super) fn put(&self, changed: impl IntoIterator<Item = Place>) {
        let mut places = self.places.lock();
        for place in changed {
            if places.len() >= PLACES {
                places.clear();
                places.insert(Place::Everything);
            }
            places.insert(place);
        }
        if !places.is_empty() {
            self.arrived.notify_one();
        }
    }
}

/// Texts that rows share.
#[derive(Clone, Debug, Default)]
struct Index {
    texts: Interned<str>,
}

impl hub::Index for Index {
    const NEEDED: &'static [&'static Line] = &[];

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

/// A hub that is watched.
pub struct Live {
    hub: HubClient,
    controller: ControllerName,
    scope: Scope,
    mirror: Arc<Mirror<Index>>,
    roster: watch::Receiver<Arc<Roster>>,
    inbox: Arc<Inbox>,
    tasks: Tasks,
    running: [AbortHandle; 2],
    client: Client,
    attached: OnceCell<Attached>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("hub", &self.hub).field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.running.iter().for_each(AbortHandle::abort);
    }
}

/// A look at it.
#[derive(Debug)]
pub struct Look<'l> {
    guard: MirrorGuard<'l, Index>,
    live: &'l Live,
    roster: Arc<Roster>,
}

impl Live {
    /// Begins to watch the policies in `namespace`, or in all. `client` waits for as long as a watch may be silent.
    ///
    /// # Errors
    ///
    /// Where the hub cannot be read at all, or is none.
    pub async fn start(
        hub: HubClient,
        client: Client,
        controller: ControllerName,
        namespace: Option<&str>,
    ) -> Result<Self, LiveError> {
        hub.has(&REQUIRED).await?;
        let first = Arc::new(Roster::read(&hub, &controller).await?);
        let scope = Scope::new(namespace, None);
        let mirror = Arc::new(Mirror::new(controller.clone()));
        let inbox = Arc::new(Inbox::default());
        let into = inbox.clone();
        let feed = Feed::new(mirror.clone(), controller.clone(), Clock::start(), move |changes| {
            into.put(changes.iter().flat_map(|changed| places(changed, changes)));
        });
        let tasks = Tasks::new(Metrics::new().map_err(WatchError::from)?);
        let (wanted, sources) = watch::channel(wanted(&first, &scope));
        let (sender, roster) = watch::channel(first);
        let supervisor = Supervisor::new(client.clone(), feed, tasks.clone()).in_pages_of(PAGE);
        let watching = tokio::spawn(tasks.clone().watch("watches", async move {
            supervisor.run(&[], sources).await;
        }));
        let following = Following {
            hub: hub.clone(),
            controller: controller.clone(),
            scope: scope.clone(),
            roster: sender,
            wanted,
            inbox: inbox.clone(),
        };
        let following = tokio::spawn(tasks.clone().watch("kinds", following.run()));
        let running = [watching.abort_handle(), following.abort_handle()];
        Ok(Self {
            hub,
            controller,
            scope,
            mirror,
            roster,
            inbox,
            tasks,
            running,
            client,
            attached: OnceCell::new(),
        })
    }

    /// The hub.
    #[must_use]
    pub fn hub(&self) -> &HubClient {
        &self.hub
    }

    /// Whose classes count.
    #[must_use]
    pub fn controller(&self) -> &ControllerName {
        &self.controller
    }

    /// The namespace of all that is shown; `None` where it is any.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        match &self.scope {
            Scope::Namespace(namespace) => Some(namespace),
            _ => None,
        }
    }

    /// A look at all that is known now. It holds a lock: take it, make what is shown, drop it.
    #[must_use]
    pub fn look(&self) -> Look<'_> {
        let roster = self.roster.borrow().clone();
        Look { guard: self.mirror.read(), live: self, roster }
    }

    /// What is attached to what, which is watched from when it is first asked for.
    ///
    /// # Errors
    ///
    /// Where the hub cannot be read.
    pub async fn attached(&self) -> Result<&Attached, AttachedError> {
        let watcher = || Watcher {
            hub: self.hub.clone(),
            client: self.client.clone(),
            controller: self.controller.clone(),
            scope: self.scope.clone(),
            inbox: self.inbox.clone(),
            tasks: self.tasks.clone(),
        };
        self.attached.get_or_try_init(|| Attached::start(watcher())).await
    }

    /// The same, where somebody has asked for it.
    #[must_use]
    pub fn watched(&self) -> Option<&Attached> {
        self.attached.get()
    }

    /// Takes what has changed, which may be nothing.
    #[must_use]
    pub fn taken(&self) -> BTreeSet<Place> {
        self.inbox.take()
    }

    /// Waits until something has changed, and takes what.
    ///
    /// # Errors
    ///
    /// Where it cannot go on: a task of it has panicked, or the hub was restored from a backup.
    pub async fn changed(&self) -> Result<BTreeSet<Place>, WatchError> {
        loop {
            let places = self.taken();
            if !places.is_empty() {
                return Ok(places);
            }
            tokio::select! {
                () = self.inbox.arrived() => {}
                () = self.tasks.ended() => self.tasks.check()?,
            }
        }
    }
}

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The hub cannot be read.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// It cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

impl Look<'_> {
    /// What is watched.
    #[must_use]
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The matrix, as `query` asks for it.
    #[must_use]
    pub fn matrix(&self, query: &MatrixQuery) -> Matrix {
        Matrix::new(self, query)
    }

    /// What may not be read, a line each: parameters, kinds of policies, clusters.
    #[must_use]
    pub fn unread(&self) -> Vec<String> {
        let refused = self.failing(|kind| kind == FailureKind::Refused);
        self.roster.unread.iter().cloned().chain(refused).collect()
    }

    /// Why the hub cannot be watched for a while, a line each.
    #[must_use]
    pub fn away(&self) -> Vec<String> {
        let failing = self.failing(|kind| kind != FailureKind::Refused);
        self.roster.failure.iter().cloned().chain(failing).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The kinds of which it is not known yet what there is.
    #[must_use]
    pub fn unlisted(&self) -> Vec<&str> {
        let tables = self.guard.tables();
        let is_missing = |kind: &&ServedKind| !tables.is_settled(&source(kind, &self.live.scope));
        self.roster.kinds.iter().filter(is_missing).map(|kind| kind.kind.as_str()).collect()
    }

    /// The clusters of the hub by name; `None` where they may not be read, or are not yet.
    #[must_use]
    pub fn clusters(&self) -> Option<impl Iterator<Item = (&Arc<str>, &ClusterRow)>> {
        let (tables, source) = (self.guard.tables(), CLUSTERS.all());
        (tables.synced(&source).is_some() && tables.refusal(&source).is_none())
            .then(|| tables.rows(&CLUSTERS).map(|(key, row)| (&key.name, row)))
    }

    /// The policies, each with its kind. Resources that nothing places are nothing to anybody.
    pub(super) fn policies(&self) -> impl Iterator<Item = (&ServedKind, &ObjectKey, &FleetRow)> {
        let tables = self.guard.tables();
        self.roster.kinds.iter().flat_map(move |kind| {
            let rows = tables.table::<FleetRow>(&source(kind, &self.live.scope));
            let rows = rows.into_iter().flat_map(Table::iter);
            rows.filter(|(_, row)| kind.role == Role::Policy || row.is_told)
                .map(move |(key, row)| (kind, key, row))
        })
    }

    fn failing(&self, counts: impl Fn(FailureKind) -> bool) -> Vec<String> {
        failing(self.guard.tables(), counts, |source| match source.resource() {
            Some(resource) => self.roster.kind(resource).map_or("policies", |kind| &kind.kind).to_owned(),
            None => "ManagedCluster".to_owned(),
        })
    }
}

/// Why sources of `tables` cannot be watched, where that is of a kind that `counts`, a line each; `named` says what is watched.
pub(super) fn failing(
    tables: &Tables,
    counts: impl Fn(FailureKind) -> bool,
    named: impl Fn(&Source) -> String,
) -> Vec<String> {
    let lines = tables.failing().into_keys().filter_map(|source| {
        let failing = tables.failure(source).filter(|failing| counts(failing.kind))?;
        Some(match failing.kind {
            FailureKind::NoAnswer => failing.text.clone(),
            _ => format!("{}: {}", named(source), failing.text),
        })
    });
    lines.collect()
}

fn source(kind: &ServedKind, scope: &Scope) -> Source {
    POLICIES.resource(kind.gvr.kind.clone()).within(scope.clone())
}

fn wanted(roster: &Roster, scope: &Scope) -> Wanted {
    let policies = roster.kinds.iter().map(|kind| (source(kind, scope), kind.gvr.clone()));
    policies.chain([(CLUSTERS.all(), CLUSTERS.gvr())]).collect()
}

/// Where a change shows.
fn places(changed: &Changed, changes: &Changes<'_, Index>) -> Vec<Place> {
    let Changed::Object { source, key, before } = changed else { return vec![Place::Everything] };
    let Some(resource) = POLICIES.resource_of(source) else {
        return vec![Place::Cluster(ClusterName(key.name.clone()))];
    };
    let before = before.as_ref().and_then(AnyRow::get::<FleetRow>);
    let now = changes.view().row::<FleetRow>(source, key);
    let clusters = [(before, now), (now, before)].into_iter().flat_map(|(one, other)| {
        let cells = one.into_iter().flat_map(FleetRow::cells);
        let moved = cells.filter(move |(cluster, cell)| other.and_then(|row| row.on(cluster)) != Some(*cell));
        moved.map(|(cluster, _)| Place::Cluster(cluster.clone()))
    });
    let policy = Place::Policy(resource.clone(), key.clone());
    clusters.chain([policy]).collect()
}

/// What follows the classes.
struct Following {
    hub: HubClient,
    controller: ControllerName,
    scope: Scope,
    roster: watch::Sender<Arc<Roster>>,
    wanted: watch::Sender<Wanted>,
    inbox: Arc<Inbox>,
}

impl Following {
    async fn run(self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let before = self.roster.borrow().clone();
            let now = match Roster::read(&self.hub, &self.controller).await {
                Ok(roster) => roster,
                Err(error) => Roster { failure: Some(with_causes(&error)), ..(*before).clone() },
            };
            if now == *before {
                continue;
            }
            announce(&self.wanted, wanted(&now, &self.scope));
            self.roster.send_replace(Arc::new(now));
            self.inbox.put([Place::Everything]);
        }
    }
}
