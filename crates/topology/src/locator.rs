//! Locators, the names of nodes: `<kind>.<group>:<namespace>/<name>#<section>`.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use policy_sync_api::gateway::{EXPERIMENTAL_GROUP, GROUP};
use policy_sync_api::names::ObjectKey;

/// A kind of objects, independent of its version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// The API group, empty for core.
    pub group: Arc<str>,
    /// The `kind` in objects: `HTTPRoute`.
    pub kind: Arc<str>,
}

impl Kind {
    /// The kind with borrowed names.
    #[must_use]
    pub fn as_ref(&self) -> KindRef<'_> {
        KindRef { group: &self.group, kind: &self.kind }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

/// A [`Kind`] with borrowed names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KindRef<'k> {
    /// The API group, empty for core.
    pub group: &'k str,
    /// The `kind` in objects.
    pub kind: &'k str,
}

const fn of_gateway_api(kind: &'static str) -> KindRef<'static> {
    KindRef { group: GROUP, kind }
}

/// GatewayClasses.
pub const GATEWAY_CLASS: KindRef<'static> = of_gateway_api("GatewayClass");
/// Gateways.
pub const GATEWAY: KindRef<'static> = of_gateway_api("Gateway");
/// ListenerSets.
pub const LISTENER_SET: KindRef<'static> = of_gateway_api("ListenerSet");
/// XListenerSets, the experimental form of ListenerSets.
pub const X_LISTENER_SET: KindRef<'static> = KindRef { group: EXPERIMENTAL_GROUP, kind: "XListenerSet" };
/// GRPCRoutes.
pub const GRPC_ROUTE: KindRef<'static> = of_gateway_api("GRPCRoute");
/// HTTPRoutes.
pub const HTTP_ROUTE: KindRef<'static> = of_gateway_api("HTTPRoute");
/// TCPRoutes.
pub const TCP_ROUTE: KindRef<'static> = of_gateway_api("TCPRoute");
/// TLSRoutes.
pub const TLS_ROUTE: KindRef<'static> = of_gateway_api("TLSRoute");
/// UDPRoutes.
pub const UDP_ROUTE: KindRef<'static> = of_gateway_api("UDPRoute");
/// Secrets. The graph has no nodes for them.
pub const SECRET: KindRef<'static> = KindRef { group: "", kind: "Secret" };
/// Services.
pub const SERVICE: KindRef<'static> = KindRef { group: "", kind: "Service" };
/// ServiceImports of the [Multi-Cluster Services
/// API](https://multicluster.sigs.k8s.io/concepts/multicluster-services-api/).
pub const SERVICE_IMPORT: KindRef<'static> =
    KindRef { group: "multicluster.x-k8s.io", kind: "ServiceImport" };
/// [Backends](https://gateway.envoyproxy.io/docs/api/extension_types/#backend) of Envoy Gateway.
pub const ENVOY_BACKEND: KindRef<'static> = KindRef { group: "gateway.envoyproxy.io", kind: "Backend" };

/// Returns `kind` if the graph has a node for each object of `kind`, not only for objects that other objects refer to.
#[must_use]
pub fn graph_kind(kind: KindRef<'_>) -> Option<KindRef<'static>> {
    [
        GATEWAY_CLASS,
        GATEWAY,
        LISTENER_SET,
        X_LISTENER_SET,
        GRPC_ROUTE,
        HTTP_ROUTE,
        TCP_ROUTE,
        TLS_ROUTE,
        UDP_ROUTE,
        SERVICE,
        SERVICE_IMPORT,
        ENVOY_BACKEND,
    ]
    .into_iter()
    .find(|known| *known == kind)
}

impl KindRef<'_> {
    /// The kind with owned names.
    #[must_use]
    pub fn to_kind(self) -> Kind {
        Kind { group: self.group.into(), kind: self.kind.into() }
    }

    /// The bytes of a locator up to and including the colon.
    fn bytes(&self) -> impl Iterator<Item = u8> {
        let dot = if self.group.is_empty() { "" } else { "." };
        let kind = self.kind.bytes().map(|byte| byte.to_ascii_lowercase());
        kind.chain(dot.bytes()).chain(self.group.bytes()).chain(*b":")
    }

    fn cmp_text(&self, other: &Self) -> Ordering {
        if self == other { Ordering::Equal } else { self.bytes().cmp(other.bytes()) }
    }
}

/// Kinds are in the order of their text in locators: `<kind>.<group>`, with the kind in lower case. Two kinds may
/// differ in case only.
impl Ord for KindRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.cmp_text(other).then_with(|| (self.group, self.kind).cmp(&(other.group, other.kind)))
    }
}

impl PartialOrd for KindRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `<Kind>.<group>`; for the core group the kind only.
impl fmt::Display for KindRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// The name of a node or a policy. Lists in the order of locators are sorted by the text of the locators, byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Locator<'l> {
    /// The object's kind.
    pub kind: KindRef<'l>,
    /// The object's namespace; empty for a cluster-scoped object.
    pub namespace: &'l str,
    /// The object's name.
    pub name: &'l str,
    /// The section, if the node is a section of the object.
    pub section: Option<Section<'l>>,
}

/// A section of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section<'l> {
    /// A listener, a named rule or a named port.
    Named(&'l str),
    /// A rule without a name, by its number from 1: `rule-1`.
    Rule(usize),
    /// A rule without a name, by its number. Its text is not `rule-<n>`, because that is the name of another rule.
    /// References cannot name such a rule. For example, the first rule of a route is `rule-1~1` if a later rule has the
    /// name `rule-1`.
    Shadowed(usize),
    /// A port without a name.
    Port(u16),
}

impl fmt::Display for Section<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Rule(place) => write!(f, "rule-{place}"),
            Self::Shadowed(place) => write!(f, "rule-{place}~{place}"),
            Self::Port(port) => port.fmt(f),
        }
    }
}

impl Section<'_> {
    /// Whether a reference to the section `name` means this section.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        match self {
            Self::Named(section) => *section == name,
            Self::Shadowed(_) => false,
            Self::Rule(_) | Self::Port(_) => self.to_string() == name,
        }
    }

    /// Compares sections by their text.
    #[must_use]
    pub fn cmp_text(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Named(left), Self::Named(right)) => left.cmp(right),
            // The numbers of most rules have one digit. They can be compared without creating text.
            (Self::Rule(left @ ..10), Self::Rule(right @ ..10)) => left.cmp(right),
            _ => self.to_string().cmp(&other.to_string()),
        }
    }
}

impl<'l> Locator<'l> {
    /// The object `key` of `kind`.
    #[must_use]
    pub fn of(kind: KindRef<'l>, key: &'l ObjectKey) -> Self {
        Self { kind, namespace: &key.namespace, name: &key.name, section: None }
    }

    /// The object `name` of `kind`; `namespace` is empty for a cluster-scoped object.
    #[must_use]
    pub const fn new(kind: KindRef<'l>, namespace: &'l str, name: &'l str) -> Self {
        Self { kind, namespace, name, section: None }
    }

    /// The section `name` of the object, such as a listener. `rule-<n>` is also the n-th rule of a route, from 1, if
    /// that rule has no name. A number is also the port with this number, if that port has no name.
    #[must_use]
    pub const fn section(self, name: &'l str) -> Self {
        Self { section: Some(Section::Named(name)), ..self }
    }

    /// The same object with `section`; without a section if `section` is `None`.
    #[must_use]
    pub fn with(self, section: Option<Section<'l>>) -> Self {
        Self { section, ..self }
    }

    /// `<namespace>/<name>`; for a cluster-scoped object the name only.
    #[must_use]
    pub fn object(&self) -> String {
        if self.namespace.is_empty() {
            self.name.to_owned()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }

    /// Compares the objects' locators as bytes, without sections.
    #[must_use]
    pub fn cmp_object(&self, other: &Self) -> Ordering {
        let text = self.kind.cmp_text(&other.kind).then_with(|| {
            if self.namespace == other.namespace {
                self.name.cmp(other.name)
            } else {
                let bytes = |locator: &Self| {
                    let slash = if locator.namespace.is_empty() { "" } else { "/" };
                    (locator.namespace.to_owned() + slash + locator.name).into_bytes()
                };
                bytes(self).cmp(&bytes(other))
            }
        });
        text.then_with(|| self.kind.cmp(&other.kind))
    }
}

/// `<kind>.<group>:<namespace>/<name>#<section>`, with the kind in lower case. The core group, the namespace of a
/// cluster-scoped object and a missing section are left out. Examples:
/// `httproute.gateway.networking.k8s.io:shop/orders#rule-1`, `service:shop/orders`.
impl fmt::Display for Locator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.kind.kind.chars() {
            write!(f, "{}", character.to_ascii_lowercase())?;
        }
        if !self.kind.group.is_empty() {
            write!(f, ".{}", self.kind.group)?;
        }
        f.write_str(":")?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(self.name)?;
        match self.section {
            Some(section) => write!(f, "#{section}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
