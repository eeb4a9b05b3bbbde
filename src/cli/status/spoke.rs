//! `policy-sync status cluster NAME`: everything of ours on one cluster, or to be there.

use std::collections::{BTreeMap, BTreeSet};

use super::copy::CopyReport;
use super::item::{Item, Key};
use crate::api::annotations::CONTROLLER;
use crate::api::names::ControllerName;
use crate::api::object::HubObject;

/// What is on one cluster: what its works say, and which Gateways and policies are to be there.
#[derive(Debug)]
pub(super) struct Spoke {
    controller: ControllerName,
    pub(super) cluster: String,
    works: BTreeMap<Key, CopyReport>,
    wanted: BTreeMap<Key, CopyReport>,
}

impl Spoke {
    pub(super) fn new(controller: ControllerName, cluster: &str) -> Self {
        let (works, wanted) = (BTreeMap::new(), BTreeMap::new());
        Self { controller, cluster: cluster.to_owned(), works, wanted }
    }

    /// The label selector of its works.
    pub(super) fn selector(&self) -> String {
        format!("{CONTROLLER}={}", self.controller.hash())
    }

    /// Takes in all works that there are, and returns what may be shown otherwise.
    pub(super) fn list_works(&mut self, works: &[HubObject]) -> BTreeSet<Key> {
        let before = std::mem::take(&mut self.works);
        let now = works.iter().filter_map(|work| self.apply_work(work)).collect::<Vec<_>>();
        before.into_keys().chain(now).collect()
    }

    /// A work is there, as it is now.
    pub(super) fn apply_work(&mut self, work: &HubObject) -> Option<Key> {
        let report = CopyReport::of_work(work, &self.controller)?;
        let key = Key::copy(&report);
        self.works.insert(key.clone(), report);
        Some(key)
    }

    /// A work is gone.
    pub(super) fn delete_work(&mut self, work: &HubObject) -> Option<Key> {
        let key = Key::copy(&CopyReport::of_work(work, &self.controller)?);
        self.works.remove(&key);
        Some(key)
    }

    /// A Gateway or a policy is there as it is now, or gone.
    pub(super) fn take(&mut self, key: &Key, item: Option<&Item>) -> Key {
        let key = key.on_cluster();
        match item.and_then(|item| CopyReport::of_item(item, &self.cluster)) {
            Some(report) => drop(self.wanted.insert(key.clone(), report)),
            None => drop(self.wanted.remove(&key)),
        }
        key
    }

    /// What there is to say of `key`; `None` where it is not there, nor to be there.
    pub(super) fn report(&self, key: &Key) -> Option<CopyReport> {
        let (work, wanted) = (self.works.get(key), self.wanted.get(key));
        work.or(wanted).map(|report| report.clone().and(wanted))
    }

    /// What there is to say of all.
    pub(super) fn items(&self) -> Vec<Item> {
        let keys: BTreeSet<&Key> = self.works.keys().chain(self.wanted.keys()).collect();
        keys.into_iter().filter_map(|key| self.report(key)).map(Item::from).collect()
    }
}
