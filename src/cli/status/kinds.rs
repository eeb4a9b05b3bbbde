//! The kinds of policies that parameters list, and which of them a user means.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;

use crate::api::names::GroupVersionResource;

/// A kind of policies that the hub serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PolicyKind {
    /// Where it is served.
    pub(super) gvr: GroupVersionResource,
    /// Its name in objects.
    pub(super) kind: String,
    /// Its other names: singular and short ones.
    names: Vec<String>,
}

impl PolicyKind {
    /// The kind `gvr` as the hub's discovery describes it.
    pub(super) fn new(gvr: GroupVersionResource, served: &APIResource) -> Self {
        let names = [&served.singular_name].into_iter().chain(served.short_names.iter().flatten());
        Self {
            gvr,
            kind: served.kind.clone(),
            names: names.filter(|name| !name.is_empty()).cloned().collect(),
        }
    }

    /// Whether `word` means this kind: plural, singular, short name or `Kind`, alone or with the group behind a dot,
    /// in any case.
    pub(super) fn is(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        let resource: &str = &self.gvr.kind.resource;
        let own = self.kind.to_lowercase();
        let mut names = [resource, &own].into_iter().chain(self.names.iter().map(String::as_str));
        let (bare, group) = word.split_once('.').map_or((word.as_str(), None), |(n, group)| (n, Some(group)));
        names.any(|name| name == bare) && group.is_none_or(|group| *group == *self.gvr.kind.group)
    }
}

#[cfg(test)]
mod tests;
