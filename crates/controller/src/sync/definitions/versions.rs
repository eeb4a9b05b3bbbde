//! Checks repeatedly whether the versions of kinds in the parameters can be synced, and which fields ManifestWork
//! supports.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tracing::warn;

use super::resolve;
use policy_sync_api::names::GroupVersionResource;
use policy_sync_api::params::Role;
use policy_sync_api::text::with_causes;
use policy_sync_api::work::GROUP;
use policy_sync_hub::tasks::Tasks;
use policy_sync_hub::watch::{CrdNotifications, Feed, SourceWatcher};
use policy_sync_mirror::{SourceEvent, WatchFailure, WatchFailureKind};
use policy_sync_sync::found::{resolved, watched_version as read_in, work_schema};
use policy_sync_sync::kinds::role_of;
use policy_sync_sync::rows::kind::Resolution;

/// The interval between two checks of a kind. A newly granted permission takes effect within 30 s.
const CHECK_INTERVAL: Duration = Duration::from_secs(20);

/// Checks the versions in `wanted`, which are not watched, until the sender of `wanted` is dropped.
pub(crate) async fn check_unwatched(
    mut wanted: watch::Receiver<BTreeSet<(Role, GroupVersionResource)>>,
    client: Client,
    feed: Feed,
    definitions: CrdNotifications,
    tasks: Tasks,
) {
    let mut running = JoinSet::new();
    let mut checking: HashMap<(Role, GroupVersionResource), AbortHandle> = HashMap::new();
    loop {
        let now = wanted.borrow_and_update().clone();
        checking.retain(|listed, task| {
            let stays = now.contains(listed);
            if !stays {
                task.abort();
            }
            stays
        });
        for listed in now {
            checking.entry(listed.clone()).or_insert_with(|| {
                let check = check_one(listed, client.clone(), feed.clone(), definitions.clone());
                running.spawn(tasks.clone().watch("watch", check))
            });
        }
        while running.try_join_next().is_some() {}
        if wanted.changed().await.is_err() {
            return;
        }
    }
}

/// Checks whether an unwatched version could be synced. Checks again when its definition changes, and at intervals
/// while it cannot be synced.
async fn check_one(
    (role, gvr): (Role, GroupVersionResource),
    client: Client,
    feed: Feed,
    mut definitions: CrdNotifications,
) {
    let name = gvr.kind.to_string();
    loop {
        let resolution = resolve::resolve(&client, role, &gvr).await;
        let is_resolved = matches!(resolution, Resolution::Resolved(_));
        loop {
            feed.change(resolved(&gvr, resolution.clone()));
            tokio::select! {
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
                () = definitions.changed(&name) => break,
            }
            if !is_resolved {
                break;
            }
            // The result is reported again, because the mirror may have removed it together with the kind.
        }
    }
}

/// Watches a kind while it can be synced. Checks the kind again when its definition changes, when the watch fails, and
/// at intervals. If the last full check succeeded, the check at an interval covers only permissions, because a running
/// watch continues even after permissions are revoked. If the last full check failed, the check is a full check.
pub(crate) fn watch_while_resolved(
    followed: SourceWatcher,
    client: Client,
    feed: Feed,
    definitions: CrdNotifications,
) -> BoxFuture<'static, ()> {
    follow_resolved(followed, client, feed, definitions).boxed()
}

async fn follow_resolved(
    followed: SourceWatcher,
    client: Client,
    feed: Feed,
    mut definitions: CrdNotifications,
) {
    let name = followed.gvr.kind.to_string();
    let role = role_of(&followed.source).map_or(Role::Policy, |(role, _)| role);
    let mut backoff = DefaultBackoff::default();
    loop {
        let mut current = resolve::resolve(&client, role, &followed.gvr).await;
        feed.change(resolved(&followed.gvr, current.clone()));
        if !matches!(current, Resolution::Resolved(_)) {
            let kind = match current {
                Resolution::Forbidden(_) => WatchFailureKind::Forbidden,
                _ => WatchFailureKind::Transient,
            };
            let failure = WatchFailure { text: current.fault().to_owned(), kind };
            feed.change(SourceEvent::FailureChanged(followed.source.clone(), Some(failure)));
            let wait = match current {
                // Retry soon in case the server was unavailable only for a moment.
                Resolution::Unknown(_) => backoff.next().unwrap_or(CHECK_INTERVAL),
                _ => CHECK_INTERVAL,
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = definitions.changed(&name) => {}
            }
            continue;
        }
        feed.change(read_in(&followed.gvr));
        let mut waits = DefaultBackoff::default();
        let following = followed.until_failure(&client, &feed, &mut waits);
        let mut following = std::pin::pin!(following);
        let (mut redefined, mut pauses) = (false, DefaultBackoff::default());
        let wait = loop {
            // Retry soon after a definition change that could not be checked.
            let again = if redefined { pauses.next().unwrap_or(CHECK_INTERVAL) } else { CHECK_INTERVAL };
            tokio::select! {
                error = &mut following => break followed.failed(&feed, &error, &mut backoff),
                () = definitions.changed(&name) => redefined = true,
                () = tokio::time::sleep(again) => {}
            }
            // The watch continues during the check.
            let found = match &current {
                Resolution::Resolved(info) if !redefined => {
                    resolve::check_permissions(&client, &followed.gvr, info.clone(), resolve::CONTROLLER)
                        .await
                }
                _ => resolve::resolve(&client, role, &followed.gvr).await,
            };
            match found {
                Resolution::Unknown(_) => {}
                Resolution::Resolved(_) => {
                    feed.change(resolved(&followed.gvr, found.clone()));
                    (current, redefined, pauses) = (found, false, DefaultBackoff::default());
                }
                _ => {
                    feed.change(resolved(&followed.gvr, found));
                    break Duration::ZERO;
                }
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Determines which fields the hub's ManifestWork supports. Repeats this after each change of its definition. Never
/// returns.
pub(crate) async fn follow_work_schema(client: Client, feed: Feed, mut definitions: CrdNotifications) {
    let name = format!("manifestworks.{GROUP}");
    let mut backoff = DefaultBackoff::default();
    loop {
        match resolve::work_schema(&client, &name).await {
            Ok(schema) => {
                backoff.reset();
                if !schema.feedback_scrape_type {
                    warn!("the hub's ManifestWork has no feedbackScrapeType: status from spokes is delayed");
                }
                if !schema.condition_rules {
                    warn!("the hub's ManifestWork has no conditionRules: status.ancestors is not reported");
                }
                feed.change(work_schema(schema));
                definitions.changed(&name).await;
            }
            Err(error) => {
                warn!(error = with_causes(&error), "cannot read the definition of ManifestWork");
                tokio::time::sleep(backoff.next().unwrap_or(CHECK_INTERVAL)).await;
            }
        }
    }
}
