//! Objects that carry policies: ConfigMaps of the policy namespace, as kube-mgmt has them, and RegoPolicies.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fault::Fault;
use super::module::{ModuleId, Text};
use crate::api::names::ObjectKey;
use crate::api::object::HubObject;

/// Of a ConfigMap each key of which is a module: this label, with this value.
pub const POLICY: (&str, &str) = ("openpolicyagent.org/policy", "rego");
/// Of a ConfigMap each key of which is JSON, in `data.<namespace>.<name>.<key>`.
pub const DATA: (&str, &str) = ("openpolicyagent.org/data", "opa");
/// The end of a key that is a module without that label: `kubectl create configmap --from-file` sets none.
const ENDING: &str = ".rego";
/// The group of RegoPolicies.
const GROUP: &str = "policysync.kuadrant.io/";

/// What an object carries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried {
    /// Modules.
    pub texts: Vec<Text>,
    /// Data, by namespace, name and key.
    pub data: BTreeMap<[String; 3], Value>,
    /// What does not count, and why.
    pub faults: Vec<Fault>,
}

impl Carried {
    /// What `object` carries, `None` where it is of another kind, or a ConfigMap with nothing of this.
    #[must_use]
    pub fn by(object: &HubObject) -> Option<Self> {
        match object.kind.as_str() {
            "ConfigMap" if object.api_version == "v1" => Self::by_config_map(object),
            "RegoPolicy" if object.api_version.starts_with(GROUP) => Some(Self::by_rego_policy(object)),
            _ => None,
        }
    }

    fn by_config_map(object: &HubObject) -> Option<Self> {
        let has = |(label, value): (&str, &str)| {
            object.metadata.labels.get(label).is_some_and(|found| found == value)
        };
        let (is_policy, is_data) = (has(POLICY), has(DATA));
        let ObjectKey { namespace, name } = object.key();
        let mut carried = Self::default();
        for (key, text) in object.data_as::<BTreeMap<String, String>>() {
            let id = ModuleId::new(&format!("{namespace}/{name}/{key}"));
            if is_policy || key.ends_with(ENDING) {
                carried.texts.push(Text { id, text: text.into() });
            } else if is_data {
                match serde_json::from_str(&text) {
                    Ok(value) => {
                        drop(carried.data.insert([namespace.to_string(), name.to_string(), key], value))
                    }
                    Err(error) => carried.faults.push(Fault::new(&id, None, format!("not JSON: {error}"))),
                }
            }
        }
        (is_policy || is_data || !carried.texts.is_empty()).then_some(carried)
    }

    fn by_rego_policy(object: &HubObject) -> Self {
        let id = ModuleId::new(&format!("regopolicies/{}", object.metadata.name));
        let fault = match object.spec_value().get("rego") {
            Some(Value::String(text)) => {
                return Self { texts: vec![Text { id, text: text.as_str().into() }], ..Self::default() };
            }
            Some(_) => "spec.rego: expected a text",
            None => "spec.rego is required",
        };
        Self { faults: vec![Fault::new(&id, None, fault)], ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
