//! GatewayClass and Gateway of [Gateway API](https://gateway-api.sigs.k8s.io/reference/spec/), as far as they are read.

use serde::{Deserialize, Serialize};

/// The API group of Gateway API.
pub const GROUP: &str = "gateway.networking.k8s.io";

/// What is read of a GatewayClass's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassSpec {
    /// Who implements the class.
    pub controller_name: String,
    /// Where its parameters are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<ParametersReference>,
}

/// Where a class's parameters are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParametersReference {
    /// The API group, empty for core.
    #[serde(default)]
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace; a ConfigMap needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A reference from a policy to what it applies to, singular or plural, of any age of GEP-713.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetReference {
    /// The target's API group.
    #[serde(default)]
    pub group: String,
    /// The target's kind.
    #[serde(default)]
    pub kind: String,
    /// The target's name.
    #[serde(default)]
    pub name: String,
    /// The target's namespace, where the kind of policy has the field; otherwise the policy's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}
