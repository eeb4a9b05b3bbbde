//! Watches: from a version, with selectors, with bookmarks, and expired.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::{Stream, StreamExt};
use kube::api::{DeleteParams, DynamicObject, WatchEvent, WatchParams};
use serde_json::json;

use crate::{TestNamespace, limit, limiting, version};

crate::stories!(
    watch_delivers_changes_since_its_version,
    watch_reports_objects_that_start_or_stop_matching_its_selector,
    unchanged_write_sends_no_event,
    watch_ends_at_its_timeout_after_a_bookmark,
    watch_from_a_compacted_version_expires,
);

/// Collects `count` events with names such as `ADDED a`.
async fn events(
    events: impl Stream<Item = kube::Result<WatchEvent<DynamicObject>>>,
    count: usize,
) -> Result<Vec<(String, DynamicObject)>> {
    let mut events = std::pin::pin!(events);
    let mut found = Vec::new();
    while found.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(30), events.next()).await?;
        let (kind, object) = match next.context("the stream has ended")?? {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => bail!("{status:?}"),
        };
        found.push((format!("{kind} {}", object.metadata.name.clone().unwrap_or_default()), object));
    }
    Ok(found)
}

fn kinds(events: &[(String, DynamicObject)]) -> Vec<&str> {
    events.iter().map(|(kind, _)| kind.as_str()).collect()
}

async fn watch_delivers_changes_since_its_version(space: TestNamespace) -> Result<()> {
    space.create("before").await?;
    let from = space.create("a").await?.metadata.resource_version.unwrap();
    let changed = space.merge("a", limiting(1)).await?;
    space.create("b").await?;
    space.policies().delete("a", &DeleteParams::default()).await?;
    let watch = space.policies().watch(&WatchParams::default(), &from).await?;
    let found = events(watch, 3).await?;
    assert_eq!(kinds(&found), ["MODIFIED a", "ADDED b", "DELETED a"]);
    assert_eq!(version(&found[0].1), version(&changed));
    // The deletion has a newer version, and the object's last state.
    assert!(version(&found[2].1) > version(&found[1].1));
    assert_eq!(found[2].1.data["spec"]["limits"]["x"], limit(1));
    Ok(())
}

async fn watch_reports_objects_that_start_or_stop_matching_its_selector(space: TestNamespace) -> Result<()> {
    let from = space.create("a").await?.metadata.resource_version.unwrap();
    for x in [1, 1, 2, 1] {
        let mut patch = limiting(x);
        patch["metadata"] = json!({"labels": {"x": x.to_string(), "n": null}});
        space.merge("a", patch).await?;
    }
    space.merge("a", limiting(3)).await?;
    let changed = space.merge("a", json!({"metadata": {"labels": {"x": null}}})).await?;
    let watch = space.policies().watch(&WatchParams::default().labels("x=1"), &from).await?;
    let found = events(watch, 5).await?;
    assert_eq!(kinds(&found), ["ADDED a", "DELETED a", "ADDED a", "MODIFIED a", "DELETED a"]);
    assert_eq!(version(&found[4].1), version(&changed));
    Ok(())
}

async fn unchanged_write_sends_no_event(space: TestNamespace) -> Result<()> {
    let created = space.create("a").await?;
    let again = space.merge("a", json!({"metadata": {"name": "a"}})).await?;
    assert_eq!(version(&again), version(&created));
    space.merge("a", limiting(1)).await?;
    let from = created.metadata.resource_version.unwrap();
    let watch = space.policies().watch(&WatchParams::default(), &from).await?;
    assert_eq!(kinds(&events(watch, 1).await?), ["MODIFIED a"]);
    Ok(())
}

async fn watch_ends_at_its_timeout_after_a_bookmark(space: TestNamespace) -> Result<()> {
    let created = space.create("a").await?;
    let from = created.metadata.resource_version.clone().unwrap();
    let mut bookmarks: Vec<u64> = Vec::new();
    // A real API server sends the bookmark two seconds before the end. On a busy machine, the server may end a short
    // watch without a bookmark.
    for seconds in [4, 4, 4, 8, 16] {
        let watch = space.policies().watch(&WatchParams::default().timeout(seconds), &from).await?;
        let found: Vec<_> = tokio::time::timeout(Duration::from_secs(30), watch.collect()).await?;
        bookmarks.extend(found.into_iter().map(|event| match event {
            Ok(WatchEvent::Bookmark(bookmark)) => bookmark.metadata.resource_version.parse::<u64>().unwrap(),
            other => panic!("{other:?}"),
        }));
        if !bookmarks.is_empty() {
            break;
        }
    }
    assert!(bookmarks.last().is_some_and(|last| *last >= version(&created)), "{bookmarks:?}");
    Ok(())
}

async fn watch_from_a_compacted_version_expires(space: TestNamespace) -> Result<()> {
    let watch = space.policies().watch(&WatchParams::default(), "1").await?;
    let found: Vec<_> = tokio::time::timeout(Duration::from_secs(30), watch.collect()).await?;
    let [Ok(WatchEvent::Error(status))] = found.as_slice() else { bail!("{found:?}") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    assert!(status.message.starts_with("too old resource version: 1 ("), "{}", status.message);
    Ok(())
}
