//! Overrides: where a policy's spec differs from cluster to cluster.
//!
//! ```text
//! [{"clusterSelector": "region=us", "patch": {"limits": {"a": {"rate": 5}}}}, …]
//! ```
//!
//! Each is a [JSON merge patch](https://www.rfc-editor.org/rfc/rfc7396) of the spec, and those whose selector matches
//! a cluster's labels are applied in the order of the list. Reading is strict, as for parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use json_patch::merge;
use kube::core::{Selector, SelectorExt};
use serde_json::Value;

use crate::Problem;
use policy_sync_api::json::step::{Step, place};
use policy_sync_api::json::tree::Json;
use policy_sync_api::json::written::{self, Fault, distinct, list, object, required};
use policy_sync_api::json::{DEPTH_LIMIT, depth, length, normalize};
use policy_sync_api::schema::{self, Schema};
use policy_sync_api::selector;

/// The most overrides of one policy: every one is held against every cluster.
pub const LIMIT: usize = 100;

/// What a policy targets decides where it is, and so is the same everywhere.
const TARGETS: [&str; 2] = ["targetRef", "targetRefs"];
const KEYS: [&str; 2] = ["clusterSelector", "patch"];

/// The overrides of a policy.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    choice: Arc<Choice>,
    patches: Vec<Value>,
}

/// Some of a policy's overrides, by their places in the list.
pub type Chosen = Vec<usize>;

/// Which of a policy's overrides a cluster gets, and how large they are.
#[derive(Debug, Default)]
pub struct Choice {
    /// The selector of each, and how many bytes its patch has.
    overrides: Vec<(Selector, usize)>,
    /// How many bytes the texts of the selectors have together.
    pub selectors: usize,
}

impl Choice {
    /// The overrides that a cluster with these labels gets.
    #[must_use]
    pub fn chosen(&self, labels: &BTreeMap<String, String>) -> Chosen {
        let matching =
            self.overrides.iter().enumerate().filter(|(_, (selector, _))| selector.matches(labels));
        matching.map(|(index, _)| index).collect()
    }

    /// How many bytes the patches of the overrides `chosen` have: they add no more than that to a spec.
    #[must_use]
    pub fn bytes(&self, chosen: &[usize]) -> usize {
        chosen.iter().filter_map(|&index| self.overrides.get(index)).map(|(_, bytes)| bytes).sum()
    }
}

impl Overrides {
    /// Reads the annotation.
    ///
    /// # Errors
    ///
    /// [`Problem::BadOverrides`] with the first fault.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        read(text).map_err(|Fault { place, text }| Problem::BadOverrides { place, fault: text })
    }

    /// Which of them a cluster gets.
    #[must_use]
    pub fn choice(&self) -> &Arc<Choice> {
        &self.choice
    }

    /// The places in the spec that the overrides `chosen` change: `limits.night`.
    #[must_use]
    pub fn places(&self, chosen: &[usize]) -> BTreeSet<String> {
        let mut places = BTreeSet::new();
        self.chosen(chosen).for_each(|(_, patch)| leaves(patch, "", &mut places));
        places
    }

    /// `spec` with the overrides `chosen`, which must then be as `schema` says.
    ///
    /// # Errors
    ///
    /// [`Problem::BadOverrides`] with the first fault, at the override that brought it in.
    pub fn patched(
        &self,
        mut spec: Value,
        chosen: &[usize],
        schema: Option<&Schema>,
    ) -> Result<Value, Problem> {
        self.chosen(chosen).for_each(|(_, patch)| merge(&mut spec, patch));
        match schema.map(|schema| schema.check(&spec)) {
            Some(Err(fault)) => Err(self.blame(chosen, &fault)),
            Some(Ok(())) | None => Ok(spec),
        }
    }

    fn chosen(&self, chosen: &[usize]) -> impl Iterator<Item = (usize, &Value)> {
        chosen.iter().filter_map(|&index| Some((index, self.patches.get(index)?)))
    }

    /// The problem that `fault` is, in the override that leads nearest to it, the last of several.
    fn blame(&self, chosen: &[usize], fault: &schema::Fault) -> Problem {
        let missing = fault.missing.as_deref().map(Step::key);
        let steps: Vec<Step> = fault.path.iter().cloned().chain(missing).collect();
        let reached = self.chosen(chosen).map(|(index, patch)| (reach(patch, &steps), index));
        let (reached, index) = reached.max().unwrap_or_default();
        let reached = reached.min(fault.path.len());
        let of_spec =
            if reached == fault.path.len() { String::new() } else { format!("spec{}: ", place(&fault.path)) };
        Problem::BadOverrides {
            place: format!("[{index}].patch{}", place(&fault.path[..reached])),
            fault: of_spec + &fault.text,
        }
    }
}

/// The places inside `patch`, which is at `at`, that are set or taken away.
fn leaves(patch: &Value, at: &str, places: &mut BTreeSet<String>) {
    match patch {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(key, value)| leaves(value, &format!("{at}{}", Step::key(key)), places));
        }
        // One that is empty changes nothing, but may make an object inside.
        _ if at.is_empty() => {}
        _ => drop(places.insert(at.trim_start_matches('.').to_owned())),
    }
}

/// How many of `steps` lead to something in `patch`.
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

fn read(text: &str) -> Result<Overrides, Fault> {
    let read = list(written::parse(text)?, (LIMIT, "overrides"), one)?;
    let (mut choice, mut patches) = (Choice::default(), Vec::new());
    for Override { selector, bytes, patch } in read {
        choice.overrides.push((selector, length(&patch)));
        choice.selectors += bytes;
        patches.push(patch);
    }
    Ok(Overrides { choice: Arc::new(choice), patches })
}

struct Override {
    selector: Selector,
    /// How many bytes the selector's text has.
    bytes: usize,
    patch: Value,
}

fn one(json: Json) -> Result<Override, Fault> {
    let mut fields = object(json, &KEYS)?;
    let [selector, patch] = KEYS.map(|key| required(&mut fields, key));
    let selector = match selector? {
        Json::Text(text) => selector::parse(&text)
            .map(|selector| (selector, text.len()))
            .map_err(|error| Fault::here(error.to_string())),
        other => Err(Fault::expected("a string", &other)),
    };
    let (selector, bytes) = selector.map_err(|fault| fault.under(&Step::key("clusterSelector")))?;
    let patch = self::patch(patch?).map_err(|fault| fault.under(&Step::key("patch")))?;
    Ok(Override { selector, bytes, patch })
}

fn patch(json: Json) -> Result<Value, Fault> {
    if !matches!(json, Json::Object(_)) {
        return Err(Fault::expected("an object", &json));
    }
    let mut patch = value(json)?;
    if let Some(key) = TARGETS.iter().find(|key| patch.get(key).is_some()) {
        return Err(Fault::here("a patch may not touch the target references").under(&Step::key(key)));
    }
    if depth(&patch) > DEPTH_LIMIT {
        return Err(Fault::here(format!("more than {DEPTH_LIMIT} lists and objects are inside each other")));
    }
    normalize(&mut patch);
    Ok(patch)
}

fn value(json: Json) -> Result<Value, Fault> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => value.into(),
        Json::Number(number) => number.into(),
        Json::Text(text) => text.into(),
        Json::List(items) => {
            let items = items.into_iter().enumerate();
            let items =
                items.map(|(index, json)| value(json).map_err(|fault| fault.under(&Step::Item(index))));
            items.collect::<Result<_, _>>()?
        }
        Json::Object(entries) => {
            let fields = distinct(entries)?.into_iter();
            let fields = fields.map(|(key, json)| {
                let value = value(json).map_err(|fault| fault.under(&Step::key(&key)))?;
                Ok((key, value))
            });
            fields.collect::<Result<_, _>>()?
        }
    })
}
