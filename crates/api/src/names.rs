//! Names of things, each with a type of its own so that one cannot be taken for another.

use std::borrow::Borrow;
use std::fmt;
use std::sync::{Arc, LazyLock};

use kube::core::{ApiResource, GroupVersionKind};
use serde::{Deserialize, Serialize};

use super::json::Hash;
use super::syntax::{LABEL_LIMIT, is_dns_label};

/// What stands in sentences and names of objects for the cluster that they are about.
pub const CLUSTER: &str = "<cluster>";

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
    /// `name`, where a ManagedCluster can have it. It is the name of a namespace as well, and stands in the paths of
    /// requests: whatever is none must not get that far.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        is_dns_label(name).then(|| Self::from(name))
    }
}

/// A name is looked up by its text.
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
    /// The namespace, empty for a cluster-scoped object.
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

/// A kind by its plural name, whatever its version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// The API group, empty for core.
    pub group: Arc<str>,
    /// The plural name.
    pub resource: Arc<str>,
}

impl GroupResource {
    /// The kind `resource` of `group`.
    #[must_use]
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// Whether the plural of `kind` is usually that of this resource.
    #[must_use]
    pub fn is_plural_of(&self, kind: &str) -> bool {
        ApiResource::from_gvk(&GroupVersionKind::gvk(&self.group, "", kind)).plural == *self.resource
    }

    /// The kind of Gateways.
    #[must_use]
    pub fn gateways() -> Self {
        Self::new(super::gateway::GROUP, "gateways")
    }

    /// The kind of ReferenceGrants.
    #[must_use]
    pub fn reference_grants() -> Self {
        Self::new(super::gateway::GROUP, "referencegrants")
    }

    /// The kind of Namespaces.
    #[must_use]
    pub fn namespaces() -> Self {
        Self::new("", "namespaces")
    }

    /// The kind of Secrets.
    #[must_use]
    pub fn secrets() -> Self {
        Self::new("", "secrets")
    }
}

impl fmt::Display for GroupResource {
    /// `resource.group`, the name that the kind's CustomResourceDefinition has; of the core group the resource alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.group {
            "" => f.write_str(&self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

/// A kind in one of its versions, as parameters name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    /// The kind.
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

    /// `group/version`, of the core group the version alone.
    #[must_use]
    pub fn api_version(&self) -> String {
        match &*self.kind.group {
            "" => self.version.to_string(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The path of its objects in `namespace`; where that is empty, of all, or of a cluster-scoped kind's.
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

/// What a work is made from: an object of the hub.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// A Gateway.
    Gateway(ObjectKey),
    /// An object of any other kind: a policy, or a resource that is taken to the spokes as it is.
    Object(GroupResource, ObjectKey),
}

/// The most bytes of an origin as text: a resource and a namespace have at most 63, a group and a name 253.
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

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &GroupResource {
        match self {
            Self::Gateway(_) => &GATEWAYS,
            Self::Object(kind, _) => kind,
        }
    }

    /// Its namespace and name.
    #[must_use]
    pub fn object(&self) -> &ObjectKey {
        match self {
            Self::Gateway(object) | Self::Object(_, object) => object,
        }
    }

    /// The Gateway that it is, if it is one.
    #[must_use]
    pub fn as_gateway(&self) -> Option<&ObjectKey> {
        match self {
            Self::Gateway(object) => Some(object),
            Self::Object(..) => None,
        }
    }

    /// Reads `<resource>.<group>/<namespace>/<name>`, of the core group `<resource>/<namespace>/<name>`; anything else is
    /// `None`, and so is a text that is longer than the API's names.
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
    /// `<resource>.<group>/<namespace>/<name>`, the text of the annotation `kuadrant.io/parent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind(), self.object())
    }
}

/// The identity of this controller: works, field managers and roles are told apart by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerName {
    name: Arc<str>,
    hash: Arc<str>,
}

impl ControllerName {
    /// The controller that GatewayClasses name in `spec.controllerName`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let hash = Hash::of_parts(&[name]).to_string();
        // 64 bits tell the few controllers of one hub apart and leave room in every name that carries them.
        Self { name: name.into(), hash: hash[..16].into() }
    }

    /// The name itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Sixteen hexadecimal digits that stand for the name.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The field manager under which spokes' agents write our copies.
    #[must_use]
    pub fn spoke_field_manager(&self) -> String {
        format!("work-agent-{}", self.hash)
    }

    /// The field manager under which we write on the hub.
    #[must_use]
    pub fn hub_field_manager(&self) -> String {
        format!("policy-sync-{}", self.hash)
    }

    /// The field manager under which we write on the hub which policies affect what: by itself, because an apply takes away what
    /// the last one had and it has not.
    #[must_use]
    pub fn topology_field_manager(&self) -> String {
        format!("policy-sync-topology-{}", self.hash)
    }

    /// The Lease that the processes of this controller stand for.
    #[must_use]
    pub fn lease(&self) -> String {
        format!("policy-sync-{}", self.hash)
    }
}

/// The name of a work: `<kind>-<name>-<hash>`, at most 63 characters, the same in every cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkName(pub Arc<str>);

/// The hexadecimal digits of a hash.
pub const HASH_DIGITS: usize = 32;

impl WorkName {
    /// The name of the work for `origin`, an object of the kind `kind` (`RateLimitPolicy`).
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

    /// Whether this is the planned name for `origin`.
    ///
    /// An origin is known by the plural of its kind, a name is made of the singular: each prefix of the name that
    /// could be the kind is tried. That a prefix fits is proof, because the kind is part of the hash.
    #[must_use]
    pub fn is_for(&self, controller: &ControllerName, origin: &Origin) -> bool {
        self.0.len() <= LABEL_LIMIT
            && self
                .0
                .match_indices('-')
                .any(|(end, _)| Self::planned(controller, &self.0[..end], origin) == *self)
    }
}

/// `<kind>-<name>`, cut so that a hash fits behind it and that it ends in an alphanumeric.
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
