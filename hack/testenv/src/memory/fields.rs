//! Tracks the field managers of an object, and implements the part of server-side apply that depends on field managers.
//!
//! A field is a path. A list is a single field, unless its schema identifies the items by keys.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// A path in the notation of `managedFields`: steps such as `f:name` or `k:{"type":"Ready"}`.
type Path = Vec<String>;
/// A set of fields.
pub(super) type Fields = BTreeSet<Path>;

/// Metadata fields without manager.
const SERVER_FIELDS: [&str; 10] = [
    "f:name",
    "f:namespace",
    "f:uid",
    "f:resourceVersion",
    "f:generation",
    "f:creationTimestamp",
    "f:deletionTimestamp",
    "f:deletionGracePeriodSeconds",
    "f:managedFields",
    "f:selfLink",
];

/// For each list of type `map` in a kind, the key fields of its items. The key of the map is the path of the list,
/// without the steps to items of outer lists.
#[derive(Clone, Debug, Default)]
pub(super) struct ListKeys(BTreeMap<Path, Vec<String>>);

impl ListKeys {
    /// Items of the single list `list` are identified by `key`.
    pub(super) fn of(list: &str, key: &str) -> Self {
        Self(BTreeMap::from([(vec![format!("f:{list}")], vec![key.to_owned()])]))
    }

    /// Reads the keys from a schema.
    pub(super) fn of_schema(schema: &Value) -> Self {
        let mut keys = Self::default();
        keys.read(schema, &mut Vec::new());
        keys
    }

    fn read(&mut self, schema: &Value, path: &mut Path) {
        if schema["x-kubernetes-list-type"] == "map" {
            let names = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            self.0.insert(path.clone(), names.filter_map(Value::as_str).map(str::to_owned).collect());
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            path.push(format!("f:{name}"));
            self.read(property, path);
            path.pop();
        }
        if schema["items"].is_object() {
            self.read(&schema["items"], path);
        }
    }

    /// The step to each item of the list at `path`, or `None` if the list is a single field.
    fn steps(&self, path: &[String], items: &[Value]) -> Option<Vec<String>> {
        let names: Path = path.iter().filter(|step| step.starts_with("f:")).cloned().collect();
        let keys = self.0.get(&names)?;
        let step = |item: &Value| {
            let key: BTreeMap<&String, &Value> = keys.iter().map(|key| (key, &item[key])).collect();
            format!("k:{}", json!(key))
        };
        Some(items.iter().map(step).collect())
    }

    /// The fields of `value` that can have a manager.
    pub(super) fn fields(&self, value: &Value) -> Fields {
        let mut fields = Fields::new();
        self.collect(value, &mut Vec::new(), &mut fields);
        fields.retain(|path| match path.first().map(String::as_str) {
            Some("f:apiVersion" | "f:kind") | None => false,
            Some("f:metadata") => path.get(1).is_some_and(|step| !SERVER_FIELDS.contains(&step.as_str())),
            Some(_) => true,
        });
        fields
    }

    fn collect(&self, value: &Value, path: &mut Path, fields: &mut Fields) {
        let items = match value {
            Value::Object(map) if !map.is_empty() => {
                for (name, value) in map {
                    path.push(format!("f:{name}"));
                    self.collect(value, path, fields);
                    path.pop();
                }
                return;
            }
            Value::Array(items) => self.steps(path, items).map(|steps| steps.into_iter().zip(items)),
            _ => None,
        };
        let Some(items) = items else {
            fields.insert(path.clone());
            return;
        };
        for (step, item) in items {
            path.push(step);
            self.collect(item, path, fields);
            // The item itself is a field in addition to its content.
            fields.insert(path.clone());
            path.pop();
        }
    }

    /// The value of `value` at `path`.
    pub(super) fn at<'v>(&self, value: &'v Value, path: &[String]) -> Option<&'v Value> {
        let mut found = value;
        for (depth, step) in path.iter().enumerate() {
            found = match (step.strip_prefix("f:"), found) {
                (Some(name), Value::Object(map)) => map.get(name)?,
                (None, Value::Array(items)) => {
                    let steps = self.steps(&path[..depth], items)?;
                    &items[steps.iter().position(|found| found == step)?]
                }
                _ => return None,
            };
        }
        Some(found)
    }

    /// Removes the field at `path`.
    fn remove(&self, value: &mut Value, path: &[String]) {
        let Some((last, origins)) = path.split_last() else { return };
        let mut found = value;
        for (depth, step) in origins.iter().enumerate() {
            let next = match (step.strip_prefix("f:"), found) {
                (Some(name), Value::Object(map)) => map.get_mut(name),
                (None, Value::Array(items)) => self
                    .steps(&path[..depth], items)
                    .and_then(|steps| steps.iter().position(|found| found == step))
                    .and_then(|index| items.get_mut(index)),
                _ => None,
            };
            let Some(next) = next else { return };
            found = next;
        }
        match (last.strip_prefix("f:"), found) {
            (Some(name), Value::Object(map)) => drop(map.remove(name)),
            (None, Value::Array(items)) => {
                if let Some(index) =
                    self.steps(origins, items).and_then(|steps| steps.iter().position(|found| found == last))
                {
                    items.remove(index);
                }
            }
            _ => {}
        }
    }

    /// Merges `applied` into `into`.
    fn merge(&self, into: &mut Value, applied: &Value, path: &mut Path) {
        match (into, applied) {
            (Value::Object(into), Value::Object(applied)) => {
                for (name, value) in applied {
                    path.push(format!("f:{name}"));
                    self.merge(into.entry(name.clone()).or_insert(Value::Null), value, path);
                    path.pop();
                }
            }
            (Value::Array(into), Value::Array(applied)) if self.steps(path, applied).is_some() => {
                let steps = self.steps(path, into).unwrap_or_default();
                for (step, item) in self.steps(path, applied).unwrap_or_default().iter().zip(applied) {
                    match steps.iter().position(|found| found == step) {
                        Some(index) => {
                            path.push(step.clone());
                            self.merge(&mut into[index], item, path);
                            path.pop();
                        }
                        None => into.push(item.clone()),
                    }
                }
            }
            (into, applied) => into.clone_from(applied),
        }
    }
}

/// The fields of one manager.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Owner {
    pub(super) manager: String,
    pub(super) applies: bool,
    pub(super) subresource: String,
    pub(super) fields: Fields,
    /// Time of the last write. `api_version` is the version in the same write.
    pub(super) time: String,
    pub(super) api_version: String,
}

impl Owner {
    fn is(&self, other: &Self) -> bool {
        (&self.manager, self.applies, &self.subresource)
            == (&other.manager, other.applies, &other.subresource)
    }

    /// The entry in `managedFields`.
    pub(super) fn entry(&self) -> Value {
        let mut fields = Map::new();
        for path in &self.fields {
            let mut node = &mut fields;
            for step in path {
                let next = node.entry(step.clone()).or_insert_with(|| json!({}));
                let Value::Object(next) = next else { break };
                node = next;
            }
        }
        mark_items(&mut fields);
        let mut entry = json!({
            "manager": self.manager,
            "operation": if self.applies { "Apply" } else { "Update" },
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        });
        if !self.subresource.is_empty() {
            entry["subresource"] = json!(self.subresource);
        }
        entry
    }
}

/// Adds `.` to items that are fields themselves and contain other fields.
fn mark_items(fields: &mut Map<String, Value>) {
    for (step, inside) in fields.iter_mut() {
        let Value::Object(inside) = inside else { continue };
        mark_items(inside);
        if step.starts_with("k:") && !inside.is_empty() {
            inside.insert(".".to_owned(), json!({}));
        }
    }
}

/// Records an update from `old` to `new`: changed fields belong only to `owner`, removed fields to no manager.
pub(super) fn updated(owners: &mut Vec<Owner>, lists: &ListKeys, mut owner: Owner, old: &Value, new: &Value) {
    let (before, after) = (lists.fields(old), lists.fields(new));
    let changed: Fields =
        after.iter().filter(|path| lists.at(old, path) != lists.at(new, path)).cloned().collect();
    for found in owners.iter_mut() {
        found
            .fields
            .retain(|path| !changed.contains(path) && (after.contains(path) || !before.contains(path)));
    }
    owner.fields = changed;
    if !owner.fields.is_empty() {
        match owners.iter_mut().find(|found| found.is(&owner)) {
            Some(found) => {
                found.fields.append(&mut owner.fields);
                found.time = owner.time;
            }
            None => owners.push(owner),
        }
    }
    owners.retain(|owner| !owner.fields.is_empty());
}

/// Applies `body` to `old`, and makes its fields belong to `owner`. Without `force`, returns the conflicting
/// fields with their managers as error.
pub(super) fn applied(
    owners: &mut Vec<Owner>,
    lists: &ListKeys,
    mut owner: Owner,
    old: &Value,
    body: &Value,
    force: bool,
) -> Result<Value, Vec<(String, String)>> {
    let differs = |path: &Path| lists.at(old, path) != lists.at(body, path);
    let mut conflicts = Vec::new();
    for found in owners.iter().filter(|found| !found.is(&owner)) {
        for path in found.fields.intersection(&owner.fields).filter(|path| differs(path)) {
            let name: Vec<&str> = path.iter().map(|step| step.trim_start_matches("f:")).collect();
            conflicts.push((format!(".{}", name.join(".")), found.manager.clone()));
        }
    }
    if !conflicts.is_empty() && !force {
        return Err(conflicts);
    }
    let mut new = old.clone();
    lists.merge(&mut new, body, &mut Vec::new());
    let before = owners.iter().find(|found| found.is(&owner)).map(|found| found.fields.clone());
    let others: Fields =
        owners.iter().filter(|found| !found.is(&owner)).flat_map(|found| found.fields.clone()).collect();
    // Removes an item before its fields, because without its key fields the item could not be found.
    for path in before.iter().flatten().filter(|path| !owner.fields.contains(*path)) {
        let is_inside = |other: &Path| other.starts_with(path);
        if !others.iter().any(is_inside) && !owner.fields.iter().any(is_inside) {
            lists.remove(&mut new, path);
        }
    }
    let time = std::mem::take(&mut owner.time);
    for found in owners.iter_mut().filter(|found| !found.is(&owner)) {
        found.fields.retain(|path| !owner.fields.contains(path) || !differs(path));
    }
    match owners.iter_mut().find(|found| found.is(&owner)) {
        Some(found) if found.fields == owner.fields && new == *old => {}
        Some(found) => {
            found.fields = owner.fields;
            found.time = time;
        }
        None => owners.push(Owner { time, ..owner }),
    }
    owners.retain(|owner| !owner.fields.is_empty());
    Ok(new)
}
