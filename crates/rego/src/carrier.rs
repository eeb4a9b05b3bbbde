//! Objects that carry Rego policies: ConfigMaps in the policy namespace, in the format of kube-mgmt, and RegoPolicies.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fault::Fault;
use super::module::{ModuleId, Text};
use policy_sync_api::names::ObjectKey;
use policy_sync_api::object::HubObject;
use policy_sync_api::rego_policy::{EnforcementAction, GROUP};

/// The label, with its value, of a ConfigMap in which each key is a module.
pub const POLICY_LABEL: (&str, &str) = ("openpolicyagent.org/policy", "rego");
/// The label, with its value, of a ConfigMap in which each key is a JSON document. The document is loaded as
/// `data.<namespace>.<name>.<key>`.
pub const DATA_LABEL: (&str, &str) = ("openpolicyagent.org/data", "opa");
/// The annotation of a ConfigMap with modules that sets the effect of their denials: `deny`, `warn` or `dryrun`.
pub const ENFORCEMENT: &str = "kuadrant.io/enforcement";
/// The suffix of ConfigMap keys that are modules even without [`POLICY_LABEL`], because
/// `kubectl create configmap --from-file` sets no labels.
const ENDING: &str = ".rego";

/// The modules and data in an object.
#[derive(Clone, Debug, PartialEq)]
pub struct CarrierContents {
    /// The modules, including [unreadable](Self::fault_of) ones.
    pub texts: Vec<Text>,
    /// Data by namespace, name and key.
    pub data: BTreeMap<[String; 3], regorus::Value>,
    /// The parts that cannot be used, with the reasons.
    pub faults: Vec<Fault>,
    /// The keys that are ignored, with the reasons.
    pub ignored: Vec<Fault>,
    /// The effect of denials, or the reason why the annotation for it is invalid.
    pub enforcement: Result<EnforcementAction, String>,
}

impl Default for CarrierContents {
    fn default() -> Self {
        let (texts, data, faults, ignored) = Default::default();
        Self { texts, data, faults, ignored, enforcement: Ok(EnforcementAction::default()) }
    }
}

impl CarrierContents {
    /// The modules and data in `object`. `None` for kinds that carry no policies, and for ConfigMaps without modules
    /// and data.
    #[must_use]
    pub fn from_object(object: &HubObject) -> Option<Self> {
        match object.kind.as_str() {
            "ConfigMap" if object.api_version == "v1" => Self::from_config_map(object),
            "RegoPolicy" if group_of(object) == GROUP => Some(Self::from_rego_policy(object)),
            _ => None,
        }
    }

    /// If data is not valid JSON, replaces it by the data of the same key in `before`.
    pub fn keep_last_valid_data(&mut self, before: &Self) {
        for (path, value) in &before.data {
            let id = ModuleId::new(&path.join("/"));
            if !self.data.contains_key(path) && self.fault_of(&id).is_some() {
                self.data.insert(path.clone(), value.clone());
            }
        }
    }

    fn from_config_map(object: &HubObject) -> Option<Self> {
        let has = |(label, value): (&str, &str)| {
            object.metadata.labels.get(label).is_some_and(|found| found == value)
        };
        let (is_policy, is_data) = (has(POLICY_LABEL), has(DATA_LABEL));
        let ObjectKey { namespace, name } = object.key();
        let mut carried = Self::default();
        if let Some(text) = object.metadata.annotations.get(ENFORCEMENT) {
            let fault = |fault| format!("annotation {ENFORCEMENT}: {fault}");
            carried.enforcement = text.parse().map_err(fault);
        }
        let id = |key: &str| ModuleId::new(&format!("{namespace}/{name}/{key}"));
        for key in object.binary_keys() {
            if is_policy || key.ends_with(ENDING) {
                carried.add_unreadable(id(&key), "is binary: expected text");
            } else if is_data {
                carried.faults.push(Fault::new(&id(&key), None, "is binary: expected JSON"));
            }
        }
        for (key, text) in object.data_as::<BTreeMap<String, String>>() {
            let id = id(&key);
            if is_policy || key.ends_with(ENDING) {
                carried.texts.push(Text { id, text: text.into() });
            } else if is_data {
                match serde_json::from_str(&text) {
                    Ok::<Value, _>(value) => {
                        let value = value.into();
                        drop(carried.data.insert([namespace.to_string(), name.to_string(), key], value))
                    }
                    Err(error) => carried.faults.push(Fault::new(&id, None, format!("not JSON: {error}"))),
                }
            } else {
                let label = format!("{}: {}", POLICY_LABEL.0, POLICY_LABEL.1);
                let text = format!("is ignored: it does not end in {ENDING}, and there is no label {label}");
                carried.ignored.push(Fault::new(&id, None, text));
            }
        }
        let carries = is_policy || is_data || !carried.texts.is_empty() || !carried.faults.is_empty();
        carries.then_some(carried)
    }

    fn from_rego_policy(object: &HubObject) -> Self {
        let id = ModuleId::new(&format!("regopolicies/{}", object.metadata.name));
        let spec = object.spec_value();
        let enforcement = match spec.get("enforcement") {
            None => Ok(EnforcementAction::default()),
            Some(word) => {
                let word = word.as_str().map_or_else(|| word.to_string(), str::to_owned);
                word.parse().map_err(|fault| format!("spec.enforcement: {fault}"))
            }
        };
        let fault = match spec.get("rego") {
            Some(Value::String(text)) => {
                let texts = vec![Text { id, text: text.as_str().into() }];
                return Self { texts, enforcement, ..Self::default() };
            }
            Some(_) => "spec.rego: expected a string",
            None => "spec.rego is required",
        };
        let mut carried = Self { enforcement, ..Self::default() };
        carried.add_unreadable(id, fault);
        carried
    }

    /// Adds a module whose text cannot be read, with an empty text. `fault` is the reason.
    fn add_unreadable(&mut self, id: ModuleId, fault: &str) {
        self.faults.push(Fault::new(&id, None, fault));
        self.texts.push(Text { id, text: "".into() });
    }

    /// The reason why the text of a module cannot be read; `None` if it can.
    #[must_use]
    pub fn fault_of(&self, id: &ModuleId) -> Option<&Fault> {
        self.faults.iter().find(|fault| fault.module == *id)
    }
}

fn group_of(object: &HubObject) -> &str {
    object.api_version.split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
