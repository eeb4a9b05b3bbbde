//! Kinds of objects that a cluster serves, and the resolution of names such as `rlp` or
//! `ratelimitpolicies.kuadrant.io`.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery};

use policy_sync_api::names::GroupVersionResource;
use policy_sync_api::params::Role;
use policy_sync_hub::{HubClient, HubError};
use policy_sync_sync::kinds::GATEWAYS;

/// A kind that the hub serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    /// The group, version and plural of the kind.
    pub gvr: GroupVersionResource,
    /// The `kind` in objects.
    pub kind: String,
    /// Whether parameters list the kind as policies or as resources.
    pub role: Role,
    /// Whether objects of the kind are in namespaces.
    pub is_namespaced: bool,
    singular: String,
    short: Vec<String>,
}

impl ServedKind {
    /// The kind Gateway.
    pub fn gateways() -> Self {
        let (kind, singular, short) = ("Gateway".to_owned(), "gateway".to_owned(), vec!["gtw".to_owned()]);
        Self { gvr: GATEWAYS.gvr(), kind, role: Role::Policy, is_namespaced: true, singular, short }
    }

    /// A kind of the core group, which all clusters serve.
    pub fn core(kind: &str, resource: &str) -> Self {
        let gvr = GroupVersionResource::new("", "v1", resource);
        Self { is_namespaced: resource != "namespaces", ..Self::of_object(Role::Resource, gvr, kind) }
    }

    /// A namespaced kind without short names. Only its resource and its `kind` are known.
    pub fn of_object(role: Role, gvr: GroupVersionResource, kind: &str) -> Self {
        let singular = kind.to_lowercase();
        Self { gvr, kind: kind.to_owned(), role, is_namespaced: true, singular, short: Vec::new() }
    }

    /// Whether `word` names this kind, regardless of other kinds.
    pub fn matches_name(&self, word: &str) -> bool {
        self.name_type(word).is_some()
    }

    /// A kind from discovery, which parameters list under `role`.
    pub fn new(role: Role, gvr: GroupVersionResource, served: &APIResource) -> Self {
        Self {
            gvr,
            kind: served.kind.clone(),
            role,
            is_namespaced: served.namespaced,
            singular: served.singular_name.clone(),
            short: served.short_names.clone().unwrap_or_default(),
        }
    }

    /// A kind from aggregated discovery.
    pub fn discovered(group: &str, version: &str, served: &APIResourceDiscovery) -> Option<Self> {
        Some(Self {
            gvr: GroupVersionResource::new(group, version, served.resource.as_ref()?),
            kind: served.response_kind.as_ref()?.kind.clone()?,
            role: Role::Policy,
            is_namespaced: served.scope.as_deref() == Some("Namespaced"),
            singular: served.singular_resource.clone().unwrap_or_default(),
            short: served.short_names.clone(),
        })
    }

    /// How `word` names this kind: by its plural, singular or `Kind`, or by a short name. `None` if `word` does not
    /// name this kind. The name may be followed by a dot and the group, or by a dot, the version and the group. Case is
    /// ignored.
    fn name_type(&self, word: &str) -> Option<NameType> {
        let word = word.to_lowercase();
        let (bare, of) = word.split_once('.').map_or((&*word, None), |(bare, of)| (bare, Some(of)));
        let (group, version) = (&self.gvr.kind.group, &self.gvr.version);
        if of.is_some_and(|of| *of != **group && of != format!("{version}.{group}")) {
            return None;
        }
        let full_names = [&*self.gvr.kind.resource, &*self.kind.to_lowercase(), &*self.singular];
        if !bare.is_empty() && full_names.contains(&bare) {
            Some(NameType::Name)
        } else {
            self.short.iter().any(|short| short == bare).then_some(NameType::ShortName)
        }
    }
}

/// The kinds that a hub serves outside the core group.
#[derive(Debug, Default)]
pub struct DiscoveredKinds {
    /// The kinds, each in the hub's preferred version.
    pub kinds: Vec<ServedKind>,
    /// The groups of unavailable API services, whose kinds may be missing from `kinds`.
    pub stale: BTreeSet<String>,
}

/// Lists the kinds that the hub serves.
///
/// # Errors
///
/// If discovery fails.
pub async fn discover(hub: &HubClient) -> Result<DiscoveredKinds, HubError> {
    let groups = hub.client().list_api_groups_aggregated().await;
    let groups = groups.map_err(|error| hub.failure("list the APIs", &error))?.items;
    Ok(DiscoveredKinds::of(groups))
}

impl DiscoveredKinds {
    /// The message that the kinds of some API groups are unknown; `None` if discovery is complete.
    #[must_use]
    pub fn unread(&self) -> Option<String> {
        let groups: Vec<&str> = self.stale.iter().map(String::as_str).collect();
        let line =
            || format!("the kinds of {} are unknown: their API services do not respond", groups.join(", "));
        (!groups.is_empty()).then(line)
    }

    fn of(groups: Vec<APIGroupDiscovery>) -> Self {
        let mut discovered = Self::default();
        groups.into_iter().for_each(|group| discovered.take(group));
        discovered
    }

    fn take(&mut self, group: APIGroupDiscovery) {
        let Self { kinds, stale } = self;
        let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        if group.versions.iter().any(|version| version.freshness.as_deref() == Some("Stale")) {
            stale.insert(name.clone());
        }
        let of_group = kinds.len();
        // The preferred version comes first, but may lack some kinds.
        for version in group.versions {
            let number = version.version.unwrap_or_default();
            let found =
                version.resources.iter().filter_map(|served| ServedKind::discovered(&name, &number, served));
            for kind in found {
                if kinds[of_group..].iter().all(|known| known.gvr.kind != kind.gvr.kind) {
                    kinds.push(kind);
                }
            }
        }
    }
}

/// How a word names a kind. In the derived order, names come before short names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NameType {
    Name,
    ShortName,
}

/// The result of resolving a word.
#[derive(Debug, PartialEq)]
pub enum KindMatch<'k> {
    /// The word names one kind.
    Kind(&'k ServedKind),
    /// The word names several kinds.
    Ambiguous(Vec<&'k ServedKind>),
    /// The word names no kind.
    Nothing,
}

/// The kind that `word` names. As with `kubectl`, a name takes precedence over another kind's short name.
pub fn match_kind<'k>(kinds: &'k [ServedKind], word: &str) -> KindMatch<'k> {
    let named = || kinds.iter().filter_map(|kind| Some((kind.name_type(word)?, kind)));
    let best = named().map(|(by, _)| by).min();
    let mut matching: Vec<&ServedKind> =
        named().filter(|(by, _)| Some(*by) == best).map(|(_, kind)| kind).collect();
    match (matching.pop(), matching.is_empty()) {
        (None, _) => KindMatch::Nothing,
        (Some(kind), true) => KindMatch::Kind(kind),
        (Some(kind), false) => {
            matching.push(kind);
            KindMatch::Ambiguous(matching)
        }
    }
}

/// The names of several kinds with their groups, joined by `or` for a message.
pub fn qualified_names(kinds: &[&ServedKind]) -> String {
    kinds.iter().map(|kind| kind.gvr.kind.to_string()).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests;
