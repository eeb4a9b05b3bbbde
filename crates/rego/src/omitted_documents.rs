//! Documents that are omitted because their namespaces exceed their share of memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use policy_sync_api::names::GroupResource;

/// The omitted documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmittedDocuments {
    /// The kinds whose objects are omitted, by namespace.
    pub namespaces: BTreeMap<Arc<str>, BTreeSet<GroupResource>>,
    /// The kinds that modules read, by the purpose of the modules: placement, admission or authorization.
    pub read: BTreeMap<&'static str, BTreeSet<GroupResource>>,
    /// The kinds that modules with enforcement `deny` read, by the purpose of the modules.
    pub denying: BTreeMap<&'static str, BTreeSet<GroupResource>>,
}

impl OmittedDocuments {
    /// A warning for the review of an object of `namespace` for `purpose`, if the review lacks documents. The
    /// warning names no other namespace.
    ///
    /// # Errors
    ///
    /// A message if policies with enforcement `deny` read omitted documents of `namespace` itself.
    pub fn review(&self, purpose: &str, namespace: &str) -> Result<Option<String>, String> {
        let own = self.namespaces.get(namespace);
        let common = |kinds: Option<&BTreeSet<GroupResource>>,
                      read: &BTreeMap<&'static str, BTreeSet<GroupResource>>| {
            let (kinds, read) = (kinds?, read.get(purpose)?);
            kinds.intersection(read).next().cloned()
        };
        if let Some(kind) = common(own, &self.denying) {
            return Err(format!(
                "Rego policies read {kind}, and those of namespace {namespace} exceed its share of --replicate-bytes or --replicate-limit: \
                 delete some of them",
            ));
        }
        let kinds: BTreeSet<_> =
            self.namespaces.values().filter_map(|kinds| common(Some(kinds), &self.read)).collect();
        let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        Ok((!kinds.is_empty()).then(|| {
            format!(
                "reviewed without {} of namespaces that exceed their share of --replicate-bytes or --replicate-limit",
                kinds.join(", ")
            )
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::{ADMISSION, PLACEMENT};

    #[test]
    fn a_namespace_past_its_share_is_denied_and_others_are_warned_without_its_name() {
        let (pods, maps) = (GroupResource::new("", "pods"), GroupResource::new("", "configmaps"));
        let omitted_documents = OmittedDocuments {
            namespaces: [("greedy".into(), [maps.clone()].into()), ("lenient".into(), [pods.clone()].into())]
                .into(),
            read: [(ADMISSION, [maps.clone(), pods].into())].into(),
            denying: [(ADMISSION, [maps].into())].into(),
        };
        let denied = omitted_documents.review(ADMISSION, "greedy").unwrap_err();
        assert!(
            denied
                .starts_with("Rego policies read configmaps, and those of namespace greedy exceed its share"),
            "{denied}"
        );
        for namespace in ["shop", "", "lenient"] {
            let warning = omitted_documents.review(ADMISSION, namespace).unwrap().unwrap();
            assert_eq!(
                warning,
                "reviewed without configmaps, pods of namespaces that exceed their share of --replicate-bytes or --replicate-limit"
            );
        }
        assert_eq!(
            omitted_documents.review(PLACEMENT, "greedy"),
            Ok(None),
            "its policies read nothing of that"
        );
        assert_eq!(OmittedDocuments::default().review(ADMISSION, "greedy"), Ok(None));
    }
}
