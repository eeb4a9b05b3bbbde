//! Kinds of objects, and which of them a user means.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery};

use policy_sync_api::names::GroupVersionResource;
use policy_sync_api::params::Role;
use policy_sync_hub::{HubClient, HubError};
use policy_sync_sync::kinds::GATEWAYS;

/// A kind of policies, or of resources, that the hub serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    /// Where it is served.
    pub gvr: GroupVersionResource,
    /// Its name in objects.
    pub kind: String,
    /// As what parameters list it.
    pub role: Role,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
    singular: String,
    short: Vec<String>,
}

impl ServedKind {
    /// The kind of Gateways, which are called as policies are.
    pub fn gateways() -> Self {
        let (kind, singular, short) = ("Gateway".to_owned(), "gateway".to_owned(), vec!["gtw".to_owned()]);
        Self { gvr: GATEWAYS.gvr(), kind, role: Role::Policy, is_namespaced: true, singular, short }
    }

    /// A kind of the core group, which every cluster serves.
    pub fn core(kind: &str, resource: &str) -> Self {
        let gvr = GroupVersionResource::new("", "v1", resource);
        Self { is_namespaced: resource != "namespaces", ..Self::given(Role::Resource, gvr, kind) }
    }

    /// The kind `gvr` of objects that say to be of `kind`, where nothing else is known of it.
    pub fn given(role: Role, gvr: GroupVersionResource, kind: &str) -> Self {
        let singular = kind.to_lowercase();
        Self { gvr, kind: kind.to_owned(), role, is_namespaced: true, singular, short: Vec::new() }
    }

    /// Whether a user means this kind by `word`, with no other kind to be confused with.
    pub fn is_meant_by(&self, word: &str) -> bool {
        self.is_named(word).is_some()
    }

    /// The kind `gvr`, which is listed as what `role` says, as the hub's discovery describes it.
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

    /// The same as aggregated discovery describes it.
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

    /// Whether `word` is the plural, the singular or the `Kind` of this kind, or else a short name; alone or with the
    /// group behind a dot, or version and group; in any case.
    fn is_named(&self, word: &str) -> Option<By> {
        let word = word.to_lowercase();
        let (bare, of) = word.split_once('.').map_or((&*word, None), |(bare, of)| (bare, Some(of)));
        let (group, version) = (&self.gvr.kind.group, &self.gvr.version);
        if of.is_some_and(|of| *of != **group && of != format!("{version}.{group}")) {
            return None;
        }
        let full = [&*self.gvr.kind.resource, &*self.kind.to_lowercase(), &*self.singular];
        if !bare.is_empty() && full.contains(&bare) {
            Some(By::Name)
        } else {
            self.short.iter().any(|short| short == bare).then_some(By::ShortName)
        }
    }
}

/// The kinds that a hub serves, without those of the core group.
#[derive(Debug, Default)]
pub struct Discovered {
    /// Each in the version that the hub prefers.
    pub kinds: Vec<ServedKind>,
    /// The groups of unavailable API services, whose kinds may be missing above.
    pub stale: BTreeSet<String>,
}

/// The kinds that the hub serves.
///
/// # Errors
///
/// Where it does not say.
pub async fn discover(hub: &HubClient) -> Result<Discovered, HubError> {
    let groups = hub.client().list_api_groups_aggregated().await;
    let groups = groups.map_err(|error| hub.failure("ask for the APIs", &error))?.items;
    Ok(Discovered::of(groups))
}

impl Discovered {
    /// The message that the kinds of some API groups are unknown; `None` if discovery is complete.
    #[must_use]
    pub fn unread(&self) -> Option<String> {
        let groups: Vec<&str> = self.stale.iter().map(String::as_str).collect();
        let line =
            || format!("the kinds of {} are unknown: their API services do not answer", groups.join(", "));
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
        // The preferred version comes first; not each version has each kind.
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

/// What a word is to a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Name,
    ShortName,
}

/// What a word means.
#[derive(Debug, PartialEq)]
pub enum Meant<'k> {
    /// One kind.
    Kind(&'k ServedKind),
    /// Any of these.
    Ambiguous(Vec<&'k ServedKind>),
    /// None.
    Nothing,
}

/// The kind that a user means by `word`. As with `kubectl`, a name is more than another kind's short name.
pub fn meant<'k>(kinds: &'k [ServedKind], word: &str) -> Meant<'k> {
    let named = || kinds.iter().filter_map(|kind| Some((kind.is_named(word)?, kind)));
    let best = named().map(|(by, _)| by).min();
    let mut meant: Vec<&ServedKind> =
        named().filter(|(by, _)| Some(*by) == best).map(|(_, kind)| kind).collect();
    match (meant.pop(), meant.is_empty()) {
        (None, _) => Meant::Nothing,
        (Some(kind), true) => Meant::Kind(kind),
        (Some(kind), false) => {
            meant.push(kind);
            Meant::Ambiguous(meant)
        }
    }
}

/// The names by which several kinds can be told apart.
pub fn full(kinds: &[&ServedKind]) -> String {
    kinds.iter().map(|kind| kind.gvr.kind.to_string()).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests;
