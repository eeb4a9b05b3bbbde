//! Compares the final state and the writes of a run with the final state and the writes of a run without faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use policy_sync_api::moment::Moment;
use policy_sync_testenv::hostile::{HOSTILE_TENANT, ROGUE};
use policy_sync_testenv::memory::RequestInfo;
use serde_json::{Value, json};

use crate::hub::Hub;
use crate::scenario;

/// All objects except Leases and Events, without fields that differ from run to run.
#[derive(Clone, Debug)]
pub(crate) struct State(BTreeMap<String, Value>);

impl State {
    /// The present state of `hub`.
    pub(crate) fn of(hub: &Hub) -> Self {
        let passing = |name: &str| name.starts_with("leases.") || name.starts_with("events.");
        let objects = hub.server.objects().into_iter().filter(|(name, _)| !passing(name));
        Self(objects.map(|(name, object)| (name, comparable(object))).collect())
    }

    /// The works by `<cluster>/<kind>-<name>`, without the hash.
    pub(crate) fn works(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().filter_map(|(name, work)| {
            let name = name.strip_prefix("manifestworks.work.open-cluster-management.io ")?;
            Some((name.rsplit_once('-')?.0, work))
        })
    }

    /// The objects that a hostile spoke or tenant can neither write nor influence.
    pub(crate) fn of_others(&self) -> Self {
        let others = self.0.iter().filter(|(name, _)| {
            let (kind, name) = name.split_once(' ').unwrap_or_default();
            is_of_others(kind.split_once('.').unwrap_or((kind, "")).0, name)
        });
        Self(others.map(|(name, object)| (name.clone(), object.clone())).collect())
    }

    /// The differences from `faultless`; empty if there are none.
    pub(crate) fn difference(&self, faultless: &Self) -> String {
        let mut text = String::new();
        let names: BTreeSet<&String> = self.0.keys().chain(faultless.0.keys()).collect();
        for name in names {
            match (self.0.get(name), faultless.0.get(name)) {
                (Some(found), Some(expected)) if found == expected => {}
                (Some(found), Some(expected)) => {
                    let _ = writeln!(text, "{name}:\n  expected {expected}\n  found    {found}");
                }
                (None, _) => drop(writeln!(text, "{name} is missing")),
                (_, None) => drop(writeln!(text, "{name} is not expected")),
            }
        }
        text
    }
}

/// How often the controller has created and deleted each object.
#[derive(Clone, Debug)]
pub(crate) struct Effects(BTreeMap<String, usize>);

impl Effects {
    /// The effects of the run on `hub` so far.
    pub(crate) fn of(hub: &Hub) -> Self {
        let mut effects = BTreeMap::new();
        for request in hub.writes().iter().filter(|request| (200..300).contains(&request.code)) {
            if matches!(request.verb, "create" | "delete") {
                *effects.entry(effect(request)).or_default() += 1;
            }
        }
        Self(effects)
    }

    /// The effects on objects that a hostile spoke or tenant can neither write nor influence.
    pub(crate) fn of_others(&self) -> Self {
        let others = self.0.iter().filter(|(effect, _)| {
            let mut words = effect.splitn(3, ' ').skip(1);
            let kind = words.next().and_then(|kind| kind.split(['.', '/']).next()).unwrap_or_default();
            is_of_others(kind, words.next().unwrap_or_default())
        });
        Self(others.map(|(effect, count)| (effect.clone(), *count)).collect())
    }

    /// The creates and deletes in excess of `faultless`; empty if there are none. The request `disturbed` by the fault
    /// may be repeated once. If this request is a create, one additional delete is allowed: the first create can take
    /// effect after its object is no longer needed.
    pub(crate) fn difference(&self, faultless: &Self, disturbed: Option<&RequestInfo>) -> String {
        let mut text = String::new();
        let repeated = disturbed.map(effect);
        let made_twice = disturbed.filter(|disturbed| {
            let made = effect(disturbed);
            disturbed.verb == "create" && self.count(&made) > faultless.count(&made)
        });
        let undone = made_twice.map(|made| effect(&RequestInfo { verb: "delete", ..made.clone() }));
        for (effect, count) in &self.0 {
            let expected = faultless.count(effect);
            let more = [&repeated, &undone].contains(&&Some(effect.clone()));
            if *count > expected + usize::from(more) {
                let _ = writeln!(text, "{effect}: {count} times, {expected} without faults");
            }
        }
        text
    }

    fn count(&self, effect: &str) -> usize {
        self.0.get(effect).copied().unwrap_or_default()
    }
}

/// Whether a hostile spoke and a hostile tenant cannot influence the object `<namespace>/<name>` of the kind
/// `resource`. These attackers can cause and extend the access work of a cluster.
fn is_of_others(resource: &str, name: &str) -> bool {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let hostile = [namespace, name].iter().any(|found| [ROGUE, HOSTILE_TENANT].contains(found));
    !hostile && (resource != "manifestworks" || scenario::works().contains(name))
}

/// The verb and the object of a request, without the request's ordinal: `create manifestworks eu-1/limits`.
fn effect(request: &RequestInfo) -> String {
    RequestInfo { ordinal: 0, ..request.clone() }.to_string()
}

/// `object` without uids, versions, times and other fields that depend on the order of writes.
fn comparable(mut object: Value) -> Value {
    let generation = object["metadata"]["generation"].clone();
    let is_work = object["kind"] == "ManifestWork";
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
            metadata.remove(field);
        }
        if is_work {
            // A fault can move a field from the create to a later patch, which changes the managed fields.
            metadata.remove("managedFields");
        }
        if let Some(entries) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
            // A manager that has removed all its annotations has an empty entry. A manager that never had
            // annotations has no entry.
            entries.retain(|entry| entry["fieldsV1"] != json!({"f:metadata": {"f:annotations": {}}}));
            entries.iter_mut().for_each(|entry| drop(entry["time"].take()));
            // The API server sorts the entries by time.
            entries.sort_by_key(|entry| {
                ["manager", "operation", "subresource"].map(|key| entry[key].to_string())
            });
        }
    }
    timeless(&mut object["status"], &generation);
    object
}

/// Replaces each observed generation with a boolean: whether it is current. Also removes transition times.
fn timeless(status: &mut Value, generation: &Value) {
    match status {
        Value::Object(fields) => {
            fields.remove("lastTransitionTime");
            if let Some(observed) = fields.get_mut("observedGeneration") {
                *observed = json!(observed == generation);
            }
            fields.values_mut().for_each(|value| timeless(value, generation));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| timeless(item, generation)),
        _ => {}
    }
}

#[test]
fn additional_delete_is_allowed_only_after_a_repeated_create() {
    let request = |verb, name: &str| RequestInfo {
        user: "controller".to_owned(),
        verb,
        group: "work.open-cluster-management.io".to_owned(),
        version: "v1".to_owned(),
        resource: "manifestworks".to_owned(),
        namespace: "eu-1".to_owned(),
        name: name.to_owned(),
        subresource: String::new(),
        ordinal: 1,
        at: Moment(0),
        code: 0,
    };
    let effects = |creates, deletes| {
        let counts = [("create", creates), ("delete", deletes)];
        Effects(counts.map(|(verb, count)| (effect(&request(verb, "limits")), count)).into())
    };
    let (faultless, disturbed) = (effects(1, 1), request("create", "limits"));
    let allowed =
        |found: Effects, disturbed: &RequestInfo| found.difference(&faultless, Some(disturbed)).is_empty();
    assert!(allowed(effects(2, 2), &disturbed));
    assert!(allowed(effects(2, 1), &disturbed));
    assert!(!allowed(effects(3, 2), &disturbed));
    assert!(!allowed(effects(2, 3), &disturbed));
    // An additional delete is allowed only if the create was repeated.
    assert!(!allowed(effects(1, 2), &disturbed));
    assert!(!allowed(effects(2, 2), &request("create", "timeouts")));
    assert!(!allowed(effects(2, 2), &request("patch", "limits")));
    assert!(allowed(effects(1, 2), &request("delete", "limits")));
}
