//! The Gateways of classes of ours and their works, as they were last seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::gateway::{GatewayReport, Works};
use crate::api::annotations::{CONTROLLER, WORK_FOR};
use crate::api::gateway::GatewaySpec;
use crate::api::names::{ClusterName, ControllerName, ObjectKey};
use crate::api::object::HubObject;
use crate::sync::rows::work::Work;

/// The Gateways of our classes.
#[derive(Debug)]
pub(super) struct Gateways {
    controller: ControllerName,
    classes: BTreeSet<Arc<str>>,
    gateways: BTreeMap<ObjectKey, HubObject>,
    /// `None` where they may not be read.
    works: Option<BTreeMap<ObjectKey, Works>>,
}

impl Gateways {
    /// None yet; those of `classes` count.
    pub(super) fn new(controller: ControllerName, classes: BTreeSet<Arc<str>>) -> Self {
        Self { controller, classes, gateways: BTreeMap::new(), works: None }
    }

    /// The label selector of their works.
    pub(super) fn selector(&self) -> String {
        format!("{CONTROLLER}={},{WORK_FOR}=gateway", self.controller.hash())
    }

    /// Takes in all Gateways that there are, and returns the keys of those that may be shown otherwise.
    pub(super) fn list(&mut self, gateways: Vec<HubObject>) -> BTreeSet<ObjectKey> {
        let gateways = gateways.into_iter().map(|gateway| (gateway.key(), gateway)).collect();
        let before = std::mem::replace(&mut self.gateways, gateways);
        before.into_keys().chain(self.gateways.keys().cloned()).collect()
    }

    /// The same of all their works.
    pub(super) fn list_works(&mut self, works: &[HubObject]) -> BTreeSet<ObjectKey> {
        let before = self.works.replace(BTreeMap::new());
        let mut keys: BTreeSet<ObjectKey> = before.into_iter().flat_map(BTreeMap::into_keys).collect();
        keys.extend(works.iter().filter_map(|work| self.apply_work(work)));
        keys
    }

    /// A Gateway is there, as it is now.
    pub(super) fn apply(&mut self, gateway: HubObject) -> ObjectKey {
        let key = gateway.key();
        self.gateways.insert(key.clone(), gateway);
        key
    }

    /// A Gateway is gone.
    pub(super) fn delete(&mut self, gateway: &HubObject) -> ObjectKey {
        let key = gateway.key();
        self.gateways.remove(&key);
        key
    }

    /// A work is there, as it is now. Returns the Gateway that it is for.
    pub(super) fn apply_work(&mut self, object: &HubObject) -> Option<ObjectKey> {
        let (gateway, work) = self.work(object)?;
        self.works.get_or_insert_default().entry(gateway.clone()).or_default().insert(cluster(object), work);
        Some(gateway)
    }

    /// A work is gone.
    pub(super) fn delete_work(&mut self, object: &HubObject) -> Option<ObjectKey> {
        let (gateway, _) = self.work(object)?;
        self.works.as_mut()?.get_mut(&gateway)?.remove(&cluster(object));
        Some(gateway)
    }

    fn work(&self, object: &HubObject) -> Option<(ObjectKey, Work)> {
        let work = Work::new(object, &self.controller);
        let gateway = work.parent().filter(|parent| parent.is_gateway())?.object.clone();
        Some((gateway, work))
    }

    /// What there is to say of a Gateway; `None` where it is gone, or of a class that is not ours.
    pub(super) fn report(&self, key: &ObjectKey) -> Option<GatewayReport> {
        let gateway = self.gateways.get(key)?;
        let class = gateway.spec_as::<GatewaySpec>().gateway_class_name;
        self.classes.get(&*class)?;
        let none = Works::new();
        let works = self.works.as_ref().map(|works| works.get(key).unwrap_or(&none));
        Some(GatewayReport::new(gateway, &class, works))
    }

    /// What there is to say of all.
    pub(super) fn reports(&self) -> Vec<GatewayReport> {
        self.gateways.keys().filter_map(|key| self.report(key)).collect()
    }
}

fn cluster(work: &HubObject) -> ClusterName {
    work.metadata.namespace.as_str().into()
}
