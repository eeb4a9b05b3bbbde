//! Starts and stops watches as the set of required sources changes.

use std::collections::HashMap;
use std::fmt;

use futures::future::BoxFuture;
use kube::Client;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tracing::info;

use super::definitions::CrdNotifications;
use super::feed::Feed;
use super::follow::{PAGE_SIZE, SourceWatcher};
use crate::tasks::Tasks;
use policy_sync_api::names::GroupVersionResource;
use policy_sync_mirror::{DeclaredKind, KindDeclaration, Source, WatchedSources};

/// A function that watches the sources of a kind, instead of [`SourceWatcher::run`].
pub type WatchFn = fn(SourceWatcher, Client, Feed, CrdNotifications) -> BoxFuture<'static, ()>;

/// Runs one task for each source.
pub struct Supervisor {
    client: Client,
    feed: Feed,
    definitions: CrdNotifications,
    /// Whether CustomResourceDefinitions must be watched.
    watches_definitions: bool,
    tasks: JoinSet<Option<()>>,
    task_supervisor: Tasks,
    running: HashMap<Source, (GroupVersionResource, AbortHandle)>,
    watch_fns: Vec<(&'static KindDeclaration, WatchFn)>,
    page: u32,
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor").field("running", &self.running).finish_non_exhaustive()
    }
}

impl Supervisor {
    /// A supervisor that passes objects to `feed`.
    #[must_use]
    pub fn new(client: Client, feed: Feed, task_supervisor: Tasks) -> Self {
        let (definitions, tasks, running) = (CrdNotifications::new(), JoinSet::new(), HashMap::new());
        Self {
            client,
            feed,
            definitions,
            watches_definitions: false,
            tasks,
            task_supervisor,
            running,
            watch_fns: Vec::new(),
            page: PAGE_SIZE,
        }
    }

    /// Runs `follow` for the sources of `kind`, instead of listing and watching them directly.
    #[must_use]
    pub fn with_watch_fn(mut self, kind: &'static impl DeclaredKind, follow: WatchFn) -> Self {
        self.watch_fns.push((kind.declaration(), follow));
        self.watches_definitions = true;
        self
    }

    /// Sets the maximum number of objects per page. Larger pages are faster and need more memory.
    #[must_use]
    pub fn with_page_size(mut self, objects: u32) -> Self {
        self.page = objects;
        self
    }

    /// Notifications about CustomResourceDefinitions while this supervisor runs.
    #[must_use]
    pub fn definitions(&mut self) -> CrdNotifications {
        self.watches_definitions = true;
        self.definitions.clone()
    }

    /// Runs another task until this supervisor ends.
    pub fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.tasks.spawn(self.task_supervisor.clone().watch("watch", task))
    }

    /// Watches `needed`, each with its fixed resource, and the sources in `wanted`, until the sender of `wanted` is
    /// dropped.
    pub async fn run(
        mut self,
        needed: &[&'static KindDeclaration],
        mut wanted: watch::Receiver<WatchedSources>,
    ) {
        if self.watches_definitions {
            self.spawn(self.definitions.follow(self.client.clone()));
        }
        let needed: WatchedSources = needed
            .iter()
            .map(|declaration| Source::from(*declaration))
            .filter_map(|source| {
                let gvr = source.gvr()?;
                Some((source, gvr))
            })
            .collect();
        loop {
            let mut now = wanted.borrow_and_update().clone();
            now.extend(needed.clone());
            self.set(&now).await;
            if wanted.changed().await.is_err() {
                return;
            }
        }
    }

    async fn set(&mut self, wanted: &WatchedSources) {
        let stale: Vec<Source> = self
            .running
            .iter()
            .filter(|(source, (gvr, _))| wanted.get(source) != Some(gvr))
            .map(|(source, _)| source.clone())
            .collect();
        for source in stale {
            if let Some((gvr, task)) = self.running.remove(&source) {
                task.abort();
                while !task.is_finished() {
                    // Wait for the task to end, so that its last object does not arrive after `forget`.
                    tokio::task::yield_now().await;
                }
                info!(kind = %gvr, "stopped watching");
                self.feed.forget(&source);
            }
        }
        for (source, gvr) in wanted {
            if !self.running.contains_key(source) {
                self.start(source.clone(), gvr.clone());
            }
        }
        while self.tasks.try_join_next().is_some() {}
    }

    fn start(&mut self, source: Source, gvr: GroupVersionResource) {
        info!(kind = %gvr, "started watching");
        let watcher = SourceWatcher::new(source.clone(), gvr.clone(), self.task_supervisor.clone())
            .with_page_size(self.page);
        let (client, feed) = (self.client.clone(), self.feed.clone());
        let follow = self
            .watch_fns
            .iter()
            .find(|(declaration, _)| source.is_of(declaration))
            .map(|(_, follow)| *follow);
        let task = match follow {
            Some(follow) => self.spawn(follow(watcher, client, feed, self.definitions.clone())),
            None => self.spawn(watcher.run(client, feed)),
        };
        self.running.insert(source, (gvr, task));
    }
}
