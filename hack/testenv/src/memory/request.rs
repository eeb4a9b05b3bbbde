//! Parses requests: method, path, query and headers.

use std::collections::BTreeMap;
use std::fmt;

use http::Method;
use http::request::Parts;
use policy_sync_api::moment::Moment;
use serde_json::Value;

/// A request, with the parts that interposers and logs use.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestInfo {
    /// The user: the name given to [`super::MemoryServer::client_of`].
    pub user: String,
    /// The verb: `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`.
    pub verb: &'static str,
    /// The API group, empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name of the kind, empty for discovery.
    pub resource: String,
    /// The namespace, empty for cluster-scoped objects and for lists over all namespaces.
    pub namespace: String,
    /// The name, empty for lists.
    pub name: String,
    /// The subresource, empty for the object itself.
    pub subresource: String,
    /// Ordinal among the user's requests with the same text, from 1.
    pub ordinal: usize,
    /// When the request was sent.
    pub at: Moment,
    /// The response's status code, 0 if there is no response yet or the request was lost.
    pub code: u16,
}

impl RequestInfo {
    /// Whether the verb changes objects. Access reviews change nothing.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.verb, "create" | "update" | "patch" | "delete")
            && !matches!(self.resource.as_str(), "selfsubjectaccessreviews" | "selfsubjectreviews")
    }
}

/// Formats as `patch manifestworks eu-1/limits#2`: the same request has the same text in every run.
impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        let separator = if self.namespace.is_empty() { "" } else { "/" };
        if !(self.namespace.is_empty() && self.name.is_empty()) {
            write!(f, " {}{separator}{}", self.namespace, self.name)?;
        }
        write!(f, "#{}", self.ordinal)
    }
}

/// A request with the parts that only the server reads.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) info: RequestInfo,
    pub(super) query: BTreeMap<String, String>,
    pub(super) content: String,
    /// Whether the client accepts only metadata.
    pub(super) metadata_only: bool,
    pub(super) manager: String,
    pub(super) body: Vec<u8>,
    /// The path, for discovery requests.
    pub(super) path: String,
    /// Whether the client accepts aggregated discovery.
    pub(super) aggregated: bool,
}

impl Request {
    pub(super) fn read(user: &str, parts: &Parts, body: Vec<u8>, at: Moment) -> Self {
        let query: BTreeMap<String, String> = query(parts.uri.query().unwrap_or_default());
        let header = |name: &str| {
            parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let path = parts.uri.path().trim_matches('/').to_owned();
        let mut steps = path.split('/');
        let (group, version) = match steps.next() {
            Some("api") => (String::new(), steps.next()),
            _ => (steps.next().unwrap_or_default().to_owned(), steps.next()),
        };
        let rest: Vec<&str> = steps.collect();
        let (namespace, rest) = match rest.as_slice() {
            ["namespaces", namespace, resource, rest @ ..] if !matches!(*resource, "status" | "finalize") => {
                (*namespace, [&[*resource], rest].concat())
            }
            rest => ("", rest.to_vec()),
        };
        let step = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        let watches = query.get("watch").is_some_and(|watch| watch == "true" || watch == "1");
        let verb = match (&parts.method, rest.len()) {
            (&Method::GET, 0 | 1) if watches => "watch",
            (&Method::GET, 1) => "list",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, _) => "delete",
            _ => "get",
        };
        let mut name = step(1);
        if verb == "create" {
            let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
            name = sent["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        }
        let info = RequestInfo {
            user: user.to_owned(),
            verb,
            group,
            version: version.unwrap_or_default().to_owned(),
            resource: step(0),
            namespace: namespace.to_owned(),
            name,
            subresource: step(2),
            ordinal: 0,
            at,
            code: 0,
        };
        let manager = query.get("fieldManager").cloned().unwrap_or_else(|| user.to_owned());
        let metadata_only = header("accept").contains("as=PartialObjectMetadata");
        let aggregated = header("accept").contains("as=APIGroupDiscoveryList");
        Self { info, query, content: header("content-type"), metadata_only, manager, body, path, aggregated }
    }

    pub(super) fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }
}

fn query(text: &str) -> BTreeMap<String, String> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}
