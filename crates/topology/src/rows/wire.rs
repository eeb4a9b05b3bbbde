//! Types for the values in objects of Gateway API. Each value is validated as in the API server. A fault has the path
//! of the invalid value.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{DeserializeOwned, Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::fault::Fault;
use crate::locator::{Kind, KindRef};
use policy_sync_api::object::HubObject;
use policy_sync_api::syntax::{SUBDOMAIN_LIMIT, is_dns_label, is_dns_subdomain, is_kind};
use policy_sync_api::text::excerpt;

/// The spec of `object` as JSON.
pub(super) fn text(object: &HubObject) -> &str {
    object.spec.as_deref().map_or("{}", |spec| spec.get())
}

/// The maximum length of a text that is parsed again to find the path of an error. The second parser is several times
/// slower.
const LOCATED_ERROR_LIMIT: usize = 64 * 1024;

/// Parses the spec `text` of an object.
///
/// # Errors
///
/// The first fault, with its path in the object.
pub(super) fn spec<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    read(text).map_err(|Fault { place, text }| {
        let place = if place.is_empty() { "spec".to_owned() } else { format!("spec.{place}") };
        Fault { place, text }
    })
}

/// Parses `text`.
///
/// # Errors
///
/// The first fault, with its path in the text; an empty path for the whole text.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).or_else(|error: serde_json::Error| {
        if text.len() > LOCATED_ERROR_LIMIT {
            let words = error.to_string();
            // The text is one long line, so the position of the error does not help.
            let end = words.rfind(" at line ").unwrap_or(words.len());
            return Err(Fault::new("", &words[..end]));
        }
        // Parse again with a slower parser, which reports the path.
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let place = if path == "." { String::new() } else { path };
            Fault { place, text: error.inner().to_string() }
        })
    })
}

/// Deserializes a value for which null means the default.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A list with at most `N` items.
#[derive(Debug)]
pub(super) struct Limited<T, const N: usize>(pub(super) Vec<T>);

impl<T, const N: usize> Default for Limited<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for Limited<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Items(PhantomData))
    }
}

/// Reads a list. Items beyond the limit are counted but not read.
struct Items<T, const N: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Items<T, N> {
    type Value = Limited<T, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while items.len() < N {
            match list.next_element()? {
                Some(item) => items.push(item),
                None => return Ok(Limited(items)),
            }
        }
        let mut count = N;
        while list.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        if count > N {
            return Err(A::Error::custom(format_args!("has {count} items, at most {N} are allowed")));
        }
        Ok(Limited(items))
    }
}

/// Returns `text` if `is` accepts it. `what` describes valid text in the message.
fn checked(text: String, is: impl Fn(&str) -> bool, what: &str) -> Result<Arc<str>, String> {
    if is(&text) { Ok(text.into()) } else { Err(format!("{:?} is not a valid {what}", excerpt(&text))) }
}

/// The name of an object, or of a section of an object.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Name(pub(super) Arc<str>);

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        checked(text, is_dns_subdomain, "Kubernetes name").map(Self)
    }
}

/// The name of a namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Namespace(pub(super) Arc<str>);

impl TryFrom<String> for Namespace {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        checked(text, is_dns_label, "namespace name").map(Self)
    }
}

/// An API group, empty for core.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct GroupName(pub(super) Arc<str>);

impl TryFrom<String> for GroupName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        checked(text, |text| text.is_empty() || is_dns_subdomain(text), "API group").map(Self)
    }
}

/// The kind of an object.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct KindName(pub(super) Arc<str>);

impl TryFrom<String> for KindName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        checked(text, is_kind, "kind").map(Self)
    }
}

/// A host name, or a wildcard such as `*.example.com`, which matches one label or more.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Hostname(pub(super) Arc<str>);

impl TryFrom<String> for Hostname {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is = |text: &str| {
            let rest = text.strip_prefix("*.").unwrap_or(text);
            let is_address = rest.split('.').all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
            text.len() <= SUBDOMAIN_LIMIT && is_dns_subdomain(rest) && !is_address
        };
        checked(text, is, "lowercase host name").map(Self)
    }
}

/// The kind that a reference names. `default` supplies the group and the kind if they are missing.
pub(super) fn kind(group: Option<GroupName>, kind: Option<KindName>, default: KindRef<'_>) -> Kind {
    Kind {
        group: group.map_or_else(|| default.group.into(), |group| group.0),
        kind: kind.map_or_else(|| default.kind.into(), |kind| kind.0),
    }
}

/// The number of a port.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "i64")]
pub(super) struct Port(pub(super) u16);

impl From<Port> for u16 {
    fn from(Port(port): Port) -> Self {
        port
    }
}

/// The number of a port. If it is 0 or missing, the implementation assigns one.
#[derive(Clone, Copy, Debug)]
pub(super) struct AssignedPort(u16);

impl<'de> Deserialize<'de> for AssignedPort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<i64>::deserialize(deserializer)? {
            None | Some(0) => Ok(Self(0)),
            Some(number) => Port::try_from(number).map(|Port(port)| Self(port)).map_err(D::Error::custom),
        }
    }
}

impl From<AssignedPort> for u16 {
    fn from(AssignedPort(port): AssignedPort) -> Self {
        port
    }
}

/// The error for a number that is not a port.
pub(super) struct InvalidPort(i64);

impl fmt::Display for InvalidPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected a port from 1 to 65535, found {}", self.0)
    }
}

impl TryFrom<i64> for Port {
    type Error = InvalidPort;

    fn try_from(number: i64) -> Result<Self, InvalidPort> {
        u16::try_from(number).ok().filter(|port| *port != 0).map(Self).ok_or(InvalidPort(number))
    }
}
