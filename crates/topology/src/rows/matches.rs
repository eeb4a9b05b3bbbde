//! Which requests a rule of an HTTPRoute or of a GRPCRoute is for.

use std::sync::Arc;

use serde::Deserialize;

use super::route_kind::RouteKind;
use super::wire::{self, Limited, or_default};
use crate::fault::Fault;
use policy_sync_api::json::step::Step;
use policy_sync_api::text::excerpt;

/// The most matches of a rule.
const MATCHES_LIMIT: usize = 64;
/// The most headers, and parameters of a query, of a match.
const VALUES_LIMIT: usize = 16;
/// The most characters of a path.
const PATH_LIMIT: usize = 1024;
/// The methods that a match may name.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// A match of an HTTPRoute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpMatch {
    /// Its path.
    #[serde(default, deserialize_with = "or_default")]
    pub path: PathMatch,
    /// Headers, all of which a request needs.
    #[serde(default, deserialize_with = "values")]
    pub headers: Vec<ValueMatch>,
    /// Parameters of the query, all of which a request needs.
    #[serde(default, deserialize_with = "values")]
    pub query_params: Vec<ValueMatch>,
    /// Its method.
    #[serde(default)]
    pub method: Option<Arc<str>>,
}

/// How a text is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Comparison {
    /// It is the same.
    #[default]
    Exact,
    /// All of it is of a regular expression.
    RegularExpression,
}

/// How a path is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum PathComparison {
    /// It is the same.
    Exact,
    /// It begins with these elements.
    #[default]
    PathPrefix,
    /// All of it is of a regular expression.
    RegularExpression,
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PathMatch {
    /// How it is compared.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub comparison: PathComparison,
    /// With what.
    #[serde(default = "root")]
    pub value: Arc<str>,
}

fn root() -> Arc<str> {
    "/".into()
}

impl Default for PathMatch {
    fn default() -> Self {
        Self { comparison: PathComparison::default(), value: root() }
    }
}

/// A header, or a parameter of a query.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ValueMatch {
    /// How its value is compared.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub comparison: Comparison,
    /// Its name.
    pub name: Arc<str>,
    /// With what.
    pub value: Arc<str>,
}

fn values<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<ValueMatch>, D::Error> {
    or_default::<D, Limited<ValueMatch, VALUES_LIMIT>>(deserializer).map(|limited| limited.0)
}

/// A match of a GRPCRoute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct GrpcMatch {
    /// Its service and method, any where it says nothing.
    #[serde(default, deserialize_with = "or_default")]
    pub method: MethodMatch,
    /// Headers, all of which a request needs.
    #[serde(default, deserialize_with = "values")]
    pub headers: Vec<ValueMatch>,
}

/// A service and a method of gRPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct MethodMatch {
    /// How they are compared.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub comparison: Comparison,
    /// The service.
    #[serde(default)]
    pub service: Option<Arc<str>>,
    /// The method.
    #[serde(default)]
    pub method: Option<Arc<str>>,
}

/// The matches of a rule of an HTTPRoute, which are `text`; without any, all paths. What cannot be read matches nothing.
#[must_use]
pub fn http(text: Option<&str>) -> Vec<HttpMatch> {
    read(text)
}

/// The same of a GRPCRoute.
#[must_use]
pub fn grpc(text: Option<&str>) -> Vec<GrpcMatch> {
    read(text)
}

fn read<T: Default + for<'de> Deserialize<'de>>(text: Option<&str>) -> Vec<T> {
    let Some(text) = text else { return vec![T::default()] };
    match serde_json::from_str::<Option<Vec<T>>>(text) {
        Ok(Some(written)) if !written.is_empty() => written,
        Ok(_) => vec![T::default()],
        Err(_) => Vec::new(),
    }
}

/// Whether the API server would take `text` as the matches of a rule of a route of this kind.
///
/// # Errors
///
/// The first fault, with its place in them.
pub(super) fn check(kind: RouteKind, text: &str) -> Result<(), Fault> {
    match kind {
        RouteKind::Http => list::<HttpMatch>(text)?.iter().enumerate().try_for_each(|(index, written)| {
            check_http(written).map_err(|fault| fault.under(&Step::Item(index)))
        }),
        RouteKind::Grpc => list::<GrpcMatch>(text)?.iter().enumerate().try_for_each(|(index, written)| {
            check_grpc(written).map_err(|fault| fault.under(&Step::Item(index)))
        }),
        // They have none.
        RouteKind::Tcp | RouteKind::Tls | RouteKind::Udp => Ok(()),
    }
}

fn list<T: for<'de> Deserialize<'de>>(text: &str) -> Result<Vec<T>, Fault> {
    let list: Option<Limited<T, MATCHES_LIMIT>> = wire::read(text).map_err(|fault| {
        let is_placed = fault.place.starts_with('[');
        Fault { place: if is_placed { fault.place } else { String::new() }, ..fault }
    })?;
    Ok(list.unwrap_or_default().0)
}

fn check_http(written: &HttpMatch) -> Result<(), Fault> {
    let PathMatch { comparison, value } = &written.path;
    let bad = |text: String| Err(Fault::new(".path.value", text));
    if value.chars().count() > PATH_LIMIT {
        return bad(format!("has more than {PATH_LIMIT} characters"));
    }
    if *comparison != PathComparison::RegularExpression {
        if !value.starts_with('/') {
            return bad(format!("{:?} does not begin with /", excerpt(value)));
        }
        let mut parts = ["//", "/./", "/../", "%2f", "%2F", "#"].into_iter();
        if let Some(part) = parts.find(|part| value.contains(part)) {
            return bad(format!("{:?} contains {part}", excerpt(value)));
        }
        if let Some(end) = ["/..", "/."].into_iter().find(|end| value.ends_with(end)) {
            return bad(format!("{:?} ends with {end}", excerpt(value)));
        }
    }
    if let Some(method) = &written.method
        && !METHODS.contains(&&**method)
    {
        return Err(Fault::new(
            ".method",
            format!("{:?} is none of {}", excerpt(method), METHODS.join(", ")),
        ));
    }
    check_values("headers", &written.headers)?;
    check_values("queryParams", &written.query_params)
}

fn check_values(field: &str, values: &[ValueMatch]) -> Result<(), Fault> {
    // A token of HTTP.
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    for (index, value) in values.iter().enumerate() {
        let at = |key: &str| format!(".{field}{}.{key}", Step::Item(index));
        if value.name.is_empty() || value.name.len() > 256 || !value.name.chars().all(is_token) {
            return Err(Fault::new(at("name"), format!("{:?} is no name of HTTP", excerpt(&value.name))));
        }
        if values[..index].iter().any(|other| other.name == value.name) {
            return Err(Fault::new(at("name"), format!("{:?} is there twice", excerpt(&value.name))));
        }
        if value.value.is_empty() || value.value.chars().count() > 4096 {
            return Err(Fault::new(at("value"), "must have 1 to 4,096 characters"));
        }
    }
    Ok(())
}

fn check_grpc(written: &GrpcMatch) -> Result<(), Fault> {
    check_values("headers", &written.headers)
}
