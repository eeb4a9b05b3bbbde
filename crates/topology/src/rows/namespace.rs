//! Namespaces.

use std::collections::BTreeMap;

use policy_sync_api::object::HubObject;

/// A Namespace: its labels, by which listeners choose routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// The label that the API server gives each Namespace: its name.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The labels that each Namespace of this name has.
pub fn name_label(name: &str) -> BTreeMap<String, String> {
    [(NAME_LABEL.to_owned(), name.to_owned())].into()
}

impl Namespace {
    /// The row of `object`.
    #[must_use]
    pub fn read(object: &HubObject) -> Self {
        Self { labels: object.metadata.labels.clone() }
    }
}
