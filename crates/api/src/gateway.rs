//! GatewayClass and Gateway of [Gateway API](https://gateway-api.sigs.k8s.io/reference/spec/), as far as they are read and
//! written.

mod certificates;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

pub use certificates::{NamedSecret, named_secrets};

/// The API group of Gateway API.
pub const GROUP: &str = "gateway.networking.k8s.io";
/// The group of Gateway API's experimental kinds.
pub const EXPERIMENTAL_GROUP: &str = "gateway.networking.x-k8s.io";

/// The label of the definition of a kind of policies that says how these are merged, by
/// [GEP-713](https://gateway-api.sigs.k8s.io/geps/gep-713/).
pub const POLICY_LABEL: &str = "gateway.networking.k8s.io/policy";

/// Whether [`POLICY_LABEL`] says that the policies are direct.
#[must_use]
pub fn is_direct(label: &str) -> bool {
    label.eq_ignore_ascii_case("direct")
}

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

/// What is read of a Gateway's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewaySpec {
    /// Its GatewayClass.
    pub gateway_class_name: String,
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
    /// The listener of a Gateway; all of them if there is none.
    #[serde(default, rename = "sectionName", skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

/// On a Gateway's status: an IP address of one cluster, `<cluster>/<address>`.
pub const MULTI_CLUSTER_IP_ADDRESS: &str = "kuadrant.io/MultiClusterIPAddress";
/// On a Gateway's status: a host name of one cluster, `<cluster>/<name>`.
pub const MULTI_CLUSTER_HOSTNAME_ADDRESS: &str = "kuadrant.io/MultiClusterHostnameAddress";

/// The conditions of a Gateway that are read and written.
pub const CONDITIONS: [&str; 2] = ["Accepted", "Programmed"];
/// The conditions of a Gateway's listener that are read and written.
pub const LISTENER_CONDITIONS: [&str; 4] = ["Accepted", "Conflicted", "Programmed", "ResolvedRefs"];

/// The most addresses that a Gateway's status holds.
pub const ADDRESSES_LIMIT: usize = 16;
/// The most listeners that a Gateway has, in its spec and in its status.
pub const LISTENERS_LIMIT: usize = 64;
/// The most kinds of routes that the status of a listener holds.
pub const KINDS_LIMIT: usize = 8;
/// The most certificates that a listener refers to.
pub const CERTIFICATES_LIMIT: usize = 64;

/// The status of a Gateway, as far as it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GatewayStatus {
    /// [`CONDITIONS`].
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Where it is reached.
    #[serde(default)]
    pub addresses: Vec<Address>,
    /// What its listeners say.
    #[serde(default)]
    pub listeners: Vec<ListenerStatus>,
}

/// Where a Gateway is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// What the value is.
    #[serde(rename = "type")]
    pub address_type: String,
    /// The address.
    pub value: String,
}

/// What a listener of a Gateway says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerStatus {
    /// Its name.
    pub name: String,
    /// How many routes are attached to it.
    pub attached_routes: i32,
    /// The kinds of routes that it supports.
    #[serde(default)]
    pub supported_kinds: Vec<RouteKind>,
    /// [`LISTENER_CONDITIONS`].
    pub conditions: Vec<Condition>,
}

/// A kind of routes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteKind {
    /// Its API group.
    pub group: String,
    /// Its name in objects.
    pub kind: String,
}
