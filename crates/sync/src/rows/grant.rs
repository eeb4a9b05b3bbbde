//! Rows of ReferenceGrants, reduced to references from Gateways to Secrets.
//! <https://gateway-api.sigs.k8s.io/api-types/referencegrant/>

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use policy_sync_api::gateway::GROUP;
use policy_sync_api::names::ControllerName;
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{ObjectRow, Row};

/// A ReferenceGrant.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// The namespaces whose Gateways may refer to Secrets in the grant's namespace; empty if the grant is
    /// terminating.
    from: BTreeSet<Arc<str>>,
    /// The Secrets that these Gateways may refer to; `None` for all Secrets.
    to: Option<BTreeSet<Arc<str>>>,
}

impl Grant {
    /// Whether the grant lets Gateways of `namespace` refer to at least one Secret.
    #[must_use]
    pub fn is_for(&self, namespace: &str) -> bool {
        self.from.contains(namespace)
    }

    /// Whether the grant permits references to the Secret `name`.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.to.as_ref().is_none_or(|names| names.contains(name))
    }
}

impl From<&HubObject> for Grant {
    fn from(object: &HubObject) -> Self {
        let spec = object.spec_value();
        let items = |field: &str, group: &str, kind: &str| -> Vec<Value> {
            let items = spec[field].as_array().into_iter().flatten();
            items.filter(|item| item["group"] == group && item["kind"] == kind).cloned().collect()
        };
        let from = match object.metadata.deletion_timestamp {
            Some(_) => Vec::new(),
            None => items("from", GROUP, "Gateway"),
        };
        let to = items("to", "", "Secret");
        let text = |item: &Value, field: &str| item[field].as_str().map(Arc::from);
        Self {
            from: from.iter().filter_map(|item| text(item, "namespace")).collect(),
            to: match to.iter().any(|item| item["name"].is_null()) {
                true => None,
                false => Some(to.iter().filter_map(|item| text(item, "name")).collect()),
            },
        }
    }
}

impl Row for Grant {}

impl ObjectRow for Grant {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        object.into()
    }
}
