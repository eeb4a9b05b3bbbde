//! Starts and stops watches as what is wanted changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::core::{ObjectList, Request, WatchEvent};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use tokio::sync::{broadcast, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tracing::{info, warn};

use super::answer::answered;
use super::follow::{Followed, pace};
use super::{Feed, fixed_kind, resolve};
use crate::api::names::GroupVersionResource;
use crate::api::object::HubObject;
use crate::api::text::with_causes;
use crate::mirror::rows::kind::Resolution;
use crate::mirror::{Change, Failure, Source, Wants};
use crate::tasks::Tasks;

/// How often it is looked at again whether a kind can be synced.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// How many changed definitions a task may lag behind before it looks at its own again unasked.
const DEFINITIONS: usize = 64;

/// Runs one task for each source.
pub struct Supervisor {
    client: Client,
    feed: Feed,
    definitions: broadcast::Sender<Arc<str>>,
    tasks: JoinSet<Option<()>>,
    watched: Tasks,
    running: HashMap<Source, (GroupVersionResource, AbortHandle)>,
    /// Versions that are only looked up.
    looking: HashMap<GroupVersionResource, AbortHandle>,
}

impl Supervisor {
    /// A supervisor that feeds into `feed`.
    #[must_use]
    pub fn new(client: Client, feed: Feed, watched: Tasks) -> Self {
        let (definitions, _) = broadcast::channel(DEFINITIONS);
        let (tasks, running, looking) = (JoinSet::new(), HashMap::new(), HashMap::new());
        Self { client, feed, definitions, tasks, watched, running, looking }
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.tasks.spawn(self.watched.clone().watch("watch", task))
    }

    /// Watches the fixed kinds, and of the others what `wanted` says, until the sender of it is gone.
    pub async fn run(mut self, mut wanted: watch::Receiver<Wants>) {
        self.spawn(follow_definitions(self.client.clone(), self.definitions.clone()));
        let (client, feed, definitions) =
            (self.client.clone(), self.feed.clone(), self.definitions.subscribe());
        self.spawn(follow_work_schema(client, feed, definitions));
        for source in Source::FIXED {
            if let Some(gvr) = fixed_kind(&source) {
                self.start(source, gvr);
            }
        }
        loop {
            let now = wanted.borrow_and_update().clone();
            self.set(&now.watched).await;
            self.look_up(&now.others);
            if wanted.changed().await.is_err() {
                return;
            }
        }
    }

    async fn set(&mut self, wanted: &BTreeMap<Source, GroupVersionResource>) {
        let dynamic = |source: &Source| fixed_kind(source).is_none();
        let stale: Vec<Source> = self
            .running
            .iter()
            .filter(|(source, (gvr, _))| dynamic(source) && wanted.get(source) != Some(gvr))
            .map(|(source, _)| source.clone())
            .collect();
        for source in stale {
            if let Some((gvr, task)) = self.running.remove(&source) {
                task.abort();
                while !task.is_finished() {
                    // What it still had in hand must not arrive after it is forgotten.
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

    fn look_up(&mut self, wanted: &BTreeSet<GroupVersionResource>) {
        self.looking.retain(|gvr, task| {
            let stays = wanted.contains(gvr);
            if !stays {
                task.abort();
            }
            stays
        });
        for gvr in wanted {
            if !self.looking.contains_key(gvr) {
                let (client, feed) = (self.client.clone(), self.feed.clone());
                let task = look_up(gvr.clone(), client, feed, self.definitions.subscribe());
                let task = self.spawn(task);
                self.looking.insert(gvr.clone(), task);
            }
        }
    }

    fn start(&mut self, source: Source, gvr: GroupVersionResource) {
        info!(kind = %gvr, "started watching");
        let followed = Followed::new(source.clone(), gvr.clone(), self.watched.clone());
        let (client, feed) = (self.client.clone(), self.feed.clone());
        let task = match source {
            Source::Policies(_) => {
                let definitions = self.definitions.subscribe();
                self.spawn(follow_resolved(followed, client, feed, definitions))
            }
            _ => self.spawn(followed.forever(client, feed)),
        };
        self.running.insert(source, (gvr, task));
    }
}

/// Finds out whether a version could be synced that is not followed, and looks again as [`follow_resolved`] does.
async fn look_up(
    gvr: GroupVersionResource,
    client: Client,
    feed: Feed,
    mut definitions: broadcast::Receiver<Arc<str>>,
) {
    let name = gvr.kind.to_string();
    loop {
        let resolution = resolve::resolve(&client, &gvr).await;
        let is_resolved = matches!(resolution, Resolution::Resolved(_));
        feed.change(Change::Resolved(gvr.clone(), resolution));
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN), if !is_resolved => {}
            () = changed(&mut definitions, &name) => {}
        }
    }
}

/// Follows a kind while it resolves, and looks again when its definition changes, when following it fails, and every now
/// and then: at what the controller may do, of which nothing else tells while a watch lasts, and at all of it while
/// something is missing.
async fn follow_resolved(
    followed: Followed,
    client: Client,
    feed: Feed,
    mut definitions: broadcast::Receiver<Arc<str>>,
) {
    let name = followed.gvr.kind.to_string();
    let mut backoff = DefaultBackoff::default();
    loop {
        let mut current = resolve::resolve(&client, &followed.gvr).await;
        feed.change(Change::Resolved(followed.gvr.clone(), current.clone()));
        if !matches!(current, Resolution::Resolved(_)) {
            let refused = matches!(current, Resolution::Forbidden(_));
            let failure = Failure { text: current.fault().to_owned(), refused };
            feed.change(Change::Failing(followed.source.clone(), Some(failure)));
            let wait = match current {
                // A server that was away for a moment is asked again soon.
                Resolution::Unknown(_) => backoff.next().unwrap_or(LOOK_AGAIN),
                _ => LOOK_AGAIN,
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = changed(&mut definitions, &name) => {}
            }
            continue;
        }
        feed.change(Change::Followed(followed.gvr.clone()));
        let mut waits = DefaultBackoff::default();
        let following = followed.until_failure(&client, &feed, &mut waits);
        let mut following = std::pin::pin!(following);
        let (mut redefined, mut pauses) = (false, DefaultBackoff::default());
        let wait = loop {
            // What the server did not say it is asked again soon.
            let again = if redefined { pauses.next().unwrap_or(LOOK_AGAIN) } else { LOOK_AGAIN };
            tokio::select! {
                error = &mut following => break followed.failed(&feed, &error, &mut backoff),
                () = changed(&mut definitions, &name) => redefined = true,
                () = tokio::time::sleep(again) => {}
            }
            // Following goes on while this is found out, and longer where it still can.
            let found = match &current {
                Resolution::Resolved(info) if !redefined => {
                    resolve::rights(&client, &followed.gvr, info.clone(), resolve::CONTROLLER).await
                }
                _ => resolve::resolve(&client, &followed.gvr).await,
            };
            match found {
                Resolution::Unknown(_) => {}
                Resolution::Resolved(_) => {
                    feed.change(Change::Resolved(followed.gvr.clone(), found.clone()));
                    (current, redefined, pauses) = (found, false, DefaultBackoff::default());
                }
                _ => {
                    feed.change(Change::Resolved(followed.gvr.clone(), found));
                    break Duration::ZERO;
                }
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Finds out what the hub's ManifestWork can say, again whenever its definition changes.
async fn follow_work_schema(client: Client, feed: Feed, mut definitions: broadcast::Receiver<Arc<str>>) {
    let name = format!("manifestworks.{}", crate::api::work::GROUP);
    let mut backoff = DefaultBackoff::default();
    loop {
        match resolve::work_schema(&client, &name).await {
            Ok(schema) => {
                backoff.reset();
                if !schema.feedback_scrape_type {
                    warn!("the hub's ManifestWork has no feedbackScrapeType: spokes' answers will come late");
                }
                if !schema.condition_rules {
                    warn!(
                        "the hub's ManifestWork has no conditionRules: status.ancestors will not come back"
                    );
                }
                feed.change(Change::WorkSchema(schema));
                changed(&mut definitions, &name).await;
            }
            Err(error) => {
                warn!(error = with_causes(&error), "cannot read the definition of ManifestWork");
                tokio::time::sleep(backoff.next().unwrap_or(LOOK_AGAIN)).await;
            }
        }
    }
}

/// Returns when the definition `name` came, went or changed.
async fn changed(definitions: &mut broadcast::Receiver<Arc<str>>, name: &str) {
    loop {
        match definitions.recv().await {
            Ok(changed) if *changed == *name => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Tells which CustomResourceDefinitions change, by their metadata alone: whole ones are large.
async fn follow_definitions(client: Client, changed: broadcast::Sender<Arc<str>>) {
    let mut seen: HashMap<String, String> = HashMap::new();
    let mut backoff = DefaultBackoff::default();
    loop {
        if let Err(error) = definitions(&client, &changed, &mut seen, &mut backoff).await {
            warn!(error = with_causes(&error), "cannot watch CustomResourceDefinitions");
            tokio::time::sleep(backoff.next().unwrap_or(LOOK_AGAIN)).await;
        }
    }
}

async fn definitions(
    client: &Client,
    changed: &broadcast::Sender<Arc<str>>,
    seen: &mut HashMap<String, String>,
    backoff: &mut DefaultBackoff,
) -> Result<(), kube::Error> {
    let request = Request::new("/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
    let list = request.list_metadata(&ListParams::default()).map_err(kube::Error::BuildRequest)?;
    let list: ObjectList<HubObject> = answered(client.request(list)).await?;
    // Nobody listens only while no kind is wanted.
    let tell = |name: &str| drop(changed.send(name.into()));
    let mut gone = std::mem::take(seen);
    for item in &list.items {
        let (name, version) = (&item.metadata.name, &item.metadata.resource_version);
        if gone.remove(name).as_ref() != Some(version) {
            tell(name);
        }
        seen.insert(name.clone(), version.clone());
    }
    gone.keys().for_each(|name| tell(name));
    let version = list.metadata.resource_version.unwrap_or_default();
    let watch =
        request.watch_metadata(&WatchParams::default(), &version).map_err(kube::Error::BuildRequest)?;
    let (began, mut brought) = (Instant::now(), false);
    let mut events = std::pin::pin!(answered(client.request_events::<HubObject>(watch)).await?);
    while let Some(event) = events.try_next().await? {
        brought |= !matches!(event, WatchEvent::Error(_));
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                tell(&object.metadata.name);
                seen.insert(object.metadata.name, object.metadata.resource_version);
            }
            WatchEvent::Deleted(object) => {
                tell(&object.metadata.name);
                seen.remove(&object.metadata.name);
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(_) => break,
        }
    }
    pace(backoff, began, brought).await;
    Ok(())
}
