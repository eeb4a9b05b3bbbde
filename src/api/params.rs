//! The parameters of a GatewayClass: the JSON under the key `params` of the ConfigMap that `spec.parametersRef` names.
//!
//! Reading is strict: what this build does not know, it does not guess at. An error names the place
//! (`policiesToSync[1].version`) and the fault, and invalid parameters change nothing on the spokes.

pub mod path;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::GroupVersionResource;
use path::StatusPath;

/// The key of the ConfigMap that holds the parameters.
pub const KEY: &str = "params";
/// The most kinds that one class may sync.
pub const MAX_POLICIES: usize = 100;

/// The parameters of a GatewayClass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Params {
    /// The GatewayClass of the copies on the spokes.
    pub downstream_class: String,
    /// The kinds of policies to sync.
    #[schemars(length(max = 100))]
    pub policies_to_sync: Vec<PolicyToSync>,
    /// Whether the TLS Secrets that listeners name travel with their Gateway.
    pub tls_secrets: TlsSecrets,
    /// Who wins where the spoke's people wrote an object of the same name, or edited a copy.
    pub conflicts: Conflicts,
    /// How long a Gateway waits for its policies, in seconds.
    pub policy_wait_seconds: u32,
    /// What happens to a Gateway that has waited that long.
    pub policy_wait_action: PolicyWaitAction,
    /// Labels and annotations that do not travel; `*` stands for any text.
    pub metadata_to_skip: Vec<String>,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            downstream_class: "istio".into(),
            policies_to_sync: Vec::new(),
            tls_secrets: TlsSecrets::None,
            conflicts: Conflicts::Keep,
            policy_wait_seconds: 10,
            policy_wait_action: PolicyWaitAction::Hold,
            metadata_to_skip: Vec::new(),
        }
    }
}

/// A kind of policies to sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyToSync {
    /// The API group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name, lowercase.
    pub resource: String,
    /// Values of the copies' objects to show on the hub.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status_fields: Vec<StatusField>,
}

impl PolicyToSync {
    /// The kind.
    #[must_use]
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(&self.group, &self.version, &self.resource)
    }
}

/// A value of a copy to show on the hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusField {
    /// Its name there. Names that start with `_` are the controller's own.
    pub name: String,
    /// Where it is, as in `.status.observedGeneration`.
    pub path: String,
}

/// Whether TLS Secrets travel with their Gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TlsSecrets {
    /// They stay on the hub.
    None,
    /// They travel.
    Copy,
}

/// Who wins on the spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Conflicts {
    /// The spoke's people.
    Keep,
    /// The hub.
    Overwrite,
}

/// What happens to a Gateway that has waited for its policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PolicyWaitAction {
    /// It waits on.
    Hold,
    /// It serves without them.
    Serve,
}

/// Why parameters are invalid: the place, and the fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{fault}", if place.is_empty() { String::new() } else { format!("{place}: ") })]
pub struct ParamsError {
    /// `policiesToSync[1].version`; empty for the whole text.
    pub place: String,
    /// `expected a string, found 2`.
    pub fault: String,
}

impl Params {
    /// Reads parameters.
    ///
    /// # Errors
    ///
    /// The first fault of the text, with its place.
    pub fn parse(text: &str) -> Result<Self, ParamsError> {
        let mut json = serde_json::Deserializer::from_str(text);
        let wire: Wire = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let place = error.path().to_string();
            ParamsError {
                place: if place == "." { String::new() } else { place },
                fault: error.inner().to_string(),
            }
        })?;
        json.end().map_err(|error| ParamsError { place: String::new(), fault: error.to_string() })?;
        let params = wire.into_params()?;
        params.validate()?;
        Ok(params)
    }

    fn validate(&self) -> Result<(), ParamsError> {
        let fault = |place: String, fault: &str| Err(ParamsError { place, fault: fault.to_owned() });
        if self.downstream_class.is_empty() {
            return fault("downstreamClass".into(), "must not be empty");
        }
        if self.policies_to_sync.len() > MAX_POLICIES {
            let found = self.policies_to_sync.len();
            return fault(
                "policiesToSync".into(),
                &format!("has {found} kinds, at most {MAX_POLICIES} are allowed"),
            );
        }
        let mut kinds = BTreeSet::new();
        for (index, policy) in self.policies_to_sync.iter().enumerate() {
            let place = format!("policiesToSync[{index}]");
            for (field, value) in
                [("group", &policy.group), ("version", &policy.version), ("resource", &policy.resource)]
            {
                if value.is_empty() {
                    return fault(format!("{place}.{field}"), "must not be empty");
                }
                if !value.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c)) {
                    return fault(format!("{place}.{field}"), &format!("{value:?} is not a lowercase name"));
                }
            }
            if !kinds.insert(policy.gvr()) {
                return fault(place, &format!("{} is listed twice", policy.gvr()));
            }
            validate_fields(&place, &policy.status_fields)?;
        }
        Ok(())
    }
}

fn validate_fields(policy: &str, fields: &[StatusField]) -> Result<(), ParamsError> {
    let mut names = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let place = format!("{policy}.statusFields[{index}]");
        let name_fault = if field.name.is_empty() {
            Some("must not be empty".to_owned())
        } else if field.name.starts_with('_') {
            Some("must not start with `_`: such names are the controller's own".to_owned())
        } else if !names.insert(&field.name) {
            Some(format!("{:?} is used twice", field.name))
        } else {
            None
        };
        if let Some(fault) = name_fault {
            return Err(ParamsError { place: format!("{place}.name"), fault });
        }
        if let Err(error) = StatusPath::parse(&field.path) {
            return Err(ParamsError { place: format!("{place}.path"), fault: error.to_string() });
        }
    }
    Ok(())
}

/// The parameters as they are written, with the old name of `policiesToSync`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    downstream_class: Option<String>,
    policies_to_sync: Option<Vec<PolicyToSync>>,
    experimental_policy_sync: Option<Vec<PolicyToSync>>,
    tls_secrets: Option<TlsSecrets>,
    conflicts: Option<Conflicts>,
    policy_wait_seconds: Option<u32>,
    policy_wait_action: Option<PolicyWaitAction>,
    metadata_to_skip: Option<Vec<String>>,
}

impl Wire {
    fn into_params(self) -> Result<Params, ParamsError> {
        let policies_to_sync = match (self.policies_to_sync, self.experimental_policy_sync) {
            (Some(_), Some(_)) => {
                return Err(ParamsError {
                    place: "experimentalPolicySync".into(),
                    fault: "is an old name of policiesToSync: only one of them may be there".into(),
                });
            }
            (policies, old_name) => policies.or(old_name).unwrap_or_default(),
        };
        let default = Params::default();
        Ok(Params {
            downstream_class: self.downstream_class.unwrap_or(default.downstream_class),
            policies_to_sync,
            tls_secrets: self.tls_secrets.unwrap_or(default.tls_secrets),
            conflicts: self.conflicts.unwrap_or(default.conflicts),
            policy_wait_seconds: self.policy_wait_seconds.unwrap_or(default.policy_wait_seconds),
            policy_wait_action: self.policy_wait_action.unwrap_or(default.policy_wait_action),
            metadata_to_skip: self.metadata_to_skip.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests;
