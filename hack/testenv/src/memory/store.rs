//! The server's storage: objects, a global version counter, and all changes since the last compaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::fields::Owner;
use super::kinds::Kind;

/// Group and plural name.
pub(super) type KindKey = (String, String);
/// Namespace (empty for cluster-scoped objects) and name.
pub(super) type ObjectKey = (String, String);

/// An object with its field managers.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) object: Arc<Value>,
    pub(super) owners: Vec<Owner>,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) kind: KindKey,
    pub(super) key: ObjectKey,
    pub(super) before: Option<Arc<Value>>,
    /// `None` for a deletion. Then `before` is the last state, and `version` is the version of the deletion.
    pub(super) after: Option<Arc<Value>>,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) kinds: BTreeMap<KindKey, Arc<Kind>>,
    objects: BTreeMap<KindKey, BTreeMap<ObjectKey, Stored>>,
    changes: Vec<Change>,
    pub(super) version: u64,
    /// The changes of all kinds up to this version are gone.
    pub(super) compacted: u64,
    /// For each kind whose history has expired, the version up to which its changes are gone.
    forgotten: BTreeMap<KindKey, u64>,
    made: u64,
    /// Permissions that access reviews deny: verb, group and resource.
    pub(super) denied: BTreeSet<(String, String, String)>,
}

impl Store {
    pub(super) fn new() -> Self {
        // As on a server that has run for a while, version 1 is already compacted.
        let mut store = Self { version: 100, compacted: 99, ..Self::default() };
        for kind in Kind::core() {
            store.register(kind);
        }
        store
    }

    pub(super) fn register(&mut self, kind: Kind) {
        self.kinds.insert((kind.group.clone(), kind.resource.clone()), Arc::new(kind));
    }

    /// Removes a kind and its objects.
    pub(super) fn unregister(&mut self, kind: &KindKey) {
        let keys: Vec<ObjectKey> =
            self.objects.get(kind).into_iter().flatten().map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| drop(self.remove(kind, key)));
        self.kinds.remove(kind);
    }

    pub(super) fn get(&self, kind: &KindKey, key: &ObjectKey) -> Option<&Stored> {
        self.objects.get(kind)?.get(key)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&KindKey, &ObjectKey, &Stored)> {
        self.objects
            .iter()
            .flat_map(|(kind, objects)| objects.iter().map(move |(key, stored)| (kind, key, stored)))
    }

    /// The objects of a kind at `version`, in the order of their keys.
    pub(super) fn at(&self, kind: &KindKey, version: u64) -> BTreeMap<ObjectKey, Arc<Value>> {
        let now = self.objects.get(kind).into_iter().flatten();
        let mut then: BTreeMap<_, _> =
            now.map(|(key, stored)| (key.clone(), stored.object.clone())).collect();
        for change in self.changes.iter().rev().take_while(|change| change.version > version) {
            if change.kind == *kind {
                match &change.before {
                    Some(before) => then.insert(change.key.clone(), before.clone()),
                    None => then.remove(&change.key),
                };
            }
        }
        then
    }

    /// The first change of a kind after `version`.
    pub(super) fn next_change(&self, kind: &KindKey, version: u64) -> Option<&Change> {
        let from = self.changes.partition_point(|change| change.version <= version);
        self.changes[from..].iter().find(|change| change.kind == *kind)
    }

    pub(super) fn new_uid(&mut self) -> String {
        self.made += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.made)
    }

    /// Stores an object under the next version.
    pub(super) fn put(
        &mut self,
        kind: &KindKey,
        key: &ObjectKey,
        mut object: Value,
        owners: Vec<Owner>,
    ) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = Value::String(self.version.to_string());
        if !owners.is_empty() {
            object["metadata"]["managedFields"] = owners.iter().map(Owner::entry).collect();
        }
        let object = Arc::new(object);
        let stored = Stored { object: object.clone(), owners };
        let before = self.objects.entry(kind.clone()).or_default().insert(key.clone(), stored);
        self.note(kind, key, before.map(|before| before.object), Some(object.clone()));
        object
    }

    /// Removes an object. Returns its last state.
    pub(super) fn remove(&mut self, kind: &KindKey, key: &ObjectKey) -> Option<Arc<Value>> {
        let stored = self.objects.get_mut(kind)?.remove(key)?;
        self.version += 1;
        self.note(kind, key, Some(stored.object.clone()), None);
        Some(stored.object)
    }

    fn note(
        &mut self,
        kind: &KindKey,
        key: &ObjectKey,
        before: Option<Arc<Value>>,
        after: Option<Arc<Value>>,
    ) {
        let (version, kind, key) = (self.version, kind.clone(), key.clone());
        self.changes.push(Change { version, kind, key, before, after });
    }

    /// The version up to which changes of a kind are gone.
    pub(super) fn compacted(&self, kind: &KindKey) -> u64 {
        self.forgotten.get(kind).copied().unwrap_or_default().max(self.compacted)
    }

    /// Expires the history of a kind.
    pub(super) fn forget(&mut self, kind: &KindKey) {
        self.forgotten.insert(kind.clone(), self.version);
    }

    /// Removes all changes so far.
    pub(super) fn compact(&mut self) {
        self.compacted = self.version;
        self.changes.clear();
    }
}
