//! Since when items are out of sync. The hub does not have that moment for each of them.
//!
//! | of | moment |
//! |---|---|
//! | a Gateway | since when it says that it is not accepted, or not programmed |
//! | a policy | the earliest of its works that are not applied: since when the agent refuses it, or else since when it is asked to apply it, or to remove it. Without works that may be read, when the controller last changed what the policy says |
//! | something on one cluster | the same of its work |

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use k8s_openapi::jiff::Timestamp;

use super::copy::CopyReport;
use super::item::Item;
use super::key::ItemKey;
use super::kinds::COPIES;
use super::seen::Seen;
use policy_sync_api::names::{ClusterName, ControllerName};
use policy_sync_api::object::HubObject;
use policy_sync_hub::{HubClient, HubError};

/// How many clusters' works are read at a time.
const AT_A_TIME: usize = 8;

/// Since when each item is out of sync.
#[derive(Clone, Debug, Default)]
pub struct Waits(BTreeMap<ItemKey, Timestamp>);

impl Waits {
    /// Reads since when `items` are out of sync, on `cluster` or anywhere. If works may not be read, returns the reason
    /// as well.
    ///
    /// # Errors
    ///
    /// Where the hub cannot be reached.
    pub async fn read(
        hub: &HubClient,
        controller: &ControllerName,
        items: &[&Item],
        cluster: Option<&str>,
    ) -> Result<(Self, Option<HubError>), HubError> {
        let lacking = lacking(items, cluster);
        let lists = lacking.into_iter().map(|(cluster, keys)| async move {
            let source = Seen::copies_source(&cluster);
            let what = format!("list ManifestWorks of cluster {cluster}");
            let works = hub.list(&source, &COPIES.gvr(), controller, &what).await?;
            Ok::<_, HubError>(earliest(&works, controller, &keys))
        });
        let mut lists = stream::iter(lists).buffer_unordered(AT_A_TIME);
        let (mut of_works, mut unread) = (BTreeMap::new(), None);
        while let Some(list) = lists.next().await {
            match list {
                Ok(found) => found.into_iter().for_each(|(key, since)| take(&mut of_works, key, since)),
                Err(error) if error.is_answer() => unread = unread.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        let since = |item: &&Item| Some((item.key(), since(item, &of_works)?));
        Ok((Self(items.iter().filter_map(since).collect()), unread))
    }

    /// Since when `item` is out of sync; `None` if the hub does not show it.
    #[must_use]
    pub fn since(&self, item: &Item) -> Option<Timestamp> {
        self.0.get(&item.key()).copied()
    }

    /// The longest wait first; those of which nothing is known are last, in the order in which they were.
    pub fn sort(&self, items: &mut [&Item]) {
        items.sort_by_key(|item| {
            let since = self.since(item);
            (since.is_none(), since)
        });
    }
}

/// The clusters whose works say since when, with the policies of which they do.
fn lacking(items: &[&Item], only: Option<&str>) -> BTreeMap<ClusterName, BTreeSet<ItemKey>> {
    let mut lacking: BTreeMap<ClusterName, BTreeSet<ItemKey>> = BTreeMap::new();
    for report in items.iter().filter_map(|item| item.policy()) {
        let key = ItemKey::copy(Some(&report.origin));
        let missing = report.missing().unwrap_or_default().into_iter();
        for cluster in missing.filter(|cluster| only.is_none_or(|only| only == *cluster)) {
            lacking.entry(cluster.into()).or_default().insert(key.clone());
        }
    }
    lacking
}

/// Since when `works` of `keys` are waited for.
fn earliest(
    works: &[HubObject],
    controller: &ControllerName,
    keys: &BTreeSet<ItemKey>,
) -> BTreeMap<ItemKey, Timestamp> {
    let mut earliest = BTreeMap::new();
    for copy in works.iter().filter_map(|work| CopyReport::of_work(work, controller)) {
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
        Item::Policy(report) => of_works.get(&ItemKey::copy(Some(&report.origin))).copied().or(report.told),
        Item::Copy(report) => report.waiting_since,
    }
}

#[cfg(test)]
mod tests;
