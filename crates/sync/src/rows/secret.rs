//! Rows of TLS Secrets. Their content must never be printed.

use std::collections::BTreeMap;
use std::fmt;

use super::Strings;
use policy_sync_api::annotations::LAST_APPLIED;
use policy_sync_api::names::ControllerName;
use policy_sync_api::object::HubObject;
use policy_sync_api::secret::{DATA, TLS_TYPE};
use policy_sync_mirror::{ObjectRow, Row};

/// A TLS Secret.
#[derive(Clone, PartialEq)]
pub struct Secret {
    /// The labels of the Secret.
    pub labels: Strings,
    /// The annotations of the Secret.
    pub annotations: Strings,
    /// The data; `None` if the data must not be copied, because the Secret has another type or is terminating.
    pub data: Option<SecretData>,
}

/// The values of the Secret in base64, by key: the certificate, its private key, and the certificate of the authority.
#[derive(Clone, PartialEq)]
pub struct SecretData(pub BTreeMap<String, String>);

impl From<&HubObject> for Secret {
    fn from(object: &HubObject) -> Self {
        let metadata = &object.metadata;
        let travels = object.is_of_type(TLS_TYPE) && metadata.deletion_timestamp.is_none();
        let data = travels.then(|| {
            let mut data: BTreeMap<String, String> = object.data_as();
            data.retain(|name, _| DATA.contains(&name.as_str()));
            SecretData(data)
        });
        let mut annotations = metadata.annotations.clone();
        annotations.remove(LAST_APPLIED);
        Self { labels: metadata.labels.clone(), annotations, data }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Annotations may contain the Secret's data, too.
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretData(hidden)")
    }
}

impl Row for Secret {}

impl ObjectRow for Secret {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        object.into()
    }
}
