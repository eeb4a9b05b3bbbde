//! The controller's cache, fed by its watches and the responses to its writes, and the statuses to write.

use std::collections::{HashMap, HashSet};

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use policy_sync_api::names::ObjectKey;
use serde_json::{Value, json};

use super::verdict::{Policy, StatusForm, Verdict, verdicts};

/// The source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The watch of Gateways.
    Gateways,
    /// The watch of a policy kind, by its index.
    Policies(usize),
}

/// A status to write.
#[derive(Debug)]
pub(super) struct StatusWrite {
    /// Index of the policy's kind.
    pub(super) kind: usize,
    /// Namespace and name of the policy.
    pub(super) key: ObjectKey,
    /// A merge patch of the status, guarded by the version that was read.
    pub(super) patch: Value,
    generation: i64,
    verdict: Verdict,
}

/// The objects of one source.
struct Table<T> {
    ready: bool,
    objects: HashMap<ObjectKey, T>,
    listed: HashSet<ObjectKey>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { ready: false, objects: HashMap::new(), listed: HashSet::new() }
    }
}

impl<T> Table<T> {
    fn take(
        &mut self,
        event: Event<DynamicObject>,
        keep: impl Fn(&DynamicObject) -> T,
        newer: impl Fn(&T, &T) -> bool,
    ) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                self.listed.insert(key(&object));
                self.put(&object, &keep, &newer);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                self.objects.retain(|key, _| listed.contains(key));
                self.ready = true;
            }
            Event::Apply(object) => self.put(&object, &keep, &newer),
            Event::Delete(object) => {
                self.objects.remove(&key(&object));
            }
        }
    }

    fn put(
        &mut self,
        object: &DynamicObject,
        keep: &impl Fn(&DynamicObject) -> T,
        newer: &impl Fn(&T, &T) -> bool,
    ) {
        let (key, kept) = (key(object), keep(object));
        if self.objects.get(&key).is_none_or(|known| newer(&kept, known)) {
            self.objects.insert(key, kept);
        }
    }
}

fn key(object: &DynamicObject) -> ObjectKey {
    ObjectKey::new(&object.namespace().unwrap_or_default(), &object.name_any())
}

/// Whether `one` is at least as new as `other`, or is a new object with the same name.
fn is_newer(one: &Policy, other: &Policy) -> bool {
    let version = |policy: &Policy| policy.resource_version.parse::<u64>().ok();
    one.uid != other.uid || version(one) >= version(other)
}

/// The cache of all objects.
pub(super) struct Tables {
    gateways: Table<()>,
    policies: Vec<(StatusForm, Table<Policy>)>,
    /// Verdicts that the server pruned from a status. Such verdicts are not written again.
    refused: HashMap<(usize, ObjectKey), Verdict>,
}

impl Tables {
    /// An empty cache of policy kinds, with the form of status of each kind.
    pub(super) fn new(kinds: impl IntoIterator<Item = StatusForm>) -> Self {
        let policies = kinds.into_iter().map(|answers| (answers, Table::default())).collect();
        Self { gateways: Table::default(), policies, refused: HashMap::new() }
    }

    /// Updates the cache from a watch event.
    pub(super) fn take(&mut self, source: Source, event: Event<DynamicObject>) {
        match source {
            Source::Gateways => self.gateways.take(event, |_| (), |(), ()| true),
            Source::Policies(kind) => self.policies[kind].1.take(event, Policy::read, is_newer),
        }
    }

    /// Handles a failed watch. A kind that is not served counts as empty, so that it does not block other kinds.
    pub(super) fn failed(&mut self, source: Source) {
        if source == Source::Gateways {
            self.gateways.ready = true;
        }
    }

    /// The statuses that need a write. Empty until the sources are listed.
    pub(super) fn due(&self) -> Vec<StatusWrite> {
        if !self.gateways.ready {
            return Vec::new();
        }
        let gateways = self.gateways.objects.keys().cloned().collect();
        let now = Timestamp::now();
        let mut due = Vec::new();
        for (kind, (answers, table)) in self.policies.iter().enumerate().filter(|(_, (_, table))| table.ready)
        {
            for (key, policy, verdict) in verdicts(&table.objects, &gateways) {
                let refused = || self.refused.get(&(kind, key.clone())) == Some(&verdict);
                let Some(status) = verdict.status_for(policy, *answers, now).filter(|_| !refused()) else {
                    continue;
                };
                let patch = json!({
                    "metadata": {"uid": policy.uid, "resourceVersion": policy.resource_version},
                    "status": status,
                });
                due.push(StatusWrite {
                    kind,
                    key: key.clone(),
                    patch,
                    generation: policy.generation,
                    verdict,
                });
            }
        }
        due
    }

    /// Updates the cache from the response to a write.
    pub(super) fn written(&mut self, write: &StatusWrite, object: &DynamicObject) {
        let policy = Policy::read(object);
        let at = (write.kind, write.key.clone());
        let (answers, table) = &mut self.policies[write.kind];
        if write.verdict.status_for(&policy, *answers, Timestamp::now()).is_some()
            && policy.generation == write.generation
        {
            self.refused.insert(at, write.verdict.clone());
        } else {
            self.refused.remove(&at);
        }
        table.put(object, &Policy::read, &is_newer);
    }
}

#[cfg(test)]
mod tests;
