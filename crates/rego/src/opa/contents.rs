//! The desired contents of OPA, and the differences between two versions of the contents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regorus::Value;
use serde_json::{Value as Json, json};

use super::installed;
use crate::bundle::Bundle;
use crate::module::{ModuleId, Text};
use policy_sync_api::json::{Hash, pointer_token};

/// The prefix of this project's modules in OPA. Other modules are not changed.
pub(super) const PREFIX: &str = "policysync/";
/// The depth to which data is compared: `kubernetes`, a plural, a namespace and a name.
const DEPTH: usize = 4;

/// Modules in the form for OPA, and data.
#[derive(Clone, Debug, PartialEq)]
pub struct OpaContents {
    modules: Arc<BTreeMap<ModuleId, Arc<str>>>,
    /// The calls in the [proof module](super::installed).
    calls: Arc<BTreeSet<String>>,
    data: Value,
    revision: Arc<str>,
}

/// Modules to delete and to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ModuleDiff {
    pub(super) deleted: BTreeSet<ModuleId>,
    pub(super) written: BTreeMap<ModuleId, Arc<str>>,
}

impl OpaContents {
    /// The modules of `bundle`, each with the [function](super::installed) that proves its presence, and `data`.
    #[must_use]
    pub(super) fn new(bundle: &Bundle, data: Value) -> Self {
        let with_function = |text: &Text| installed::with_function(&text.id, &text.text).into();
        let texts = bundle.for_opa();
        let modules: BTreeMap<_, _> =
            texts.iter().map(|text| (text.id.clone(), with_function(text))).collect();
        let calls = bundle.modules().map(|module| installed::call(module.id(), module.path())).collect();
        let revision = Hash::of_text(&json!(modules).to_string()).to_string();
        Self { modules: Arc::new(modules), calls: Arc::new(calls), data, revision: revision.into() }
    }

    /// Contents with the same modules and this `data`.
    #[must_use]
    pub(super) fn with_data(&self, data: Value) -> Self {
        Self { data, ..self.clone() }
    }

    /// A hash of the modules.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The modules in the form for OPA, by their ids.
    #[must_use]
    pub(super) fn modules(&self) -> &BTreeMap<ModuleId, Arc<str>> {
        &self.modules
    }

    /// The calls in the [proof module](super::installed).
    #[must_use]
    pub(super) fn calls(&self) -> &BTreeSet<String> {
        &self.calls
    }

    /// The text of each of this project's policies, by its id in OPA.
    #[must_use]
    pub fn policies(&self) -> BTreeMap<String, Arc<str>> {
        let of = |(id, text): (&ModuleId, &Arc<str>)| (format!("{PREFIX}{}", id.as_str()), text.clone());
        let mut policies: BTreeMap<_, _> = self.modules.iter().map(of).collect();
        policies.insert(format!("{PREFIX}{}", installed::ID), installed::module(self.calls()).into());
        policies
    }

    /// The data, by the names directly below `data`.
    pub(super) fn roots(&self) -> impl Iterator<Item = (&str, &Value)> {
        let fields = self.data.as_object().into_iter().flat_map(|fields| fields.iter());
        fields.filter_map(|(name, value)| Some((name.as_string().ok()?.as_ref(), value)))
    }

    /// The names directly below `data` that belong to this project.
    #[must_use]
    pub(super) fn root_names(&self) -> BTreeSet<&str> {
        self.roots().map(|(name, _)| name).collect()
    }

    /// The changes of modules from `before` to these contents.
    #[must_use]
    pub(super) fn module_diff(&self, before: &Self) -> ModuleDiff {
        if Arc::ptr_eq(&self.modules, &before.modules) {
            return ModuleDiff::default();
        }
        let deleted = before.modules.keys().filter(|id| !self.modules.contains_key(*id)).cloned().collect();
        let differs = |(id, text): &(&ModuleId, &Arc<str>)| before.modules.get(*id) != Some(text);
        let written =
            self.modules.iter().filter(differs).map(|(id, text)| (id.clone(), text.clone())).collect();
        ModuleDiff { deleted, written }
    }

    /// The changes of data from `before` to these contents, as a JSON Patch of `data`.
    #[must_use]
    pub(super) fn data_patch(&self, before: &Self) -> Vec<Json> {
        let mut patch = Vec::new();
        add_differences(&before.data, &self.data, &mut String::new(), DEPTH, &mut patch);
        patch
    }
}

impl ModuleDiff {
    pub(super) fn count(&self) -> usize {
        self.deleted.len() + self.written.len()
    }
}

fn add_differences(before: &Value, after: &Value, path: &mut String, depth: usize, patch: &mut Vec<Json>) {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        if before != after {
            patch.push(json!({"op": "add", "path": path, "value": after}));
        }
        return;
    };
    // Unchanged objects share memory, so they need no comparison.
    if Arc::ptr_eq(old, new) {
        return;
    }
    if depth == 0 {
        if old != new {
            patch.push(json!({"op": "add", "path": path, "value": after}));
        }
        return;
    }
    let length = path.len();
    let at = |key: &Value, path: &mut String| {
        path.truncate(length);
        path.push('/');
        path.push_str(&pointer_token(key.as_string().map(|key| &**key).unwrap_or_default()));
    };
    for (key, _) in old.iter().filter(|(key, _)| !new.contains_key(key)) {
        at(key, path);
        patch.push(json!({"op": "remove", "path": path}));
    }
    for (key, value) in new.iter() {
        at(key, path);
        match old.get(key) {
            Some(before) => add_differences(before, value, path, depth - 1, patch),
            None => patch.push(json!({"op": "add", "path": path, "value": value})),
        }
    }
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(texts: &[(&str, &str)], data: Json) -> OpaContents {
        let text = |(id, text): &(&str, &str)| Text { id: ModuleId::new(id), text: (*text).into() };
        let texts = texts.iter().map(text).collect::<Vec<_>>();
        OpaContents::new(&Bundle::read(&texts).unwrap(), data.into())
    }

    #[test]
    fn patch_transforms_the_previous_data() {
        let pods = |pods: Json| json!({"kubernetes": {"pods": pods}});
        let steps = [
            json!({}),
            pods(json!({})),
            pods(json!({"shop": {"a": {"spec": {"x": 1}}, "b": {"spec": 2}}})),
            pods(json!({"shop": {"a": {"spec": {"x": 2}}}, "other/~": {"a": {}}})),
            json!({"kubernetes": {"pods": {"shop": {"a": {"spec": {"x": 2}}}}, "nodes": {"n": {"status": {"a": [1]}}}},
                "policies": {"limits": {"a.json": [1, 2]}}}),
            json!({"kubernetes": {"nodes": {"n": {"status": {"a": [2]}}}}, "policies": {"limits": {"a.json": 1}}}),
            json!({"kubernetes": {}}),
        ];
        for pair in steps.windows(2) {
            let (before, after) = (contents(&[], pair[0].clone()), contents(&[], pair[1].clone()));
            let patch = after.data_patch(&before);
            let mut patched = pair[0].clone();
            let operations: json_patch::Patch = serde_json::from_value(json!(patch)).unwrap();
            json_patch::patch(&mut patched, &operations).unwrap();
            assert_eq!(patched, pair[1], "{patch:?}");
        }
        let (before, after) = (contents(&[], steps[2].clone()), contents(&[], steps[3].clone()));
        let paths: Vec<String> =
            after.data_patch(&before).iter().map(|step| format!("{} {}", step["op"], step["path"])).collect();
        assert_eq!(
            paths,
            [
                r#""add" "/kubernetes/pods/other~1~0""#,
                r#""remove" "/kubernetes/pods/shop/b""#,
                r#""add" "/kubernetes/pods/shop/a""#,
            ],
        );
        assert!(after.data_patch(&after.clone()).is_empty());
    }

    #[test]
    fn revision_depends_on_modules_and_not_on_data() {
        let one = contents(&[("a", "package a")], json!({}));
        assert_eq!(one.revision(), one.with_data(json!({"a": 1}).into()).revision());
        for other in [
            contents(&[("a", "package b")], json!({})),
            contents(&[("b", "package a")], json!({})),
            contents(&[], json!({})),
        ] {
            assert_ne!(one.revision(), other.revision());
        }
        let now = contents(&[("b", "package b"), ("c", "package c2")], json!({}));
        let before = contents(&[("a", "package a"), ("b", "package b"), ("c", "package c")], json!({}));
        let differing = now.module_diff(&before);
        assert_eq!(differing.deleted, BTreeSet::from([ModuleId::new("a")]));
        assert_eq!(differing.written.keys().collect::<Vec<_>>(), [&ModuleId::new("c")]);
        assert_eq!(now.module_diff(&now.clone()).count(), 0);
    }
}
