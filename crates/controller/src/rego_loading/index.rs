//! Derived data: the objects of each kind as one Rego value. An update copies only the values on the path to the
//! changed object.

use std::collections::BTreeMap;

use regorus::Value;

use super::sharing::Sharing;
use super::usage::DocumentUsage;
use policy_sync_api::names::{ControllerName, GroupResource, ObjectKey};

/// Data derived from the rows.
#[derive(Clone, Debug)]
pub(super) struct Index {
    controller: ControllerName,
    /// The objects of each kind: `{"<namespace>": {"<name>": {…}}}`, or `{"<name>": {…}}` for a cluster-scoped kind.
    documents: BTreeMap<GroupResource, Value>,
    pub(super) sharing: Sharing,
    pub(super) usage: DocumentUsage,
}

impl Index {
    /// An empty index with limits for the bytes and for the number of namespaced documents.
    pub(super) fn new(controller: ControllerName, bytes: usize, count: usize) -> Self {
        let (documents, sharing) = (BTreeMap::new(), Sharing::default());
        Self { controller, documents, sharing, usage: DocumentUsage::new(bytes, count) }
    }

    pub(super) fn controller(&self) -> &ControllerName {
        &self.controller
    }

    pub(super) fn documents(&self, kind: &GroupResource) -> Option<&Value> {
        self.documents.get(kind)
    }

    /// The names of the documents of `kind` in `namespace`.
    pub(super) fn names(&self, kind: &GroupResource, namespace: &str) -> Vec<ObjectKey> {
        let objects = self.documents(kind).map(|objects| &objects[namespace]);
        let names =
            objects.and_then(|objects| objects.as_object().ok()).into_iter().flat_map(|named| named.keys());
        let name = |name: &Value| Some(ObjectKey::new(namespace, name.as_string().ok()?));
        names.filter_map(name).collect()
    }

    pub(super) fn put(&mut self, kind: &GroupResource, key: &ObjectKey, document: Value) {
        let objects = self.documents.entry(kind.clone()).or_insert_with(Value::new_object);
        let objects = match &*key.namespace {
            "" => Some(objects),
            namespace => below(objects, namespace, true),
        };
        if let Some(Ok(objects)) = objects.map(Value::as_object_mut) {
            objects.insert(self.sharing.share(&(&*key.name).into()), document);
        }
    }

    pub(super) fn take(&mut self, kind: &GroupResource, key: &ObjectKey) {
        let Some(objects) = self.documents.get_mut(kind) else { return };
        let (name, namespace) = (Value::from(&*key.name), &*key.namespace);
        if namespace.is_empty() {
            remove(objects, &name);
        } else if let Some(named) = below(objects, namespace, false) {
            remove(named, &name);
            if named.as_object().is_ok_and(|named| named.is_empty()) {
                remove(objects, &namespace.into());
            }
        }
        if objects.as_object().is_ok_and(|objects| objects.is_empty()) {
            self.documents.remove(kind);
        }
    }
}

fn remove(objects: &mut Value, key: &Value) {
    if let Ok(objects) = objects.as_object_mut() {
        objects.remove(key);
    }
}

/// The value at `key` of `objects`. If it is missing and `make` is true, an empty object is inserted.
fn below<'v>(objects: &'v mut Value, key: &str, make: bool) -> Option<&'v mut Value> {
    let (objects, key) = (objects.as_object_mut().ok()?, Value::from(key));
    if make && !objects.contains_key(&key) {
        objects.insert(key.clone(), Value::new_object());
    }
    objects.get_mut(&key)
}

#[cfg(test)]
mod tests;
