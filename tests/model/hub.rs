//! The hub: versioned objects and the effects of requests, which are decoded from the bytes that the
//! controller would send.
//!
//! Resource versions are counted for each source, so that the order of writes to different sources does not
//! distinguish states.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use http::Request;
use policy_sync_api::annotations::CONTROLLER;
use policy_sync_api::names::{ClusterName, ControllerName, GroupResource, ObjectKey, WorkName};
use policy_sync_api::object::{HubObject, Metadata};
use policy_sync_mirror::AnyRow;
use policy_sync_mirror::Source;
use policy_sync_sync::kinds::{GATEWAYS, POLICIES, RESOURCES, WORKS, role_of};
use serde_json::Value;

use crate::effect::{Effect, created, deleted, edited, served};
use crate::facts::{self, OriginOnCluster};

/// A state of an object without its version; equal states share one `Content`.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) id: usize,
    pub(crate) json: Value,
    pub(crate) metadata: Metadata,
    /// The row, memoized for the first source that needed it.
    row: OnceLock<(Source, AnyRow)>,
    /// Whether the object is a work that its agent still has to handle.
    pub(crate) waits: OnceLock<bool>,
}

impl Content {
    /// The mirror's row of the object.
    pub(crate) fn row(&self, source: &Source, controller: &ControllerName) -> AnyRow {
        let pruned = || source.prune(&object(&self.json), controller).unwrap();
        match self.row.get_or_init(|| (source.clone(), pruned())) {
            (known, row) if known == source => row.clone(),
            _ => pruned(),
        }
    }
}

pub(crate) fn object(json: &Value) -> HubObject {
    serde_json::from_str(&json.to_string()).unwrap()
}

/// Interns all contents of the exploration, and memoizes the effects of requests on these contents.
#[derive(Default)]
pub(crate) struct Contents {
    all: HashMap<String, Arc<Content>>,
    effects: HashMap<(u64, Option<usize>, u32), Effect>,
}

impl Contents {
    pub(crate) fn of(&mut self, json: Value) -> Arc<Content> {
        let id = self.all.len();
        let content = |text: &String| {
            let metadata = object(&json).metadata;
            let json = serde_json::from_str(text).unwrap();
            Arc::new(Content { id, json, metadata, row: OnceLock::new(), waits: OnceLock::new() })
        };
        self.all.entry(json.to_string()).or_insert_with_key(content).clone()
    }
}

/// An object on the hub.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) content: Arc<Content>,
    pub(crate) version: u64,
}

/// A watch event: the object's state, or `None` if it was deleted.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) key: ObjectKey,
    pub(crate) content: Option<Arc<Content>>,
    pub(crate) version: u64,
}

pub(crate) type Objects = BTreeMap<(Source, ObjectKey), Entry>;

/// All objects of the hub and the events that their changes cause.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hub {
    pub(crate) objects: Objects,
    pub(crate) versions: BTreeMap<Source, u64>,
    made: BTreeMap<(Source, ObjectKey), u32>,
    wanted: Arc<OnceLock<BTreeSet<OriginOnCluster>>>,
    /// A hash of all objects, which does not depend on the order of writes.
    pub(crate) digest: u64,
    /// Events that no watch has received yet.
    pub(crate) events: Vec<(Source, Event)>,
}

impl Hub {
    pub(crate) fn json(&self, source: &Source, key: &ObjectKey) -> Option<&Value> {
        self.objects.get(&(source.clone(), key.clone())).map(|entry| &entry.content.json)
    }

    pub(crate) fn version(&self, source: &Source) -> u64 {
        self.versions.get(source).copied().unwrap_or_default()
    }

    /// The objects in a list of `source`.
    pub(crate) fn listed(&self, source: &Source) -> impl Iterator<Item = (ObjectKey, Entry)> + use<> {
        let objects = self.objects.iter().filter(|((of, _), _)| of == source);
        let selected = objects.filter(|(_, entry)| selected(source, &entry.content.json));
        selected.map(|((_, key), entry)| (key.clone(), entry.clone())).collect::<Vec<_>>().into_iter()
    }

    /// The Gateways, policies and resources that should have works, each with its cluster.
    pub(crate) fn wanted(&self) -> &BTreeSet<OriginOnCluster> {
        self.wanted.get_or_init(|| facts::wanted(&self.objects))
    }

    pub(crate) fn create(&mut self, contents: &mut Contents, source: &Source, json: Value) {
        let key = key_of(&json);
        let effect = created(contents, source, json, self.made(source, &key));
        self.apply_effect(source, &key, effect);
    }

    /// Changes an object, if it exists.
    pub(crate) fn edit(
        &mut self,
        contents: &mut Contents,
        source: &Source,
        key: &ObjectKey,
        edit: impl FnOnce(&mut Value),
    ) {
        if let Some(json) = self.json(source, key) {
            let effect = edited(contents, json, edit);
            self.apply_effect(source, key, effect);
        }
    }

    /// Applies `agent` to an object. Results are memoized, so `agent` must depend only on the object.
    pub(crate) fn apply_agent(
        &mut self,
        contents: &mut Contents,
        source: &Source,
        key: &ObjectKey,
        agent: impl FnOnce(&mut Value),
    ) {
        let Some(entry) = self.objects.get(&(source.clone(), key.clone())) else { return };
        let memo = (0, Some(entry.content.id), 0);
        let known = contents.effects.get(&memo).cloned();
        let effect = known.unwrap_or_else(|| edited(contents, &entry.content.json, agent));
        contents.effects.insert(memo, effect.clone());
        self.apply_effect(source, key, effect);
    }

    /// Deletes an object. An object with a finalizer is only marked as terminating.
    pub(crate) fn delete(&mut self, contents: &mut Contents, source: &Source, key: &ObjectKey) {
        if let Some(json) = self.json(source, key) {
            let effect = deleted(contents, json);
            self.apply_effect(source, key, effect);
        }
    }

    pub(crate) fn made(&self, source: &Source, key: &ObjectKey) -> u32 {
        self.made.get(&(source.clone(), key.clone())).copied().unwrap_or_default()
    }

    pub(crate) fn apply_effect(&mut self, source: &Source, key: &ObjectKey, effect: Effect) {
        let content = match effect {
            Effect::Put(content) => Some(content),
            Effect::Remove => None,
            Effect::Nothing | Effect::Refused(_) => return,
        };
        let (place, version) = ((source.clone(), key.clone()), self.next(source));
        let before = match &content {
            Some(content) => {
                let entry = Entry { content: content.clone(), version };
                self.objects.insert(place.clone(), entry)
            }
            None => self.objects.remove(&place),
        };
        for entry in before.iter().chain(self.objects.get(&place)) {
            self.digest ^= digest(&place, entry);
        }
        if before.is_none() {
            *self.made.entry(place).or_default() += 1;
        }
        if *source != WORKS.all() {
            self.wanted = Arc::default();
        }
        let content = content.filter(|content| selected(source, &content.json));
        let was_selected = before.is_some_and(|before| selected(source, &before.content.json));
        if content.is_some() || was_selected {
            self.events.push((source.clone(), Event { key: key.clone(), content, version }));
        }
    }

    fn next(&mut self, source: &Source) -> u64 {
        let version = self.versions.entry(source.clone()).or_default();
        *version += 1;
        *version
    }

    pub(crate) fn metadata(&self, source: &Source, key: &ObjectKey) -> Option<Metadata> {
        let entry = self.objects.get(&(source.clone(), key.clone()))?;
        Some(Metadata { resource_version: entry.version.to_string(), ..entry.content.metadata.clone() })
    }

    /// The metadata of a work, if it exists.
    pub(crate) fn work_metadata(&self, cluster: &ClusterName, name: &WorkName) -> Option<Metadata> {
        self.metadata(&WORKS.all(), &ObjectKey::new(&cluster.0, &name.0))
    }

    /// Executes the request, which is identified by `id`, and returns the object's metadata or a status code.
    pub(crate) fn serve(
        &mut self,
        contents: &mut Contents,
        request: &Request<Vec<u8>>,
        id: u64,
    ) -> Result<Metadata, u16> {
        let (source, key) = addressed(request);
        let stored = self.objects.get(&(source.clone(), key.clone())).map(|entry| entry.content.clone());
        let memo = (id, stored.as_ref().map(|content| content.id), self.made(&source, &key));
        let known = contents.effects.get(&memo).cloned();
        let effect = known.unwrap_or_else(|| served(contents, &source, request, stored.as_deref(), memo.2));
        contents.effects.insert(memo, effect.clone());
        let before = stored.map(|content| content.metadata.clone());
        match effect {
            Effect::Refused(code) => return Err(code),
            effect => self.apply_effect(&source, &key, effect),
        }
        self.metadata(&source, &key).or(before).ok_or(404)
    }
}

/// A hash of one object. The hash ignores the versions of works, because no delete depends on these versions.
fn digest(place: &(Source, ObjectKey), entry: &Entry) -> u64 {
    let version = if place.0 == WORKS.all() { 0 } else { entry.version };
    let mut hasher = DefaultHasher::new();
    (place, entry.content.id, version).hash(&mut hasher);
    hasher.finish()
}

/// Whether a watch of `source` includes an object: works are selected by the controller label.
pub(crate) fn selected(source: &Source, json: &Value) -> bool {
    *source != WORKS.all() || json["metadata"]["labels"][CONTROLLER].is_string()
}

pub(crate) fn key_of(json: &Value) -> ObjectKey {
    let text = |field: &str| json["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::new(text("namespace"), text("name"))
}

pub(crate) fn category(source: &Source) -> &str {
    role_of(source).map_or_else(|| source.name(), |(_, kind)| &kind.resource)
}

/// Source and key of the object in the path
/// `/apis/<group>/<version>/namespaces/<namespace>/<resource>[/<name>[/status]]`.
fn addressed(request: &Request<Vec<u8>>) -> (Source, ObjectKey) {
    let path = request.uri().path();
    let steps: Vec<&str> = path.trim_matches('/').split('/').collect();
    let ["apis", group, _, "namespaces", namespace, resource, name @ ..] = steps.as_slice() else {
        panic!("unexpected path: {path}");
    };
    let source = match *resource {
        "manifestworks" => WORKS.all(),
        "gateways" => GATEWAYS.all(),
        "deployments" => RESOURCES.resource(GroupResource::new(group, resource)),
        _ => POLICIES.resource(GroupResource::new(group, resource)),
    };
    let key = match name {
        [name] | [name, "status"] => ObjectKey::new(namespace, name),
        _ => key_of(&serde_json::from_slice(request.body()).unwrap_or_default()),
    };
    (source, key)
}
