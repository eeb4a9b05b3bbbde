//! RegoPolicy, this project's custom resource: a Rego policy as a Kubernetes object.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The API group of this project's kinds.
pub const GROUP: &str = "policysync.kuadrant.io";
/// The plural of [`RegoPolicy`].
pub const PLURAL: &str = "regopolicies";

/// The name of the CustomResourceDefinition of RegoPolicies.
#[must_use]
pub fn crd_name() -> String {
    format!("{PLURAL}.{GROUP}")
}

/// A Rego policy.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policysync.kuadrant.io",
    version = "v1alpha1",
    kind = "RegoPolicy",
    plural = "regopolicies",
    doc = "A Rego policy for the whole hub.",
    status = "RegoPolicyStatus",
    derive = "Default",
    derive = "PartialEq",
    category = "policy-sync",
    printcolumn = r#"{"name": "Enforcement", "type": "string", "jsonPath": ".spec.enforcement"}"#,
    printcolumn = r#"{"name": "Loaded", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Loaded')].status"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Loaded')].reason"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct RegoPolicySpec {
    /// The Rego module.
    #[schemars(length(max = 1_048_576))]
    pub rego: String,
    /// The effect of denials: `deny` rejects the request, `warn` warns the client, `dryrun` only counts and audits denials.
    #[serde(default)]
    pub enforcement: EnforcementAction,
}

/// The effect of denials.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum EnforcementAction {
    /// Denied requests are rejected.
    #[default]
    Deny,
    /// The client gets a warning.
    Warn,
    /// Denials are counted, and audits report them.
    Dryrun,
}

impl EnforcementAction {
    const ALL: [Self; 3] = [Self::Deny, Self::Warn, Self::Dryrun];

    /// The value in YAML.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Warn => "warn",
            Self::Dryrun => "dryrun",
        }
    }
}

impl fmt::Display for EnforcementAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EnforcementAction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|enforcement| enforcement.as_str() == text);
        known.ok_or_else(|| format!("expected deny, warn or dryrun, found {text:?}"))
    }
}

/// Whether the policy is in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegoPolicyStatus {
    /// The condition `Loaded`: the policy is in force. If not, the reason is `Pending` or `Refused`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enforcement_has_three_values() {
        for enforcement in EnforcementAction::ALL {
            assert_eq!(enforcement.as_str().parse(), Ok(enforcement));
        }
        let error = "Warn".parse::<EnforcementAction>().unwrap_err();
        assert_eq!(error, "expected deny, warn or dryrun, found \"Warn\"");
    }
}
