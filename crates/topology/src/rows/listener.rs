//! The listeners of Gateways and of ListenerSets.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::{Expression, Selector, SelectorExt};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::wire::{self, GroupName, Hostname, KindName, Limited, Name, or_default};
use super::{NAME_LABEL, name_label};
use crate::fault::Fault;
use crate::locator::{Kind, Locator, SECRET};
use policy_sync_api::gateway::{CERTIFICATES_LIMIT, GROUP, KINDS_LIMIT, LISTENERS_LIMIT};
use policy_sync_api::json::step::Step;
use policy_sync_api::syntax::{is_label_key, is_label_value};
use policy_sync_api::text::excerpt;

/// The maximum length in bytes of a protocol's name.
const PROTOCOL_LIMIT: usize = 255;

/// A listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// The listener's name, unique in its Gateway or ListenerSet.
    pub name: Arc<str>,
    /// The listener's host; `None` for all hosts.
    pub hostname: Option<Arc<str>>,
    /// The listener's port; 0 if the implementation assigns one.
    pub port: u16,
    /// The listener's protocol.
    pub protocol: Protocol,
    /// Whether the listener terminates TLS.
    pub terminates: bool,
    /// The namespaces whose routes may attach.
    pub namespaces: AllowedNamespaces,
    /// The kinds of routes that may attach; `None` for all kinds that the protocol carries.
    pub kinds: Option<Box<[Kind]>>,
    /// The certificates of a listener that terminates TLS.
    pub certificates: Box<[CertificateReference]>,
}

/// A reference to the object that contains a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateReference {
    /// The object's kind, by default Secret.
    pub kind: Kind,
    /// The object's namespace, by default the listener's own.
    pub namespace: Option<Arc<str>>,
    /// The object's name.
    pub name: Arc<str>,
}

impl CertificateReference {
    /// The locator of the object, for a listener in the namespace `own`.
    #[must_use]
    pub fn locator<'l>(&'l self, own: &'l str) -> Locator<'l> {
        let namespace = self.namespace.as_deref().unwrap_or(own);
        Locator { kind: self.kind.as_ref(), namespace, name: &self.name, section: None }
    }
}

/// The protocol of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP without TLS.
    Http,
    /// HTTP over TLS.
    Https,
    /// TLS with any content.
    Tls,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// A protocol of an implementation. The name has a domain as its prefix: `example.com/quic`.
    Other(Arc<str>),
    /// Neither a core protocol nor a protocol of an implementation. The names of core protocols are case-sensitive.
    Unsupported(Arc<str>),
}

impl Protocol {
    /// Whether connections of the protocol have a host name.
    #[must_use]
    pub fn has_hostnames(&self) -> bool {
        !matches!(self, Self::Tcp | Self::Udp)
    }

    /// The default port of the protocol's URL scheme; `None` without a scheme.
    #[must_use]
    pub fn own_port(&self) -> Option<u16> {
        match self {
            Self::Http => Some(80),
            Self::Https | Self::Tls => Some(443),
            Self::Tcp | Self::Udp | Self::Other(_) | Self::Unsupported(_) => None,
        }
    }

    /// Whether Gateway API defines the protocol.
    #[must_use]
    pub fn is_core(&self) -> bool {
        !matches!(self, Self::Other(_) | Self::Unsupported(_))
    }

    /// Whether a listener may need certificates.
    fn has_certificates(&self) -> bool {
        matches!(self, Self::Https | Self::Tls | Self::Other(_))
    }
}

impl From<&str> for Protocol {
    fn from(name: &str) -> Self {
        match name {
            "HTTP" => Self::Http,
            "HTTPS" => Self::Https,
            "TLS" => Self::Tls,
            "TCP" => Self::Tcp,
            "UDP" => Self::Udp,
            other if other.contains('/') => Self::Other(other.into()),
            other => Self::Unsupported(other.into()),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "HTTP",
            Self::Https => "HTTPS",
            Self::Tls => "TLS",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Other(name) | Self::Unsupported(name) => name,
        })
    }
}

/// The namespaces whose objects may attach.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum AllowedNamespaces {
    /// All namespaces.
    All,
    /// Only the namespace of the Gateway or ListenerSet itself.
    #[default]
    Same,
    /// The namespaces whose labels match the selector.
    Selected(Selector),
    /// No namespaces.
    None,
}

impl AllowedNamespaces {
    /// Whether objects of `namespace`, which has these labels, may attach to an object of the namespace
    /// `own`. `None` if that depends on unknown labels.
    #[must_use]
    pub fn allows<'l>(
        &self,
        own: &str,
        namespace: &str,
        labels: impl FnOnce() -> Option<Cow<'l, BTreeMap<String, String>>>,
    ) -> Option<bool> {
        match self {
            Self::All => Some(true),
            Self::Same => Some(own == namespace),
            Self::Selected(selector) => match labels() {
                Some(labels) => Some(selector.matches(&labels)),
                None => by_name(selector, namespace),
            },
            Self::None => Some(false),
        }
    }

    /// Whether labels of Namespaces other than their names are needed.
    #[must_use]
    pub fn selects(&self) -> bool {
        let Self::Selected(selector) = self else { return false };
        selector.clone().into_iter().any(|expression| !is_of_name(&expression))
    }
}

/// Whether `selector` matches a Namespace by its name alone. `None` if the result depends on other labels.
fn by_name(selector: &Selector, namespace: &str) -> Option<bool> {
    let (of_name, others): (Vec<Expression>, Vec<Expression>) =
        selector.clone().into_iter().partition(is_of_name);
    let labels = name_label(namespace);
    if !of_name.iter().all(|expression| expression.matches(&labels)) {
        return Some(false);
    }
    others.is_empty().then_some(true)
}

/// Whether `expression` is about the label that has the Namespace's name as its value.
fn is_of_name(expression: &Expression) -> bool {
    let (Expression::In(key, _)
    | Expression::NotIn(key, _)
    | Expression::Equal(key, _)
    | Expression::NotEqual(key, _)
    | Expression::Exists(key)
    | Expression::DoesNotExist(key)) = expression;
    key == NAME_LABEL
}

/// Reads `allowedRoutes.namespaces`, by default `Same`.
impl<'de> Deserialize<'de> for AllowedNamespaces {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Namespaces::deserialize(deserializer)?.or(Self::Same).map_err(D::Error::custom)
    }
}

/// Reads `allowedListeners.namespaces`, by default `None`.
#[derive(Debug)]
pub(super) struct AllowedSets(pub(super) AllowedNamespaces);

impl<'de> Deserialize<'de> for AllowedSets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Namespaces::deserialize(deserializer)?.or(AllowedNamespaces::None).map(Self).map_err(D::Error::custom)
    }
}

impl Namespaces {
    fn or(self, default: AllowedNamespaces) -> Result<AllowedNamespaces, String> {
        Ok(match (self.from, self.selector) {
            (None, _) => default,
            (Some(Source::All), _) => AllowedNamespaces::All,
            (Some(Source::Same), _) => AllowedNamespaces::Same,
            (Some(Source::Selector), Some(selector)) => {
                AllowedNamespaces::Selected(self::selector(selector)?)
            }
            // `Selector` without a selector selects nothing.
            (Some(Source::None | Source::Selector), _) => AllowedNamespaces::None,
        })
    }
}

/// Validates `selector` as the API server does.
///
/// # Errors
///
/// The first key, operator or value that is invalid.
pub(super) fn selector(selector: LabelSelector) -> Result<Selector, String> {
    let keys = selector.match_labels.iter().flatten().map(|(key, _)| key);
    let expressions = selector.match_expressions.iter().flatten();
    let values = selector.match_labels.iter().flatten().map(|(_, value)| value);
    let mut keys = keys.chain(expressions.clone().map(|expression| &expression.key));
    if let Some(key) = keys.find(|key| !is_label_key(key)) {
        return Err(format!("selector: {:?} is not a valid label key", excerpt(key)));
    }
    let mut values = values.chain(expressions.flat_map(|expression| expression.values.iter().flatten()));
    if let Some(value) = values.find(|value| !is_label_value(value)) {
        return Err(format!("selector: {:?} is not a valid label value", excerpt(value)));
    }
    let operators = ["In", "NotIn", "Exists", "DoesNotExist"];
    let mut named = selector.match_expressions.iter().flatten().map(|expression| &expression.operator);
    if let Some(operator) = named.find(|operator| !operators.contains(&operator.as_str())) {
        return Err(format!("selector: {:?} is not one of {}", excerpt(operator), operators.join(", ")));
    }
    let needs_values = |expression: &LabelSelectorRequirement| {
        matches!(expression.operator.as_str(), "In" | "NotIn")
            && expression.values.as_ref().is_none_or(Vec::is_empty)
    };
    if selector.match_expressions.iter().flatten().any(needs_values) {
        return Err("selector: In and NotIn need values".to_owned());
    }
    Selector::try_from(selector).map_err(|error| format!("selector: {error}"))
}

#[derive(Deserialize)]
struct Namespaces {
    from: Option<Source>,
    selector: Option<LabelSelector>,
}

#[derive(Deserialize)]
enum Source {
    All,
    Same,
    Selector,
    None,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Written<P> {
    name: Name,
    hostname: Option<Hostname>,
    port: P,
    protocol: ProtocolName,
    tls: Option<Tls>,
    #[serde(default, deserialize_with = "or_default")]
    allowed_routes: AllowedRoutes,
}

/// The name of a protocol. The API server accepts a word, or a domain and a word: `example.com/quic`.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct ProtocolName(Protocol);

impl TryFrom<String> for ProtocolName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_dashed = |text: &str| {
            let ends = [text.bytes().next(), text.bytes().last()];
            ends.iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let ends_domain = |text: &str| {
            text.bytes().last().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        let is_name = match text.rsplit_once('/') {
            Some((domain, word)) => ends_domain(domain) && is_word(word),
            None => is_dashed(&text),
        };
        if is_name && text.len() <= PROTOCOL_LIMIT {
            Ok(Self(Protocol::from(text.as_str())))
        } else {
            Err(format!("{:?} is not a valid protocol: expected HTTP or example.com/name", excerpt(&text)))
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tls {
    mode: Option<Mode>,
    #[serde(default, deserialize_with = "or_default")]
    certificate_refs: Limited<Certificate, CERTIFICATES_LIMIT>,
}

#[derive(Deserialize)]
struct Certificate {
    group: Option<GroupName>,
    kind: Option<KindName>,
    namespace: Option<wire::Namespace>,
    name: Name,
}

impl From<Certificate> for CertificateReference {
    fn from(written: Certificate) -> Self {
        Self {
            kind: wire::kind(written.group, written.kind, SECRET),
            namespace: written.namespace.map(|namespace| namespace.0),
            name: written.name.0,
        }
    }
}

#[derive(Deserialize, PartialEq)]
enum Mode {
    Terminate,
    Passthrough,
}

#[derive(Default, Deserialize)]
struct AllowedRoutes {
    #[serde(default, deserialize_with = "or_default")]
    namespaces: AllowedNamespaces,
    #[serde(default, deserialize_with = "or_default")]
    kinds: Limited<RouteGroupKind, KINDS_LIMIT>,
}

#[derive(Deserialize)]
struct RouteGroupKind {
    group: Option<GroupName>,
    kind: KindName,
}

impl<P: Into<u16>> From<Written<P>> for Listener {
    fn from(written: Written<P>) -> Self {
        let kinds = written.allowed_routes.kinds.0;
        let group = |group: Option<GroupName>| group.map_or_else(|| GROUP.into(), |group| group.0);
        let protocol = written.protocol.0;
        let (mode, certificates) = match written.tls {
            Some(tls) => (tls.mode, tls.certificate_refs.0),
            None => (None, Vec::new()),
        };
        let terminates = mode.is_none_or(|mode| mode == Mode::Terminate);
        let has_certificates = terminates && protocol.has_certificates();
        Self {
            name: written.name.0,
            hostname: written.hostname.map(|hostname| hostname.0).filter(|_| protocol.has_hostnames()),
            port: written.port.into(),
            protocol,
            terminates,
            namespaces: written.allowed_routes.namespaces,
            kinds: (!kinds.is_empty()).then(|| {
                kinds.into_iter().map(|kind| Kind { group: group(kind.group), kind: kind.kind.0 }).collect()
            }),
            certificates: certificates.into_iter().filter(|_| has_certificates).map(Into::into).collect(),
        }
    }
}

/// Reads the listeners of an object, whose names must be unique.
pub(super) fn listeners<P: Into<u16>>(
    written: Limited<Written<P>, LISTENERS_LIMIT>,
) -> Result<Box<[Listener]>, Fault> {
    let listeners: Box<[Listener]> = written.0.into_iter().map(Listener::from).collect();
    for (index, listener) in listeners.iter().enumerate() {
        if listeners[..index].iter().any(|other| other.name == listener.name) {
            let place = format!("spec.listeners{}.name", Step::Item(index));
            return Err(Fault { place, text: format!("duplicate listener name {:?}", listener.name) });
        }
    }
    Ok(listeners)
}
