//! Followers of the loader: components that are notified of changes. A follower can also keep kinds in memory that no
//! Rego module reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regorus::Value;

use super::index::Index;
use super::kinds::{DOCUMENTS, RESOLVED_PLURALS, documents};
use super::rows::Document;
use super::verdict::Verdicts;
use super::view::View;
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_mirror::{Changes, MirrorChange};
use policy_sync_rego::module::ModuleId;
use policy_sync_rego::selection::LoadedText;

/// A change that followers are notified of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentEvent {
    /// The result of placement policies may have changed, because of a change in a placement policy, or in an object or
    /// value that placement policies read.
    Placement(ChangeCause),
    /// All objects of a kept kind are loaded.
    Listed(GroupResource),
    /// An object of a kept kind was created or deleted, or changed outside its status.
    Object(GroupResource, ObjectKey),
}

/// The cause of a change in the result of placement policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeCause {
    /// Only these documents changed.
    Documents(BTreeSet<(GroupResource, ObjectKey)>),
    /// Rego policies or values in ConfigMaps changed, or too many documents changed to record each of them.
    Other,
}

impl Default for ChangeCause {
    fn default() -> Self {
        Self::Documents(BTreeSet::new())
    }
}

impl ChangeCause {
    /// The maximum number of recorded documents.
    const DOCUMENTS: usize = 256;

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
pub(super) type Follower = Arc<dyn Fn(DocumentEvent) + Send + Sync>;

/// The inputs of placement policies, except objects of the hub. Empty without placement policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PlacementInputs {
    is_starting: bool,
    in_force: BTreeMap<ModuleId, LoadedText>,
    denial: Option<String>,
    /// For an external engine: its address, and whether it has Rego policies.
    external_engine: Option<(String, bool)>,
    config_map_data: BTreeMap<Value, Value>,
    /// For each plural that Rego policies read, its kind on this hub.
    reads: BTreeMap<String, Option<GroupResource>>,
}

impl PlacementInputs {
    /// Selects the inputs of placement policies. `verdicts` has the modules in force, and `data` has the values from
    /// ConfigMaps. `denial` is the reason if placement reviews are denied.
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
        let config_map_data =
            fields(data).filter(|(name, _)| !modules.is_empty() && **name != Value::from("kubernetes"));
        Self {
            is_starting,
            in_force: in_force.collect(),
            denial: denial.cloned(),
            external_engine: None,
            config_map_data: config_map_data.map(|(name, value)| (name.clone(), value.clone())).collect(),
            reads: verdicts
                .placing
                .kinds
                .iter()
                .map(|plural| (plural.clone(), view.resource(plural).cloned()))
                .collect(),
        }
    }

    /// Whether the engine is external.
    pub(super) fn is_external(&self) -> bool {
        self.external_engine.is_some()
    }

    /// Sets the external engine.
    pub(super) fn external_engine(self, external_engine: Option<(String, bool)>) -> Self {
        Self { external_engine, ..self }
    }

    /// The kinds that placement policies read.
    pub(super) fn reads(&self) -> impl Iterator<Item = &GroupResource> {
        self.reads.values().flatten()
    }
}

/// The extent of a change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeExtent {
    /// Only the object's status changed.
    Status,
    /// More than the object's status changed.
    BeyondStatus,
}

/// A change that may affect Rego policies or followers: the kind of the object, and the notification for followers that
/// keep this kind.
pub(super) struct RelevantChange {
    pub kind: GroupResource,
    /// The object, if the change concerns one object.
    pub object: Option<ObjectKey>,
    pub event: Option<DocumentEvent>,
}

/// Selects the relevant changes of objects. A change of only `metadata.resourceVersion` and `metadata.generation` is
/// ignored.
pub(super) fn relevant(changes: &Changes<'_, Index>) -> Vec<RelevantChange> {
    let view: View<'_> = changes.view();
    let relevant = |changed: &MirrorChange| match changed {
        MirrorChange::Listed(source) => {
            let kind = DOCUMENTS.resource_of(source)?.clone();
            Some(RelevantChange { event: Some(DocumentEvent::Listed(kind.clone())), object: None, kind })
        }
        // A plural or alias was resolved. If its kind was listed before, followers are notified now.
        MirrorChange::Object { source, key, .. } if source.is(&RESOLVED_PLURALS) => {
            let kind = view.resource(&key.name)?.clone();
            let event = view.is_listed(&documents(&kind)).then(|| DocumentEvent::Listed(kind.clone()));
            Some(RelevantChange { event, object: None, kind })
        }
        MirrorChange::Object { source, .. } => {
            let (key, before) = changed.object_of(&DOCUMENTS)?;
            let kind = DOCUMENTS.resource_of(source)?.clone();
            let now = view.document(&kind, key);
            let extent = extent(before.and_then(Document::object), now.and_then(Document::object))?;
            // Until a kind is listed, followers get one notification for all of its objects.
            let is_notified = extent == ChangeExtent::BeyondStatus && view.is_listed(source);
            let event = is_notified.then(|| DocumentEvent::Object(kind.clone(), key.clone()));
            Some(RelevantChange { event, object: Some(key.clone()), kind })
        }
        _ => None,
    };
    changes.iter().filter_map(relevant).collect()
}

fn extent(before: Option<&Value>, now: Option<&Value>) -> Option<ChangeExtent> {
    let (Some(before), Some(now)) = (before, now) else {
        return (before.is_some() || now.is_some()).then_some(ChangeExtent::BeyondStatus);
    };
    // The comparison is fast, because equal parts mostly share memory.
    if without(before, &["metadata", "status"]) != without(now, &["metadata", "status"])
        || metadata(before) != metadata(now)
    {
        return Some(ChangeExtent::BeyondStatus);
    }
    (before["status"] != now["status"]).then_some(ChangeExtent::Status)
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
    use policy_sync_mirror::plurals::ResolvedPlural;
    use policy_sync_mirror::plurals::resolution;

    #[test]
    fn placement_depends_on_modules_config_map_data_and_kinds() {
        let hub = Hub::new();
        let placement_inputs = |verdicts: &Verdicts, data: serde_json::Value| {
            let guard = hub.0.read();
            PlacementInputs::new(guard.view(NOW), verdicts, false, None, &data.into())
        };
        let (one, other) = (json!({"policies": {"a": 1}, "kubernetes": {}}), json!({"policies": {"a": 2}}));
        let none = Verdicts::default();
        assert_eq!(
            placement_inputs(&none, one.clone()),
            placement_inputs(&none, other.clone()),
            "nobody asks"
        );
        let mut placing = Verdicts::default();
        placing.placing.modules.insert(ModuleId::new("policies/a/a.rego"));
        placing.placing.kinds.insert("pods".to_owned());
        assert_ne!(placement_inputs(&placing, one.clone()), placement_inputs(&placing, other));
        let before = placement_inputs(&placing, one.clone());
        assert_eq!(
            before,
            placement_inputs(&placing, json!({"policies": {"a": 1}, "kubernetes": {"pods": {}}}))
        );
        assert_eq!(before.reads().collect::<Vec<_>>(), [&GroupResource::new("", "pods")]);
        hub.serves("pods", ResolvedPlural::NotServed);
        assert_ne!(before, placement_inputs(&placing, one));
    }

    #[test]
    fn changed_documents_are_recorded_up_to_a_limit() {
        let document =
            |number: usize| (GroupResource::new("", "pods"), ObjectKey::new("a", &number.to_string()));
        let (mut by, mut all) = (ChangeCause::default(), BTreeSet::new());
        for number in 0..ChangeCause::DOCUMENTS {
            let (kind, key) = document(number);
            by.add(&kind, &key);
            by.add(&kind, &key);
            all.insert((kind, key));
        }
        assert_eq!(by, ChangeCause::Documents(all.clone()));
        let (pods, other) = (GroupResource::new("", "pods"), GroupResource::namespaces());
        assert_eq!(by.clone().of_kinds([&pods].into_iter()), by);
        assert_eq!(by.clone().of_kinds([&other].into_iter()), ChangeCause::default());
        assert_eq!(by.clone().and(ChangeCause::default()), by);
        assert_eq!(by.clone().and(ChangeCause::Other), ChangeCause::Other);
        let (kind, key) = document(ChangeCause::DOCUMENTS);
        by.add(&kind, &key);
        assert_eq!(by, ChangeCause::Other, "they are too many");
    }

    #[test]
    fn kind_is_listed_once_objects_and_name_are_known_in_any_order() {
        let hub = Hub::new();
        let kind = GroupResource::new("apps", "deployments");
        let served = || ResolvedPlural::Resource(GroupVersionResource::new("apps", "v1", "deployments"));
        let events = |changes: Changes<'_, Index>| -> Vec<Option<DocumentEvent>> {
            relevant(&changes).into_iter().map(|relevant| relevant.event).collect()
        };
        let find = |plural: &str| events(hub.0.change(resolution(plural, served()), NOW));
        assert_eq!(find("deployments"), [None]);
        hub.0.begin_resync(&documents(&kind));
        let listed = || vec![Some(DocumentEvent::Listed(kind.clone()))];
        assert_eq!(events(hub.0.end_resync(&documents(&kind), 1, NOW)), listed());
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
            (app(2, "2", "a"), Some(ChangeExtent::Status)),
            (app(2, "2", "b"), Some(ChangeExtent::BeyondStatus)),
            (
                of(json!({"kind": "App", "metadata": {"name": "a", "labels": {"l": "a"}}})),
                Some(ChangeExtent::BeyondStatus),
            ),
            (None, Some(ChangeExtent::BeyondStatus)),
        ] {
            assert_eq!(extent(first.as_ref(), now.as_ref()), expected, "{now:?}");
        }
        assert_eq!(extent(None, first.as_ref()), Some(ChangeExtent::BeyondStatus));
        assert_eq!(extent(None, None), None);
    }
}
