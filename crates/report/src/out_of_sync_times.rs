//! Since when items are out of sync. The hub does not store this time, so it is derived from other times:
//!
//! - Gateway: since when its conditions report that it is not accepted or not programmed.
//! - Policy: the earliest time of its works that are not applied. The time of a work is when the agent reported the
//!   failure, else when the work was last changed or deleted. If the user may not read works, the time is when the
//!   controller last changed the policy's annotations.
//! - Copy on one cluster: the time of its work, as for a policy.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use k8s_openapi::jiff::Timestamp;

use super::copy::CopyReport;
use super::item::Item;
use super::key::ItemKey;
use super::kinds::COPIES;
use super::report_mirror::ReportMirror;
use policy_sync_api::names::{ClusterName, ControllerName};
use policy_sync_api::object::HubObject;
use policy_sync_hub::{HubClient, HubError};

/// The number of clusters whose works are read concurrently.
const CONCURRENT_READS: usize = 8;

/// Since when each item is out of sync.
#[derive(Clone, Debug, Default)]
pub struct OutOfSyncTimes(BTreeMap<ItemKey, Timestamp>);

impl OutOfSyncTimes {
    /// Reads since when `items` are out of sync, on `cluster` or on any cluster. If the user may not read works, also
    /// returns the error.
    ///
    /// # Errors
    ///
    /// If the hub cannot be reached.
    pub async fn read(
        hub: &HubClient,
        controller: &ControllerName,
        items: &[&Item],
        cluster: Option<&str>,
    ) -> Result<(Self, Option<HubError>), HubError> {
        let clusters_to_read = clusters_to_read(items, cluster);
        let lists = clusters_to_read.into_iter().map(|(cluster, keys)| async move {
            let source = ReportMirror::copies_source(&cluster);
            let what = format!("list ManifestWorks of cluster {cluster}");
            let works = hub.list(&source, &COPIES.gvr(), controller, &what).await?;
            Ok::<_, HubError>(earliest(&works, controller, &keys))
        });
        let mut lists = stream::iter(lists).buffer_unordered(CONCURRENT_READS);
        let (mut of_works, mut unread) = (BTreeMap::new(), None);
        while let Some(list) = lists.next().await {
            match list {
                Ok(found) => found.into_iter().for_each(|(key, since)| take(&mut of_works, key, since)),
                Err(error) if error.is_response() => unread = unread.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        let since = |item: &&Item| Some((item.key(), since(item, &of_works)?));
        Ok((Self(items.iter().filter_map(since).collect()), unread))
    }

    /// Since when `item` is out of sync; `None` if unknown.
    #[must_use]
    pub fn since(&self, item: &Item) -> Option<Timestamp> {
        self.0.get(&item.key()).copied()
    }

    /// Sorts `items` by their time out of sync, the longest first. Items with an unknown time come last, in their
    /// previous order.
    pub fn sort(&self, items: &mut [&Item]) {
        items.sort_by_key(|item| {
            let since = self.since(item);
            (since.is_none(), since)
        });
    }
}

/// The clusters whose works must be read. Each has the keys of the policies whose current revision the cluster lacks.
fn clusters_to_read(items: &[&Item], only: Option<&str>) -> BTreeMap<ClusterName, BTreeSet<ItemKey>> {
    let mut clusters_to_read: BTreeMap<ClusterName, BTreeSet<ItemKey>> = BTreeMap::new();
    for report in items.iter().filter_map(|item| item.policy()) {
        let key = ItemKey::copy(Some(&report.origin));
        let missing = report.missing().unwrap_or_default().into_iter();
        for cluster in missing.filter(|cluster| only.is_none_or(|only| only == *cluster)) {
            clusters_to_read.entry(cluster.into()).or_default().insert(key.clone());
        }
    }
    clusters_to_read
}

/// The earliest moment in `works` for each of `keys`.
fn earliest(
    works: &[HubObject],
    controller: &ControllerName,
    keys: &BTreeSet<ItemKey>,
) -> BTreeMap<ItemKey, Timestamp> {
    let mut earliest = BTreeMap::new();
    for copy in works.iter().filter_map(|work| CopyReport::from_work(work, controller)) {
        let key = ItemKey::copy(copy.origin.as_ref());
        if let Some(since) = copy.waiting_since.filter(|_| keys.contains(&key)) {
            take(&mut earliest, key, since);
        }
    }
    earliest
}

fn take(moments: &mut BTreeMap<ItemKey, Timestamp>, key: ItemKey, since: Timestamp) {
    let earliest = moments.entry(key).or_insert(since);
    *earliest = since.min(*earliest);
}

fn since(item: &Item, of_works: &BTreeMap<ItemKey, Timestamp>) -> Option<Timestamp> {
    match item {
        Item::Gateway(report) => report.not_synced_since(),
        Item::Policy(report) => {
            of_works.get(&ItemKey::copy(Some(&report.origin))).copied().or(report.annotated_at)
        }
        Item::Copy(report) => report.waiting_since,
    }
}

#[cfg(test)]
mod tests;
