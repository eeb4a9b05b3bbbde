//! The matches in rules of HTTPRoutes and GRPCRoutes.

use std::sync::Arc;

use serde::Deserialize;

use super::route_kind::RouteKind;
use super::wire::{self, Limited, or_default};
use crate::fault::Fault;
use policy_sync_api::json::step::Step;
use policy_sync_api::text::excerpt;

/// The maximum number of matches of a rule.
const MATCHES_LIMIT: usize = 64;
/// The maximum number of headers, and of query parameters, of a match.
const VALUES_LIMIT: usize = 16;
/// The maximum length in characters of a path.
const PATH_LIMIT: usize = 1024;
/// The methods that a match may contain.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// A match of an HTTPRoute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpMatch {
    /// The path of the request.
    #[serde(default, deserialize_with = "or_default")]
    pub path: PathMatch,
    /// Headers. All must match.
    #[serde(default, deserialize_with = "values")]
    pub headers: Vec<ValueMatch>,
    /// Query parameters. All must match.
    #[serde(default, deserialize_with = "values")]
    pub query_params: Vec<ValueMatch>,
    /// The method; `None` for any method.
    #[serde(default)]
    pub method: Option<Arc<str>>,
}

/// How a text is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Comparison {
    /// The texts are equal.
    #[default]
    Exact,
    /// The regular expression matches the whole text.
    RegularExpression,
}

/// How a path is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum PathComparison {
    /// The paths are equal.
    Exact,
    /// The path begins with the elements of the value.
    #[default]
    PathPrefix,
    /// The regular expression matches the whole path.
    RegularExpression,
}

/// A path and how it is compared.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PathMatch {
    /// The kind of comparison.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub comparison: PathComparison,
    /// The path, the prefix or the regular expression.
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

/// The name and value of a header or a query parameter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ValueMatch {
    /// How the value is compared.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub comparison: Comparison,
    /// The name of the header or query parameter.
    pub name: Arc<str>,
    /// The value or the regular expression.
    pub value: Arc<str>,
}

fn values<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<ValueMatch>, D::Error> {
    or_default::<D, Limited<ValueMatch, VALUES_LIMIT>>(deserializer).map(|limited| limited.0)
}

/// A match of a GRPCRoute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct GrpcMatch {
    /// The service and method; empty for any.
    #[serde(default, deserialize_with = "or_default")]
    pub method: MethodMatch,
    /// Headers. All must match.
    #[serde(default, deserialize_with = "values")]
    pub headers: Vec<ValueMatch>,
}

/// The service and method of a gRPC call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct MethodMatch {
    /// How the service and the method are compared.
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub comparison: Comparison,
    /// The service.
    #[serde(default)]
    pub service: Option<Arc<str>>,
    /// The method.
    #[serde(default)]
    pub method: Option<Arc<str>>,
}

/// Parses the matches of an HTTPRoute rule from JSON. Without `text`, returns one match for all paths; for
/// invalid text, no matches.
#[must_use]
pub fn http(text: Option<&str>) -> Vec<HttpMatch> {
    read(text)
}

/// Parses the matches of a GRPCRoute rule, like [`http()`].
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

/// Validates `text`, the matches in a rule of a route of `kind`, as the API server does.
///
/// # Errors
///
/// The first fault, with its path relative to the matches.
pub(super) fn check(kind: RouteKind, text: &str) -> Result<(), Fault> {
    match kind {
        RouteKind::Http => list::<HttpMatch>(text)?.iter().enumerate().try_for_each(|(index, written)| {
            check_http(written).map_err(|fault| fault.under(&Step::Item(index)))
        }),
        RouteKind::Grpc => list::<GrpcMatch>(text)?.iter().enumerate().try_for_each(|(index, written)| {
            check_grpc(written).map_err(|fault| fault.under(&Step::Item(index)))
        }),
        // These kinds have no matches.
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
            format!("{:?} is not one of {}", excerpt(method), METHODS.join(", ")),
        ));
    }
    check_values("headers", &written.headers)?;
    check_values("queryParams", &written.query_params)
}

fn check_values(field: &str, values: &[ValueMatch]) -> Result<(), Fault> {
    // A token as in [RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#name-tokens).
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    for (index, value) in values.iter().enumerate() {
        let at = |key: &str| format!(".{field}{}.{key}", Step::Item(index));
        if value.name.is_empty() || value.name.len() > 256 || !value.name.chars().all(is_token) {
            return Err(Fault::new(
                at("name"),
                format!("{:?} is not a valid HTTP name", excerpt(&value.name)),
            ));
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
