//! Policies that tests ask.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::names::GroupResource;
use crate::api::rego_policy::Enforcement;
use crate::rego::bundle::Bundle;
use crate::rego::engine::Evaluator;
use crate::rego::module::{ModuleId, Text};
use crate::rego::snapshot::{Gates, Snapshot};

/// `texts`, each as strict as this, in modules whose names begin with `prefix`, with this `data`. They call pods so.
pub(super) fn in_force(prefix: &str, texts: &[&str], data: Value, enforcement: Enforcement) -> Snapshot {
    let id = |number: usize| ModuleId::new(&format!("{prefix}{number}.rego"));
    let texts: Vec<Text> = texts
        .iter()
        .enumerate()
        .map(|(number, text)| Text { id: id(number), text: (*text).into() })
        .collect();
    let lenient = texts.iter().map(|text| (text.id.clone(), enforcement)).collect();
    let engine =
        Evaluator::Embedded.engine(&Bundle::read(&texts).unwrap()).unwrap().with_data(data.into()).unwrap();
    let names = BTreeMap::from([(GroupResource::new("", "pods"), ["pods".to_owned()].into())]);
    Snapshot::new(engine, BTreeMap::new()).with_gates(Gates { names, lenient, ..Gates::default() })
}
