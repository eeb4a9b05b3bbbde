//! A simulated hub. It applies steps in JSON, and writes plans as an API server would store them.
//!
//! A *step* is an object as an API server sends it. A deleted object has `"deleted": true` at its top level. Other
//! steps are a number of milliseconds that pass, and `"write"`, which writes everything that is planned. Objects that
//! no API server would store, such as one without a name, are skipped.

mod model;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use policy_sync_api::json::normalize;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, GroupResource, ObjectKey, Origin};
use policy_sync_api::object::HubObject;
use policy_sync_api::schema::Schema;
use policy_sync_mirror::{Source, SourceEvent};
use policy_sync_sync::desired::{WorksPlan, plan_works, watches};
use policy_sync_sync::kinds::{
    CLASSES, CLUSTERS, CONFIG_MAPS, DECISIONS, GATEWAYS, GRANTS, PLACEMENTS, POLICIES, SECRETS, needed,
};
use policy_sync_sync::rows::kind::{KindInfo, Resolution};
use policy_sync_sync::rows::schema::WorkSchema;
use policy_sync_sync::status::policy::FoldPlan;
use policy_sync_sync::{Key, Keys, Mirror, Settings, View, found, status, triggers};
use serde_json::{Value, json};

pub(super) use model::names;
use model::placement_of;

/// The name of the controller.
pub(super) const CONTROLLER: &str = "kuadrant.io/policy-sync";
/// The prefix of namespaces on the spokes.
pub(super) const PREFIX: &str = "kuadrant-";
/// The policy kind whose CustomResourceDefinition has a schema.
const TYPED: &str = "AuthPolicy";
/// The time of the first lists. Not zero, because a time of zero means never.
const START: i64 = 1_000_000_000_000;
/// The maximum number of steps of an input. More steps take longer without reaching new code.
const STEPS: usize = 64;

/// ManifestWorks by cluster and name.
pub(super) type Works = BTreeMap<(String, String), Value>;

pub(super) struct Hub {
    mirror: Mirror,
    settings: Settings,
    now: i64,
    version: u64,
    followed: BTreeSet<Source>,
    /// The kinds of the resources in the input.
    kinds: BTreeMap<GroupResource, String>,
    schema: Arc<Schema>,
    /// Whether policies have a status for each of their ancestors.
    pub(super) has_ancestors: bool,
    pub(super) objects: BTreeMap<(Source, ObjectKey), Value>,
    pub(super) works: Works,
    /// When each Placement or one of its decisions last changed.
    changed: BTreeMap<ObjectKey, i64>,
}

impl Hub {
    /// A hub without objects, whose initial lists ended long ago.
    pub(super) fn new() -> Self {
        let mirror = Mirror::new(ControllerName::new(CONTROLLER));
        mirror.change(found::work_schema(WorkSchema::FULL), Moment(START));
        for source in needed() {
            mirror.begin_resync(&source);
            mirror.end_resync(&source, 1, Moment(START));
        }
        Self {
            mirror,
            settings: Settings::default(),
            now: START + 3_600_000,
            version: 1,
            followed: needed().collect(),
            kinds: BTreeMap::new(),
            schema: Arc::new(schema()),
            has_ancestors: false,
            objects: BTreeMap::new(),
            works: BTreeMap::new(),
            changed: BTreeMap::new(),
        }
    }

    /// Applies the `steps` that `filter` accepts, and calls `check` before each write and at the end.
    pub(super) fn steps(&mut self, steps: &[Value], filter: impl Fn(&Value) -> bool, check: impl Fn(&Self)) {
        for step in steps.iter().take(STEPS).filter(|step| filter(step)) {
            match step {
                Value::Number(milliseconds) => self.wait(milliseconds.as_i64().unwrap_or_default()),
                Value::String(word) if word == "write" => {
                    check(self);
                    self.write();
                }
                Value::Object(_) => self.object(step),
                _ => {}
            }
        }
        check(self);
    }

    pub(super) fn wait(&mut self, milliseconds: i64) {
        self.now += milliseconds.clamp(0, 86_400_000);
    }

    pub(super) fn object(&mut self, object: &Value) {
        let Some((source, key)) = self.address(object) else { return };
        let mut object = object.clone();
        normalize(&mut object);
        let fields = object.as_object_mut().expect("an object has fields");
        let is_deleted = fields.remove("deleted") == Some(json!(true));
        fields["metadata"]["namespace"] = (&*key.namespace).into();
        fields["metadata"]["uid"] = format!("{key}-uid").into();
        if serde_json::from_str::<HubObject>(&object.to_string()).is_err() {
            return;
        }
        let address = (source, key);
        if is_deleted && !self.objects.contains_key(&address) {
            return;
        }
        let before = self.objects.get(&address).and_then(|object| placement_of(&address, object));
        self.version += 1;
        if is_deleted {
            self.objects.remove(&address);
            if self.followed.contains(&address.0) {
                let (source, key) = address.clone();
                self.change(SourceEvent::Deleted { source, key, version: self.version });
            }
        } else {
            let after = placement_of(&address, &object);
            self.changed.extend(after.map(|placement| (placement, self.now)));
            self.objects.insert(address.clone(), object);
            if self.followed.contains(&address.0) {
                self.show(&address);
            }
        }
        self.changed.extend(before.map(|placement| (placement, self.now)));
        self.follow();
    }

    /// Source and key of `object`; `None` if no API server would store it.
    fn address(&mut self, object: &Value) -> Option<(Source, ObjectKey)> {
        let text = |field: &str| object["metadata"][field].as_str();
        let name = text("name").filter(|name| is_name(name, 253, true))?;
        let kind = object["kind"].as_str()?;
        if matches!(kind, "GatewayClass" | "ManagedCluster") {
            let source = if kind == "GatewayClass" { CLASSES.all() } else { CLUSTERS.all() };
            return Some((source, ObjectKey::new("", name)));
        }
        let key = ObjectKey::new(text("namespace").filter(|name| is_name(name, 63, false))?, name);
        let source = match kind {
            "ConfigMap" => CONFIG_MAPS.object(key.clone()),
            "Gateway" => GATEWAYS.all(),
            "Placement" => PLACEMENTS.all(),
            "PlacementDecision" => DECISIONS.all(),
            "Secret" => SECRETS.all(),
            "ReferenceGrant" => GRANTS.all(),
            kind => {
                let (group, _) = object["apiVersion"].as_str()?.split_once('/')?;
                let lower = kind.to_ascii_lowercase();
                if !is_name(group, 253, true) || !is_name(&lower, 60, false) {
                    return None;
                }
                let plural =
                    lower.strip_suffix('y').map_or_else(|| format!("{lower}s"), |k| format!("{k}ies"));
                let resource = GroupResource::new(group, &plural);
                if self.kinds.entry(resource.clone()).or_insert_with(|| kind.to_owned()) != kind {
                    return None;
                }
                POLICIES.resource(resource)
            }
        };
        Some((source, key))
    }

    fn change(&self, change: SourceEvent) {
        self.mirror.change(change, Moment(self.now));
    }

    fn show(&mut self, address: &(Source, ObjectKey)) {
        self.version += 1;
        let version = self.version;
        let object = self.objects.get_mut(address).expect("the object exists");
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let text = object.to_string();
        self.show_text(&address.0, &address.1, &text);
    }

    fn show_text(&self, source: &Source, key: &ObjectKey, text: &str) {
        let object: HubObject = serde_json::from_str(text).expect("the object was parsed before");
        let row = source.prune(&object, &ControllerName::new(CONTROLLER)).expect("the source has objects");
        self.change(SourceEvent::Applied {
            source: source.clone(),
            key: key.clone(),
            version: self.version,
            row,
        });
    }

    /// Watches the sources of the watch plan.
    fn follow(&mut self) {
        let wanted = self.see(watches::plan);
        let stale =
            |source: &&Source| needed().all(|needed| needed != **source) && !wanted.contains_key(source);
        for source in self.followed.iter().filter(stale).cloned().collect::<Vec<_>>() {
            self.mirror.forget(&source, Moment(self.now));
            self.followed.remove(&source);
        }
        let mut started = false;
        for (source, gvr) in wanted {
            if let Some(kind) = POLICIES.resource_of(&source) {
                let name = self.kinds.get(kind).cloned();
                let resolution = name.map_or(Resolution::Gone, |name| {
                    let schema = (name == TYPED).then(|| self.schema.clone());
                    let has_ancestors = self.has_ancestors;
                    Resolution::Resolved(KindInfo { schema, has_ancestors, ..KindInfo::named(&name) })
                });
                let resolves = resolution != Resolution::Gone;
                self.change(found::resolved(&gvr, resolution));
                if !resolves {
                    continue;
                }
            }
            if !self.followed.insert(source.clone()) {
                continue;
            }
            started = true;
            self.mirror.begin_resync(&source);
            let addresses: Vec<_> = self.objects.keys().filter(|key| key.0 == source).cloned().collect();
            addresses.iter().for_each(|address| self.show(address));
            self.mirror.end_resync(&source, self.version, Moment(self.now));
        }
        if started {
            self.follow();
        }
    }

    pub(super) fn see<T>(&self, read: impl FnOnce(View<'_>) -> T) -> T {
        read(self.mirror.read().view(Moment(self.now)))
    }

    /// All keys of the controller.
    pub(super) fn everything(&self) -> Keys {
        self.see(triggers::everything)
    }

    /// The plans of all Gateways and policies, and of the origins of works.
    pub(super) fn plans(&self) -> BTreeMap<Origin, WorksPlan> {
        let origins = self.everything().into_iter().filter_map(|key| match key {
            Key::Works(origin) => Some(origin),
            _ => None,
        });
        origins.map(|origin| (origin.clone(), self.plan(&origin))).collect()
    }

    pub(super) fn plan(&self, origin: &Origin) -> WorksPlan {
        self.see(|view| plan_works(view, &self.settings, origin))
    }

    pub(super) fn fold(&self, origin: &Origin) -> FoldPlan {
        self.see(|view| status::policy::plan(view, &self.settings, origin))
    }
}

/// A schema that uses each supported feature.
fn schema() -> Schema {
    let rule = json!({"type": "object", "required": ["when"], "properties": {
        "when": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 9},
        "rate": {"type": "integer", "minimum": 1, "maximum": 9, "exclusiveMaximum": true},
        "share": {"type": "number", "nullable": true},
        "strategy": {"type": "string", "enum": ["atomic", "merge"], "default": "atomic"},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "raw": {"x-kubernetes-preserve-unknown-fields": true},
    }});
    let reference = json!({"x-kubernetes-preserve-unknown-fields": true});
    let spec = json!({"type": "object", "properties": {
        "targetRef": reference, "targetRefs": reference,
        "rules": {"type": "object", "additionalProperties": rule, "maxProperties": 3},
        "list": {"type": "array", "items": rule, "oneOf": [{"minItems": 1}, {"maxItems": 0}]},
    }});
    Schema::new(&serde_json::from_value(spec).expect("the schema is valid"))
}

/// Whether `text` is a valid name of an object, with or without dots.
pub(super) fn is_name(text: &str, limit: usize, dots: bool) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = |part: &str| {
        !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= limit && if dots { text.split('.').all(is_label) } else { is_label(text) }
}
