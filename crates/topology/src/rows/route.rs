//! Rows of routes.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::backend::{self, BackendReference};
use super::matches;
use super::parent::{self, ParentReference};
use super::route_kind::RouteKind;
use super::wire::{self, Hostname, Limited, Name, or_default};
use super::{Created, Labels, ParentStatus};
use crate::fault::Fault;
use policy_sync_api::interned::Interned;
use policy_sync_api::json::step::Step;
use policy_sync_api::object::HubObject;

/// The maximum number of parent references of a route.
const PARENTS_LIMIT: usize = 32;
/// The maximum number of host names of a route, of its rules, and of the backends of a rule.
const LIMIT: usize = 16;

/// A route.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Route {
    /// The creation time.
    pub created: Created,
    /// The route's labels.
    pub labels: Labels,
    /// The route's parent references.
    pub parents: Arc<[ParentReference]>,
    /// The route's hosts; empty for all hosts.
    pub hostnames: Box<[Arc<str>]>,
    /// The route's rules.
    pub rules: Box<[Rule]>,
    /// The entries of implementations in the route's status. Empty in the controller and on web pages, because they do
    /// not read these entries.
    pub statuses: Box<[ParentStatus]>,
}

/// Values that many routes repeat, each stored once.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// The matches of rules, as JSON.
    pub texts: Interned<str>,
    parents: Interned<[ParentReference]>,
    backends: Interned<[BackendReference]>,
}

/// A rule of a route.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// The rule's name, unique in the route.
    pub name: Option<Arc<str>>,
    /// The rule's matches, as JSON; `None` without matches.
    pub matches: Option<Arc<str>>,
    /// The backends to which the rule sends requests.
    pub backends: Arc<[BackendReference]>,
    /// The backends of the `RequestMirror` filters of the rule and of its backends.
    pub mirrors: Arc<[BackendReference]>,
}

impl Route {
    /// Stores parents, backends and matches in `shared`, because other routes are likely to repeat them.
    pub fn share(&mut self, shared: &mut Shared) {
        self.parents = shared.parents.intern(self.parents.clone());
        for rule in &mut self.rules {
            rule.backends = shared.backends.intern(rule.backends.clone());
            rule.mirrors = shared.backends.intern(rule.mirrors.clone());
            rule.matches = rule.matches.take().map(|matches| shared.texts.intern(matches));
        }
    }

    /// Reads the row from `object`, without its status.
    ///
    /// # Errors
    ///
    /// If the API server would reject the object.
    pub fn read(kind: RouteKind, object: &HubObject) -> Result<Self, Fault> {
        let spec: Spec = wire::spec(wire::text(object))?;
        let mut rules: Vec<Rule> = spec.rules.0.into_iter().map(Rule::from).collect();
        if rules.is_empty() && kind == RouteKind::Http {
            // The CustomResourceDefinition of HTTPRoutes has a default rule.
            rules.push(Rule::default());
        }
        for (index, rule) in rules.iter().enumerate() {
            let place = || format!("spec.rules{}", Step::Item(index));
            let in_matches =
                |fault: Fault| Fault { place: format!("{}.matches{}", place(), fault.place), ..fault };
            if let Some(name) = &rule.name
                && rules[..index].iter().any(|other| other.name.as_ref() == Some(name))
            {
                let text = format!("duplicate rule name {name:?}");
                return Err(Fault { place: format!("{}.name", place()), text });
            }
            if let Some(text) = &rule.matches {
                matches::check(kind, text).map_err(in_matches)?;
            }
        }
        Ok(Self {
            created: Created::of(&object.metadata),
            labels: super::labels(&object.metadata),
            parents: spec.parent_refs.0.into_iter().map(ParentReference::from).collect(),
            hostnames: spec.hostnames.0.into_iter().map(|hostname| hostname.0).collect(),
            rules: rules.into(),
            statuses: Box::default(),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default, deserialize_with = "or_default")]
    parent_refs: Limited<parent::Written, PARENTS_LIMIT>,
    #[serde(default, deserialize_with = "or_default")]
    hostnames: Limited<Hostname, LIMIT>,
    #[serde(default, deserialize_with = "or_default")]
    rules: Limited<Written, LIMIT>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    name: Option<Name>,
    matches: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "or_default")]
    filters: Limited<Filter, LIMIT>,
    #[serde(default, deserialize_with = "or_default")]
    backend_refs: Limited<backend::BackendRef<Limited<Filter, LIMIT>>, LIMIT>,
}

/// A filter. Only `RequestMirror` refers to a backend.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filter {
    request_mirror: Option<Mirror>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mirror {
    backend_ref: backend::BackendRef<IgnoredAny>,
}

impl From<Written> for Rule {
    fn from(written: Written) -> Self {
        let mut filters = written.filters.0;
        let mut backends: Vec<BackendReference> = Vec::with_capacity(written.backend_refs.0.len());
        for mut backend in written.backend_refs.0 {
            filters.extend(backend.filters.take().into_iter().flat_map(|filters| filters.0));
            backends.push(backend.into());
        }
        let mirrors = filters.into_iter().filter_map(|filter| filter.request_mirror);
        Self {
            name: written.name.map(|name| name.0),
            matches: written.matches.map(|matches| matches.get().into()),
            backends: backends.into(),
            mirrors: mirrors.map(|mirror| mirror.backend_ref.into()).collect(),
        }
    }
}
