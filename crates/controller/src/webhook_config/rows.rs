//! The rows of the webhook configurations and the Secret.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use policy_sync_api::names::ControllerName;
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{ObjectRow, Row};

/// The suffix of the entry names of all controllers.
const SUFFIX: &str = ".policysync.kuadrant.io";

/// The suffix of the entry names of `controller`: `-<hash>.policysync.kuadrant.io`.
pub(super) fn entry_suffix(controller: &ControllerName) -> String {
    format!("-{}{SUFFIX}", controller.hash())
}

/// A webhook configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Configuration {
    pub uid: String,
    /// The entries of this controller, each with its index in the list.
    pub entries: Vec<(usize, Value)>,
    /// Entries whose names have the suffix of a different controller. This controller may have had such a name before.
    pub former: Vec<(usize, Value)>,
}

impl Row for Configuration {}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Text {
    webhooks: Vec<Value>,
}

impl ObjectRow for Configuration {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        let text: Option<Text> =
            object.text.as_deref().and_then(|text| serde_json::from_str(text.get()).ok());
        let suffix = entry_suffix(controller);
        let ends =
            |entry: &Value, suffix: &str| entry["name"].as_str().is_some_and(|name| name.ends_with(suffix));
        let entries = text.unwrap_or_default().webhooks.into_iter().enumerate();
        let of_any = entries.filter(|(_, entry)| ends(entry, SUFFIX));
        let (entries, former) = of_any.partition(|(_, entry)| ends(entry, &suffix));
        Self { uid: object.metadata.uid.clone(), entries, former }
    }
}

/// The contents of the Secret as PEM; missing parts are empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct CertificateSecret {
    pub uid: String,
    /// The CA certificates. The signing CA comes first, followed by previous CAs that have not expired.
    pub authorities: String,
    /// The private key of the first CA.
    pub authority_key: String,
    /// The serving certificate.
    pub certificate: String,
    /// The private key of the serving certificate.
    pub key: String,
}

/// The keys in the data of the Secret.
const KEYS: [&str; 4] = ["ca.crt", "ca.key", "tls.crt", "tls.key"];
/// Maximum size of one value, in bytes: a hundred times the usual size.
const LIMIT: usize = 64 * 1024;

impl CertificateSecret {
    /// The data of the Secret, in base64.
    pub(super) fn data(&self) -> BTreeMap<&'static str, String> {
        let texts = [&self.authorities, &self.authority_key, &self.certificate, &self.key];
        KEYS.into_iter().zip(texts.map(|text| STANDARD.encode(text))).collect()
    }
}

impl Row for CertificateSecret {}

impl ObjectRow for CertificateSecret {
    fn prune(object: &HubObject, _: &ControllerName) -> Self {
        let data: BTreeMap<String, String> = object.data_as();
        let text = |key: &str| {
            let bytes = STANDARD.decode(data.get(key)?).ok()?;
            String::from_utf8(bytes).ok().filter(|text| text.len() <= LIMIT)
        };
        let [authorities, authority_key, certificate, key] = KEYS.map(|key| text(key).unwrap_or_default());
        Self { uid: object.metadata.uid.clone(), authorities, authority_key, certificate, key }
    }
}

/// Omits private keys.
impl fmt::Debug for CertificateSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateSecret").field("uid", &self.uid).finish_non_exhaustive()
    }
}
