//! Newtypes for names, so that the compiler rejects a name of the wrong type.

use std::borrow::Borrow;
use std::fmt;
use std::sync::{Arc, LazyLock};

use kube::core::{ApiResource, GroupVersionKind};
use serde::{Deserialize, Serialize};

use super::json::Hash;
use super::syntax::{LABEL_LIMIT, is_dns_label};

/// The placeholder for a cluster's name in messages and object names.
pub const CLUSTER_PLACEHOLDER: &str = "<cluster>";

/// The name of a ManagedCluster, which is also the name of its namespace on the hub.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterName(pub Arc<str>);

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ClusterName {
    /// Accepts only a DNS label, as Kubernetes requires. The name becomes a namespace in request paths, where an
    /// invalid name could change the path.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        is_dns_label(name).then(|| Self::from(name))
    }
}

/// Allows lookups by `&str`.
impl Borrow<str> for ClusterName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ClusterName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

/// A namespace and a name in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of `namespace/name`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

static GATEWAYS: LazyLock<GroupResource> = LazyLock::new(GroupResource::gateways);

/// A resource by group and plural, without a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The plural.
    pub resource: Arc<str>,
}

impl GroupResource {
    /// The kind `resource` of `group`.
    #[must_use]
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// Whether the plural that is guessed from `kind`, for example by adding `s`, is the plural of this resource.
    #[must_use]
    pub fn is_plural_of(&self, kind: &str) -> bool {
        ApiResource::from_gvk(&GroupVersionKind::gvk(&self.group, "", kind)).plural == *self.resource
    }

    /// Gateways of Gateway API.
    #[must_use]
    pub fn gateways() -> Self {
        Self::new(super::gateway::GROUP, "gateways")
    }

    /// ReferenceGrants of Gateway API.
    #[must_use]
    pub fn reference_grants() -> Self {
        Self::new(super::gateway::GROUP, "referencegrants")
    }

    /// Namespaces of the core group.
    #[must_use]
    pub fn namespaces() -> Self {
        Self::new("", "namespaces")
    }

    /// Secrets of the core group.
    #[must_use]
    pub fn secrets() -> Self {
        Self::new("", "secrets")
    }
}

impl fmt::Display for GroupResource {
    /// `resource.group`, as in the name of a CustomResourceDefinition; for the core group `resource`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.group {
            "" => f.write_str(&self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

/// A resource in one version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    /// The resource.
    pub kind: GroupResource,
    /// The version.
    pub version: Arc<str>,
}

impl GroupVersionResource {
    /// The version `version` of the kind `resource` of `group`.
    #[must_use]
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        Self { kind: GroupResource::new(group, resource), version: version.into() }
    }

    /// CustomResourceDefinitions.
    #[must_use]
    pub fn definitions() -> Self {
        Self::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    }

    /// `group/version`; for the core group `version`.
    #[must_use]
    pub fn api_version(&self) -> String {
        match &*self.kind.group {
            "" => self.version.to_string(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The request path of the objects in `namespace`. An empty namespace means all namespaces, or a cluster-scoped
    /// resource.
    #[must_use]
    pub fn path(&self, namespace: &str) -> String {
        let (group, version, resource) = (&self.kind.group, &self.version, &self.kind.resource);
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        if namespace.is_empty() {
            format!("{root}/{resource}")
        } else {
            format!("{root}/namespaces/{namespace}/{resource}")
        }
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version(), self.kind.resource)
    }
}

/// The hub object from which a work is made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// A Gateway.
    Gateway(ObjectKey),
    /// An object of another kind: a policy, or a resource that is synced unchanged.
    Object(GroupResource, ObjectKey),
}

/// The maximum length of [`Origin`] as text, in bytes: resource and namespace have at most 63 bytes, group and name
/// 253.
const ORIGIN_LIMIT: usize = 2 * 63 + 2 * 253 + "./".len() + "/".len();

impl Origin {
    /// The object `object` of `kind`.
    #[must_use]
    pub fn new(kind: GroupResource, object: ObjectKey) -> Self {
        if kind == *GATEWAYS { Self::Gateway(object) } else { Self::Object(kind, object) }
    }

    /// The object `namespace/name` of the kind `resource` of `group`.
    #[must_use]
    pub fn named(group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Self::new(GroupResource::new(group, resource), ObjectKey::new(namespace, name))
    }

    /// The object's kind.
    #[must_use]
    pub fn kind(&self) -> &GroupResource {
        match self {
            Self::Gateway(_) => &GATEWAYS,
            Self::Object(kind, _) => kind,
        }
    }

    /// The object's namespace and name.
    #[must_use]
    pub fn object(&self) -> &ObjectKey {
        match self {
            Self::Gateway(object) | Self::Object(_, object) => object,
        }
    }

    /// The Gateway, if the origin is a Gateway.
    #[must_use]
    pub fn as_gateway(&self) -> Option<&ObjectKey> {
        match self {
            Self::Gateway(object) => Some(object),
            Self::Object(..) => None,
        }
    }

    /// Parses `<resource>.<group>/<namespace>/<name>`; for the core group `<resource>/<namespace>/<name>`. Returns
    /// `None` for other texts, and for texts that are longer than the API allows.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > ORIGIN_LIMIT {
            return None;
        }
        let mut parts = text.split('/');
        let (kind, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
        let (resource, group) = match kind.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (kind, ""),
        };
        let complete = [resource, namespace, name].iter().all(|part| !part.is_empty());
        (complete && parts.next().is_none()).then(|| Self::named(group, resource, namespace, name))
    }
}

impl fmt::Display for Origin {
    /// `<resource>.<group>/<namespace>/<name>`, the value of the annotation `kuadrant.io/parent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind(), self.object())
    }
}

/// The controller's identity. Works, field managers and roles carry it, so that several controllers can share a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerName {
    name: Arc<str>,
    hash: Arc<str>,
}

impl ControllerName {
    /// The name in the field `spec.controllerName` of GatewayClasses.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let hash = Hash::of_parts(&[name]).to_string();
        // 64 bits are enough to distinguish the few controllers of a hub, and short enough for all names that include
        // them.
        Self { name: name.into(), hash: hash[..16].into() }
    }

    /// The full name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The first 16 hexadecimal digits of the name's hash.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The field manager with which agents apply the copies on spokes.
    #[must_use]
    pub fn spoke_field_manager(&self) -> String {
        format!("work-agent-{}", self.hash)
    }

    /// The field manager for writes on the hub.
    #[must_use]
    pub fn hub_field_manager(&self) -> String {
        format!("policy-sync-{}", self.hash)
    }

    /// The field manager for the conditions of the topology on the hub. It is separate, because server-side apply
    /// removes all fields of a manager that the request omits.
    #[must_use]
    pub fn topology_field_manager(&self) -> String {
        format!("policy-sync-topology-{}", self.hash)
    }

    /// The name of the Lease for leader election.
    #[must_use]
    pub fn lease(&self) -> String {
        format!("policy-sync-{}", self.hash)
    }
}

/// The name of a work: `<kind>-<name>-<hash>`, at most 63 characters. It is the same on all clusters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkName(pub Arc<str>);

/// The number of hexadecimal digits of a hash.
pub const HASH_DIGITS: usize = 32;

impl WorkName {
    /// The name of the work for `origin`, whose kind is `kind`, for example `RateLimitPolicy`.
    #[must_use]
    pub fn planned(controller: &ControllerName, kind: &str, origin: &Origin) -> Self {
        let kind = kind.to_ascii_lowercase();
        let (group, object) = (&origin.kind().group, origin.object());
        let hash = Hash::of_parts(&[controller.as_str(), group, &kind, &object.namespace, &object.name]);
        Self(format!("{}-{hash}", readable(&kind, &object.name)).into())
    }

    /// The name of a cluster's access work.
    #[must_use]
    pub fn access(controller: &ControllerName) -> Self {
        let hash = Hash::of_parts(&[controller.as_str(), "access"]);
        Self(format!("access-{hash}").into())
    }

    /// Whether this name is the planned name for `origin`.
    ///
    /// The name contains the kind (`ratelimitpolicy`), whereas an origin has the plural. Each prefix of the name is
    /// therefore tried as the kind. A wrong kind cannot match, because the kind is part of the hash.
    #[must_use]
    pub fn is_for(&self, controller: &ControllerName, origin: &Origin) -> bool {
        self.0.len() <= LABEL_LIMIT
            && self
                .0
                .match_indices('-')
                .any(|(end, _)| Self::planned(controller, &self.0[..end], origin) == *self)
    }
}

/// `<kind>-<name>`, cut to leave room for a hash, and ending with an alphanumeric character.
fn readable(kind: &str, name: &str) -> String {
    let limit = LABEL_LIMIT - HASH_DIGITS - 1;
    let full = format!("{kind}-{name}");
    let cut: String = full.chars().take(limit).map(|c| if c == '.' { '-' } else { c }).collect();
    cut.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

impl fmt::Display for WorkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
