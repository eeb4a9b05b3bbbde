//! Followers of the loader. They keep kinds in memory beside those that modules read, and are notified of changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regorus::Value;

use super::index::Index;
use super::kinds::{DOCUMENTS, SERVED, documents};
use super::rows::Document;
use super::verdict::Verdicts;
use super::view::View;
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_mirror::{Changed, Changes};
use policy_sync_rego::module::ModuleId;
use policy_sync_rego::settle::InForce;

/// A change that followers are notified of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The result of placement policies may have changed: a policy, or an object or a value that they read.
    Placement(MovedBy),
    /// All objects of a kept kind are loaded.
    Listed(GroupResource),
    /// An object of a kept kind was created or deleted, or changed outside its status.
    Object(GroupResource, ObjectKey),
}

/// The cause of a change of placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MovedBy {
    /// Changes of these documents only.
    Documents(BTreeSet<(GroupResource, ObjectKey)>),
    /// A change of Rego policies or of values in ConfigMaps, or of more documents than are recorded.
    Other,
}

impl Default for MovedBy {
    fn default() -> Self {
        Self::Documents(BTreeSet::new())
    }
}

impl MovedBy {
    /// The maximum number of recorded documents.
    const DOCUMENTS: usize = 256;

    /// Adds a document.
    pub(super) fn add(&mut self, kind: &GroupResource, key: &ObjectKey) {
        if let Self::Documents(documents) = self {
            documents.insert((kind.clone(), key.clone()));
            if documents.len() > Self::DOCUMENTS {
                *self = Self::Other;
            }
        }
    }

    /// Merges two changes.
    pub(super) fn and(mut self, other: Self) -> Self {
        match other {
            Self::Documents(documents) => documents.iter().for_each(|(kind, key)| self.add(kind, key)),
            Self::Other => self = Self::Other,
        }
        self
    }

    /// Keeps only documents of these `kinds`.
    pub(super) fn of_kinds<'k>(self, kinds: impl Iterator<Item = &'k GroupResource>) -> Self {
        let kinds: BTreeSet<&GroupResource> = kinds.collect();
        match self {
            Self::Documents(mut documents) => {
                documents.retain(|(kind, _)| kinds.contains(kind));
                Self::Documents(documents)
            }
            Self::Other => Self::Other,
        }
    }
}

/// A callback for changes. It must not block.
pub(super) type Follower = Arc<dyn Fn(Moved) + Send + Sync>;

/// The inputs of placement except objects of the hub. Empty without placement policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Basis {
    is_starting: bool,
    in_force: BTreeMap<ModuleId, InForce>,
    denial: Option<String>,
    /// For an external engine: its address, and whether it has Rego policies.
    elsewhere: Option<(String, bool)>,
    brought: BTreeMap<Value, Value>,
    /// The kinds on this hub of the plurals that Rego policies read.
    reads: BTreeMap<String, Option<GroupResource>>,
}

impl Basis {
    /// The inputs by `verdicts`: modules in force, the reason for a denial, and values from ConfigMaps in `data`.
    pub(super) fn new(
        view: View<'_>,
        verdicts: &Verdicts,
        is_starting: bool,
        denial: Option<&String>,
        data: &Value,
    ) -> Self {
        let modules = &verdicts.placing.modules;
        let in_force = modules.iter();
        let in_force =
            in_force.filter_map(|id| Some((id.clone(), verdicts.modules.get(id)?.in_force.clone()?)));
        let brought =
            fields(data).filter(|(name, _)| !modules.is_empty() && **name != Value::from("kubernetes"));
        Self {
            is_starting,
            in_force: in_force.collect(),
            denial: denial.cloned(),
            elsewhere: None,
            brought: brought.map(|(name, value)| (name.clone(), value.clone())).collect(),
            reads: verdicts
                .placing
                .kinds
                .iter()
                .map(|plural| (plural.clone(), view.resource(plural).cloned()))
                .collect(),
        }
    }

    /// Whether the engine is external.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.elsewhere.is_some()
    }

    /// Sets the external engine.
    pub(super) fn elsewhere(self, elsewhere: Option<(String, bool)>) -> Self {
        Self { elsewhere, ..self }
    }

    /// The kinds that placement reads.
    pub(super) fn reads(&self) -> impl Iterator<Item = &GroupResource> {
        self.reads.values().flatten()
    }
}

/// The extent of a change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Only its status.
    Status,
    /// More than its status.
    More,
}

/// A relevant change: the kind, and the notification for followers that keep this kind.
pub(super) struct Seen {
    pub kind: GroupResource,
    /// The object, if the change concerns one object.
    pub object: Option<ObjectKey>,
    pub moved: Option<Moved>,
}

/// The relevant changes. Changes of metadata that each write causes are ignored.
pub(super) fn seen(changes: &Changes<'_, Index>) -> Vec<Seen> {
    let view: View<'_> = changes.view();
    let seen = |changed: &Changed| match changed {
        Changed::Listed(source) => {
            let kind = DOCUMENTS.resource_of(source)?.clone();
            Some(Seen { moved: Some(Moved::Listed(kind.clone())), object: None, kind })
        }
        // For a kind with an alias, the list may complete before the alias is resolved.
        Changed::Object { source, key, .. } if source.is(&SERVED) => {
            let kind = view.resource(&key.name)?.clone();
            let moved = view.is_listed(&documents(&kind)).then(|| Moved::Listed(kind.clone()));
            Some(Seen { moved, object: None, kind })
        }
        Changed::Object { source, .. } => {
            let (key, before) = changed.object_of(&DOCUMENTS)?;
            let kind = DOCUMENTS.resource_of(source)?.clone();
            let now = view.document(&kind, key);
            let extent = extent(before.and_then(Document::object), now.and_then(Document::object))?;
            // Until a kind is listed, followers get one notification for all of its objects.
            let is_told = extent == Extent::More && view.is_listed(source);
            let moved = is_told.then(|| Moved::Object(kind.clone(), key.clone()));
            Some(Seen { moved, object: Some(key.clone()), kind })
        }
        _ => None,
    };
    changes.iter().filter_map(seen).collect()
}

fn extent(before: Option<&Value>, now: Option<&Value>) -> Option<Extent> {
    let (Some(before), Some(now)) = (before, now) else {
        return (before.is_some() || now.is_some()).then_some(Extent::More);
    };
    // Fast: equal parts mostly share memory.
    if without(before, &["metadata", "status"]) != without(now, &["metadata", "status"])
        || metadata(before) != metadata(now)
    {
        return Some(Extent::More);
    }
    (before["status"] != now["status"]).then_some(Extent::Status)
}

fn metadata(object: &Value) -> BTreeMap<&Value, &Value> {
    without(&object["metadata"], &["generation", "resourceVersion"])
}

fn without<'v>(object: &'v Value, names: &[&str]) -> BTreeMap<&'v Value, &'v Value> {
    let is_left_out = |field: &Value| field.as_string().is_ok_and(|field| names.contains(&field.as_ref()));
    fields(object).filter(|(name, _)| !is_left_out(name)).collect()
}

fn fields(object: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    object.as_object().into_iter().flat_map(|fields| fields.iter())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rego_loading::tests::{Hub, NOW};
    use policy_sync_api::names::GroupVersionResource;
    use policy_sync_mirror::served::Served;
    use policy_sync_mirror::served::found;

    #[test]
    fn placement_depends_on_modules_config_map_data_and_kinds() {
        let hub = Hub::new();
        let basis = |verdicts: &Verdicts, data: serde_json::Value| {
            let guard = hub.0.read();
            Basis::new(guard.view(NOW), verdicts, false, None, &data.into())
        };
        let (one, other) = (json!({"policies": {"a": 1}, "kubernetes": {}}), json!({"policies": {"a": 2}}));
        let none = Verdicts::default();
        assert_eq!(basis(&none, one.clone()), basis(&none, other.clone()), "nobody asks");
        let mut placing = Verdicts::default();
        placing.placing.modules.insert(ModuleId::new("policies/a/a.rego"));
        placing.placing.kinds.insert("pods".to_owned());
        assert_ne!(basis(&placing, one.clone()), basis(&placing, other));
        let before = basis(&placing, one.clone());
        assert_eq!(before, basis(&placing, json!({"policies": {"a": 1}, "kubernetes": {"pods": {}}})));
        assert_eq!(before.reads().collect::<Vec<_>>(), [&GroupResource::new("", "pods")]);
        hub.serves("pods", Served::Nowhere);
        assert_ne!(before, basis(&placing, one));
    }

    #[test]
    fn changed_documents_are_recorded_up_to_a_limit() {
        let document =
            |number: usize| (GroupResource::new("", "pods"), ObjectKey::new("a", &number.to_string()));
        let (mut by, mut all) = (MovedBy::default(), BTreeSet::new());
        for number in 0..MovedBy::DOCUMENTS {
            let (kind, key) = document(number);
            by.add(&kind, &key);
            by.add(&kind, &key);
            all.insert((kind, key));
        }
        assert_eq!(by, MovedBy::Documents(all.clone()));
        let (pods, other) = (GroupResource::new("", "pods"), GroupResource::namespaces());
        assert_eq!(by.clone().of_kinds([&pods].into_iter()), by);
        assert_eq!(by.clone().of_kinds([&other].into_iter()), MovedBy::default());
        assert_eq!(by.clone().and(MovedBy::default()), by);
        assert_eq!(by.clone().and(MovedBy::Other), MovedBy::Other);
        let (kind, key) = document(MovedBy::DOCUMENTS);
        by.add(&kind, &key);
        assert_eq!(by, MovedBy::Other, "they are too many");
    }

    #[test]
    fn kind_is_listed_once_objects_and_name_are_known_in_any_order() {
        let hub = Hub::new();
        let kind = GroupResource::new("apps", "deployments");
        let served = || Served::As(GroupVersionResource::new("apps", "v1", "deployments"));
        let told = |changes: Changes<'_, Index>| -> Vec<Option<Moved>> {
            seen(&changes).into_iter().map(|seen| seen.moved).collect()
        };
        let find = |plural: &str| told(hub.0.change(found(plural, served()), NOW));
        assert_eq!(find("deployments"), [None]);
        hub.0.begin_resync(&documents(&kind));
        let listed = || vec![Some(Moved::Listed(kind.clone()))];
        assert_eq!(told(hub.0.end_resync(&documents(&kind), 1, NOW)), listed());
        assert_eq!(find("deployments.apps"), listed());
    }

    #[test]
    fn extent_of_a_change_ignores_versions_and_separates_status() {
        let of = |object: serde_json::Value| Some(Value::from(object));
        let app = |status: i64, version: &str, label: &str| {
            of(json!({"kind": "App", "status": {"n": status}, "spec": {"a": 1},
                "metadata": {"name": "a", "resourceVersion": version, "generation": status, "labels": {"l": label}}}))
        };
        let first = app(1, "1", "a");
        for (now, expected) in [
            (app(1, "2", "a"), None),
            (app(2, "2", "a"), Some(Extent::Status)),
            (app(2, "2", "b"), Some(Extent::More)),
            (of(json!({"kind": "App", "metadata": {"name": "a", "labels": {"l": "a"}}})), Some(Extent::More)),
            (None, Some(Extent::More)),
        ] {
            assert_eq!(extent(first.as_ref(), now.as_ref()), expected, "{now:?}");
        }
        assert_eq!(extent(None, first.as_ref()), Some(Extent::More));
        assert_eq!(extent(None, None), None);
    }
}
