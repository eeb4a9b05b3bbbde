//! Overrides: changes to a policy's spec for some of its clusters, read from an annotation.
//!
//! ```text
//! [{"clusterSelector": "region=us", "patch": {"limits": {"a": {"rate": 5}}}},
//!  {"clusterSelector": "region=eu", "jsonPatch": [{"op": "remove", "path": "/limits/a"}]}, …]
//! ```
//!
//! `patch` is a [JSON merge patch](https://www.rfc-editor.org/rfc/rfc7396) of the spec. `jsonPatch` is a JSON patch (RFC
//! 6902), which can also change single items of lists. For each cluster, the patches whose selectors match its labels
//! are applied in the order of the list. Parsing is strict, as for parameters.

mod json_patch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ::json_patch::merge;
use kube::core::{Selector, SelectorExt};
use serde_json::Value;

use crate::Problem;
use json_patch::{JsonPatch, OperationError};
use policy_sync_api::json::step::{Step, place};
use policy_sync_api::json::strict::{self, JsonError, distinct, list, object, required};
use policy_sync_api::json::tree::Json;
use policy_sync_api::json::{DEPTH_LIMIT, depth, length, normalize};
use policy_sync_api::schema::{self, Schema};
use policy_sync_api::selector;

/// The maximum number of overrides of one policy. The number is limited because each override is matched against every
/// cluster.
pub const LIMIT: usize = 100;
/// The maximum number of operations of one JSON patch.
pub const OPERATIONS_LIMIT: usize = 100;

/// The fields that overrides cannot change, because the targets decide on which clusters the policy is placed.
const TARGETS: [&str; 2] = ["targetRef", "targetRefs"];
const KEYS: [&str; 3] = ["clusterSelector", "patch", "jsonPatch"];

/// The overrides of a policy.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    override_selectors: Arc<OverrideSelectors>,
    patches: Vec<Patch>,
}

/// The change of one override.
#[derive(Clone, Debug)]
enum Patch {
    Merge(Value),
    Json(JsonPatch),
}

impl Patch {
    /// The size as JSON, in bytes. The patched spec grows by at most this much.
    fn bytes(&self) -> usize {
        match self {
            Self::Merge(patch) => length(patch),
            Self::Json(patch) => patch.bytes(),
        }
    }
}

/// The positions of some overrides in the list of a policy's overrides.
pub type OverrideIndexes = Vec<usize>;

/// The selectors of a policy's overrides and the sizes of their patches. They suffice to decide which overrides apply
/// to a cluster.
#[derive(Debug, Default)]
pub struct OverrideSelectors {
    /// The selector of each override, and the size of its patch in bytes.
    overrides: Vec<(Selector, usize)>,
    /// The total length of the selectors' texts in bytes.
    pub selectors: usize,
}

impl OverrideSelectors {
    /// The overrides that match a cluster with these labels.
    #[must_use]
    pub fn selected(&self, labels: &BTreeMap<String, String>) -> OverrideIndexes {
        let matching =
            self.overrides.iter().enumerate().filter(|(_, (selector, _))| selector.matches(labels));
        matching.map(|(index, _)| index).collect()
    }

    /// The total size of the patches of the overrides `selected` in bytes. The patched spec grows by at most this much.
    #[must_use]
    pub fn bytes(&self, selected: &[usize]) -> usize {
        selected.iter().filter_map(|&index| self.overrides.get(index)).map(|(_, bytes)| bytes).sum()
    }
}

impl Overrides {
    /// Parses `text`, the value of the annotation with overrides.
    ///
    /// # Errors
    ///
    /// [`Problem::BadOverrides`] with the first fault.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        read(text).map_err(|JsonError { place, text }| Problem::BadOverrides { place, fault: text })
    }

    /// The part of the overrides that decides which overrides apply to a cluster.
    #[must_use]
    pub fn override_selectors(&self) -> &Arc<OverrideSelectors> {
        &self.override_selectors
    }

    /// The paths in the spec that the overrides `selected` set or remove, such as `limits.night`.
    #[must_use]
    pub fn places(&self, selected: &[usize]) -> BTreeSet<String> {
        let mut places = BTreeSet::new();
        for (_, patch) in self.selected(selected) {
            match patch {
                Patch::Merge(patch) => leaves(patch, "", &mut places),
                Patch::Json(patch) => places.extend(patch.places()),
            }
        }
        places
    }

    /// Applies the overrides `selected` to `spec`, and validates the result against `schema`.
    ///
    /// # Errors
    ///
    /// [`Problem::BadOverrides`] with the first error, at the override that caused it.
    pub fn patched(
        &self,
        mut spec: Value,
        selected: &[usize],
        schema: Option<&Schema>,
    ) -> Result<Value, Problem> {
        let mut moved = 0;
        for (index, patch) in self.selected(selected) {
            match patch {
                Patch::Merge(patch) => merge(&mut spec, patch),
                Patch::Json(patch) => patch.apply(&mut spec, &mut moved).map_err(|error| {
                    let OperationError { index: operation, text } = error;
                    Problem::BadOverrides { place: format!("[{index}].jsonPatch[{operation}]"), fault: text }
                })?,
            }
        }
        match schema.map(|schema| schema.check(&spec)) {
            Some(Err(fault)) => Err(self.blame(selected, &fault)),
            Some(Ok(())) | None => Ok(spec),
        }
    }

    fn selected(&self, selected: &[usize]) -> impl Iterator<Item = (usize, &Patch)> {
        selected.iter().filter_map(|&index| Some((index, self.patches.get(index)?)))
    }

    /// The problem for `fault`. It names the override whose patch contains most of the path of the fault. If there are
    /// several such overrides, it names the last one.
    fn blame(&self, selected: &[usize], fault: &schema::SchemaError) -> Problem {
        let missing = fault.missing.as_deref().map(Step::key);
        let steps: Vec<Step> = fault.path.iter().cloned().chain(missing).collect();
        let reached = self.selected(selected).map(|(index, patch)| match patch {
            Patch::Merge(patch) => (reach(patch, &steps), index, None),
            Patch::Json(patch) => {
                let reached = patch.reach(&steps);
                let operation = reached.map_or_else(String::new, |(_, operation)| format!("[{operation}]"));
                (reached.map_or(0, |(reached, _)| reached), index, Some(format!("jsonPatch{operation}")))
            }
        });
        let (reached, index, json_patch) = reached.max().unwrap_or_default();
        let reached = reached.min(fault.path.len());
        let (place_in_patch, is_whole_path) = match json_patch {
            Some(operation) => (operation, false),
            None => (format!("patch{}", place(&fault.path[..reached])), reached == fault.path.len()),
        };
        let of_spec = if is_whole_path { String::new() } else { format!("spec{}: ", place(&fault.path)) };
        Problem::BadOverrides { place: format!("[{index}].{place_in_patch}"), fault: of_spec + &fault.text }
    }
}

/// Collects the paths inside `patch` that are set or removed. `at` is the path of `patch` itself.
fn leaves(patch: &Value, at: &str, places: &mut BTreeSet<String>) {
    match patch {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(key, value)| leaves(value, &format!("{at}{}", Step::key(key)), places));
        }
        // An empty patch changes nothing. An empty object inside a patch may create an object.
        _ if at.is_empty() => {}
        _ => drop(places.insert(at.trim_start_matches('.').to_owned())),
    }
}

/// The number of leading `steps` that exist in `patch`.
fn reach(patch: &Value, steps: &[Step]) -> usize {
    let mut value = Some(patch);
    let next = |step: &&Step| {
        value = match (step, value) {
            (Step::Key(key), Some(Value::Object(fields))) => fields.get(key),
            (Step::Item(index), Some(Value::Array(items))) => items.get(*index),
            _ => None,
        };
        value.is_some()
    };
    steps.iter().take_while(next).count()
}

fn read(text: &str) -> Result<Overrides, JsonError> {
    let read = list(strict::parse(text)?, (LIMIT, "overrides"), one)?;
    let (mut override_selectors, mut patches) = (OverrideSelectors::default(), Vec::new());
    for Override { selector, bytes, patch } in read {
        override_selectors.overrides.push((selector, patch.bytes()));
        override_selectors.selectors += bytes;
        patches.push(patch);
    }
    Ok(Overrides { override_selectors: Arc::new(override_selectors), patches })
}

struct Override {
    selector: Selector,
    /// The length of the selector's text in bytes.
    bytes: usize,
    patch: Patch,
}

fn one(json: Json) -> Result<Override, JsonError> {
    let mut fields = object(json, &KEYS)?;
    let selector = match required(&mut fields, "clusterSelector")? {
        Json::Text(text) => selector::parse(&text)
            .map(|selector| (selector, text.len()))
            .map_err(|error| JsonError::new(error.to_string())),
        other => Err(JsonError::expected("a string", &other)),
    };
    let (selector, bytes) = selector.map_err(|fault| fault.within(&Step::key("clusterSelector")))?;
    let patch = match (fields.remove("patch"), fields.remove("jsonPatch")) {
        (Some(json), None) => {
            merge_patch(json).map(Patch::Merge).map_err(|fault| fault.within(&Step::key("patch")))?
        }
        (None, Some(json)) => {
            JsonPatch::read(json).map(Patch::Json).map_err(|fault| fault.within(&Step::key("jsonPatch")))?
        }
        (None, None) => return Err(JsonError::new("patch or jsonPatch is required")),
        (Some(_), Some(_)) => return Err(JsonError::new("patch and jsonPatch exclude each other")),
    };
    Ok(Override { selector, bytes, patch })
}

fn merge_patch(json: Json) -> Result<Value, JsonError> {
    if !matches!(json, Json::Object(_)) {
        return Err(JsonError::expected("an object", &json));
    }
    let mut patch = value(json)?;
    if let Some(key) = TARGETS.iter().find(|key| patch.get(key).is_some()) {
        return Err(JsonError::new("a patch cannot change the target references").within(&Step::key(key)));
    }
    if depth(&patch) > DEPTH_LIMIT {
        return Err(JsonError::new(format!("more than {DEPTH_LIMIT} nested lists and objects")));
    }
    normalize(&mut patch);
    Ok(patch)
}

fn value(json: Json) -> Result<Value, JsonError> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => value.into(),
        Json::Number(number) => number.into(),
        Json::Text(text) => text.into(),
        Json::List(items) => {
            let items = items.into_iter().enumerate();
            let items =
                items.map(|(index, json)| value(json).map_err(|fault| fault.within(&Step::Item(index))));
            items.collect::<Result<_, _>>()?
        }
        Json::Object(entries) => {
            let fields = distinct(entries)?.into_iter();
            let fields = fields.map(|(key, json)| {
                let value = value(json).map_err(|fault| fault.within(&Step::key(&key)))?;
                Ok((key, value))
            });
            fields.collect::<Result<_, _>>()?
        }
    })
}
