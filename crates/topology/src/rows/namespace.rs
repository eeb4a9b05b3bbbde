//! Rows of Namespaces.

use std::collections::BTreeMap;

use policy_sync_api::object::HubObject;

/// A Namespace: its labels, by which listeners select routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// The label that the API server adds to each Namespace, with the Namespace's name.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The labels that every Namespace with this name has.
pub fn name_label(name: &str) -> BTreeMap<String, String> {
    [(NAME_LABEL.to_owned(), name.to_owned())].into()
}

impl Namespace {
    /// Reads the row from `object`.
    #[must_use]
    pub fn read(object: &HubObject) -> Self {
        Self { labels: object.metadata.labels.clone() }
    }
}
