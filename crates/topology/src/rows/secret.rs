//! Rows of Secrets with certificates. Only Secrets from files are read. Secrets of a cluster are never listed.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use policy_sync_api::object::HubObject;
use policy_sync_api::secret::{CERTIFICATE, KEY, TLS_TYPE};

/// The first bytes of PEM.
const PEM: &[u8] = b"-----BEGIN ";

/// The facts about a Secret that the graph uses. The row contains no part of the Secret's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Secret {
    /// Whether the Secret is of the type `kubernetes.io/tls`.
    pub is_tls: bool,
    /// The first of `tls.crt` and `tls.key` whose value is not PEM.
    pub malformed: Option<&'static str>,
}

impl Secret {
    /// Reads the row from `object`.
    #[must_use]
    pub fn read(object: &HubObject) -> Self {
        let data: BTreeMap<String, Value> = object.data_as();
        let is_pem = |value: &Value| {
            // The base64 text may contain line breaks.
            let text: String =
                value.as_str().unwrap_or_default().chars().filter(|c| !c.is_ascii_whitespace()).collect();
            STANDARD.decode(text).is_ok_and(|content| content.trim_ascii_start().starts_with(PEM))
        };
        let is_malformed = |key: &&str| data.get(*key).is_some_and(|value| !is_pem(value));
        Self {
            is_tls: object.is_of_type(TLS_TYPE),
            malformed: [CERTIFICATE, KEY].into_iter().find(is_malformed),
        }
    }
}
