//! GatewayClass and Gateway of [Gateway API](https://gateway-api.sigs.k8s.io/reference/spec/), limited to the fields in
//! use.

mod certificates;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

pub use certificates::{ListenerSecret, listener_secrets};

/// The API group of Gateway API.
pub const GROUP: &str = "gateway.networking.k8s.io";
/// The API group of Gateway API's experimental kinds.
pub const EXPERIMENTAL_GROUP: &str = "gateway.networking.x-k8s.io";

/// The label on the CustomResourceDefinition of a policy kind. Its value defines how policies of the kind are merged
/// ([GEP-713](https://gateway-api.sigs.k8s.io/geps/gep-713/)).
pub const POLICY_LABEL: &str = "gateway.networking.k8s.io/policy";

/// Whether `label`, a value of [`POLICY_LABEL`], declares that policies of the kind are direct policies.
#[must_use]
pub fn is_direct(label: &str) -> bool {
    label.eq_ignore_ascii_case("direct")
}

/// The spec of a GatewayClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassSpec {
    /// The controller that implements the class.
    pub controller_name: String,
    /// The reference to the parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<ParametersReference>,
}

/// The spec of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewaySpec {
    /// The Gateway's GatewayClass.
    pub gateway_class_name: String,
}

/// A reference to the parameters of a GatewayClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParametersReference {
    /// The API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace, which a ConfigMap requires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A reference from a policy to its target, as in all versions of GEP-713.
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
    /// The target's namespace; `None` for the policy's namespace. Only some kinds of policies have the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The listener of a Gateway; `None` for all listeners.
    #[serde(default, rename = "sectionName", skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

/// An address type in a Gateway's status: an IP address on one cluster, `<cluster>/<address>`.
pub const MULTI_CLUSTER_IP_ADDRESS: &str = "kuadrant.io/MultiClusterIPAddress";
/// An address type in a Gateway's status: a host name on one cluster, `<cluster>/<name>`.
pub const MULTI_CLUSTER_HOSTNAME_ADDRESS: &str = "kuadrant.io/MultiClusterHostnameAddress";

/// The conditions of a Gateway that are synced.
pub const CONDITIONS: [&str; 2] = ["Accepted", "Programmed"];
/// The conditions of a listener that are synced.
pub const LISTENER_CONDITIONS: [&str; 4] = ["Accepted", "Conflicted", "Programmed", "ResolvedRefs"];

/// The maximum number of addresses in a Gateway's status (Gateway API).
pub const ADDRESSES_LIMIT: usize = 16;
/// The maximum number of listeners of a Gateway (Gateway API).
pub const LISTENERS_LIMIT: usize = 64;
/// The maximum number of route kinds in a listener's status (Gateway API).
pub const KINDS_LIMIT: usize = 8;
/// The maximum number of certificates of a listener (Gateway API).
pub const CERTIFICATES_LIMIT: usize = 64;

/// The status of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GatewayStatus {
    /// The conditions named in [`CONDITIONS`].
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// The addresses at which the Gateway is reachable.
    #[serde(default)]
    pub addresses: Vec<Address>,
    /// The status of each listener.
    #[serde(default)]
    pub listeners: Vec<ListenerStatus>,
}

/// An address of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The type of the value, for example `IPAddress`.
    #[serde(rename = "type")]
    pub address_type: String,
    /// The address.
    pub value: String,
}

/// The status of a listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerStatus {
    /// The listener's name.
    pub name: String,
    /// The number of attached routes.
    pub attached_routes: i32,
    /// The supported kinds of routes.
    #[serde(default)]
    pub supported_kinds: Vec<RouteKind>,
    /// The conditions named in [`LISTENER_CONDITIONS`].
    pub conditions: Vec<Condition>,
}

/// A kind of routes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteKind {
    /// The API group of the route kind.
    pub group: String,
    /// The kind, for example `HTTPRoute`.
    pub kind: String,
}
