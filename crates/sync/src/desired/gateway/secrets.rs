//! Selects the TLS Secrets that are copied with a Gateway, if its class sets `"tlsSecrets": "copy"`.
//!
//! ```text
//! listeners ──▶ named ──▶ granted? ──▶ reserved? ──▶ exists? ─▶ a copy beside the Gateway's
//!                            │             │            │       (from another namespace: also a grant for the spoke)
//!                            └─────────────┴────────────┴─────▶ reported; the Gateway is copied without it
//! ```
//!
//! A Secret of another namespace is looked up only after a ReferenceGrant there has permitted the reference. A
//! reference without a grant therefore reveals nothing about the Secret. On the spoke, each such Secret gets its own
//! ReferenceGrant. A Secret that cannot be copied does not delay the Gateway. As in the Gateway API, the spoke's
//! controller reports the unresolved reference on the listener.
//!
//! Until Secrets are listed, it is unknown which Secrets the works of a Gateway should contain. A plan without Secrets
//! would remove existing copies. A Gateway that names Secrets is therefore frozen until Secrets are listed. If it names
//! a Secret in another namespace, it is also frozen until ReferenceGrants are listed. Once listed, Secrets are planned
//! even while their watch fails.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::desired::copy::copied_entries;
use crate::desired::work::Companion;
use crate::kinds::{GRANTS, SECRETS};
use crate::problem::SecretFault;
use crate::rows::grant::Grant;
use crate::rows::secret::{Secret, SecretData};
use crate::{Problem, Settings, View};
use policy_sync_api::gateway::{GROUP, listener_secrets};
use policy_sync_api::json::Hash;
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_api::params::Params;
use policy_sync_api::secret::TLS_TYPE;
use policy_sync_api::text::excerpt;
use policy_sync_mirror::Source;

/// The maximum number of Secrets whose problems are reported individually.
const REPORTED_LIMIT: usize = 10;

/// The Secrets and ReferenceGrants that are copied with a Gateway, and the problems of Secrets that are not copied.
#[derive(Default)]
pub(super) struct Secrets {
    pub(super) companions: Vec<Companion>,
    pub(super) problems: Vec<Problem>,
}

/// The copies of the Secrets to which the listeners of the Gateway `key` refer. `spec` is the spec of the Gateway.
///
/// # Errors
///
/// [`Problem::Unread`] or [`Problem::SecretsUnread`] if it is unknown which Secrets may be copied.
pub(super) fn planned(
    view: View<'_>,
    settings: &Settings,
    key: &ObjectKey,
    spec: &Value,
    params: &Params,
) -> Result<Secrets, Problem> {
    // Each Secret is checked once. A problem names the first listener that refers to it.
    let mut named: BTreeMap<ObjectKey, String> = BTreeMap::new();
    for named_secret in listener_secrets(spec, &key.namespace) {
        named.entry(named_secret.secret).or_insert(named_secret.listener);
    }
    if named.is_empty() {
        return Ok(Secrets::default());
    }
    listed(view, &SECRETS.all(), "secrets")?;
    let mut granted = Granted::default();
    if named.keys().any(|secret| secret.namespace != key.namespace) {
        listed(view, &GRANTS.all(), "referencegrants")?;
        granted = Granted::new(view, key);
    }
    let mut secrets = Secrets::default();
    let mut left_out = Vec::new();
    for (secret, listener) in named {
        let checked =
            granted.check(key, &secret).and_then(|()| build_companions(view, settings, key, &secret, params));
        match checked {
            Ok(companions) => secrets.companions.extend(companions),
            Err(fault) => left_out.push(Problem::SecretLeftOut {
                listener: excerpt(&listener),
                secret: excerpt(&secret.to_string()),
                fault,
            }),
        }
    }
    let more = left_out.len().saturating_sub(REPORTED_LIMIT);
    secrets.problems = left_out;
    secrets.problems.truncate(REPORTED_LIMIT);
    secrets.problems.extend((more > 0).then_some(Problem::MoreSecretsLeftOut(more)));
    Ok(secrets)
}

fn listed(view: View<'_>, source: &Source, what: &str) -> Result<(), Problem> {
    if view.synced(source).is_some() {
        return Ok(());
    }
    Err(match view.failure(source) {
        Some(fault) => Problem::SecretsUnread { what: what.to_owned(), fault: fault.to_owned() },
        None => Problem::Unread(what.to_owned()),
    })
}

/// The ReferenceGrants that permit references from Gateways of one namespace to Secrets, by the namespace of the
/// grant.
#[derive(Default)]
struct Granted<'v>(BTreeMap<&'v str, Vec<&'v Grant>>);

impl<'v> Granted<'v> {
    fn new(view: View<'v>, gateway: &ObjectKey) -> Self {
        let mut granted = Self::default();
        for (key, grant) in view.grants().filter(|(_, grant)| grant.is_for(&gateway.namespace)) {
            granted.0.entry(&key.namespace).or_default().push(grant);
        }
        granted
    }

    fn check(&self, gateway: &ObjectKey, secret: &ObjectKey) -> Result<(), SecretFault> {
        let mut grants = self.0.get(&*secret.namespace).into_iter().flatten();
        if secret.namespace == gateway.namespace || grants.any(|grant| grant.allows(&secret.name)) {
            Ok(())
        } else {
            Err(SecretFault::NotGranted)
        }
    }
}

/// The copy of the Secret `key`. If it is in a different namespace than the Gateway `gateway`, also a ReferenceGrant.
fn build_companions(
    view: View<'_>,
    settings: &Settings,
    gateway: &ObjectKey,
    key: &ObjectKey,
    params: &Params,
) -> Result<Vec<Companion>, SecretFault> {
    let namespace = settings.downstream_namespace(&key.namespace).map_err(|_| SecretFault::Namespace)?;
    let found = view.secret(key).and_then(|secret| Some((secret, secret.data.as_ref()?)));
    let (secret, data) = found.ok_or(SecretFault::Missing)?;
    let mut companions = vec![copy(secret, data, &namespace, &key.name, params)];
    if key.namespace != gateway.namespace {
        let gateways = settings.prefixed(&gateway.namespace);
        let controller = view.controller().as_str();
        let hash = Hash::of_parts(&[controller, &gateway.namespace, &key.namespace, &key.name]);
        companions.push(Companion {
            kind: GroupResource::reference_grants(),
            object: json!({
                "apiVersion": format!("{GROUP}/v1beta1"),
                "kind": "ReferenceGrant",
                "metadata": {"name": format!("policy-sync-{hash}"), "namespace": namespace},
                "spec": {
                    "from": [{"group": GROUP, "kind": "Gateway", "namespace": gateways}],
                    "to": [{"group": "", "kind": "Secret", "name": key.name}],
                },
            }),
        });
    }
    Ok(companions)
}

fn copy(secret: &Secret, data: &SecretData, namespace: &str, name: &str, params: &Params) -> Companion {
    let mut metadata = Map::from_iter([("name".into(), json!(name)), ("namespace".into(), json!(namespace))]);
    for (field, strings) in [("labels", &secret.labels), ("annotations", &secret.annotations)] {
        let strings = copied_entries(strings, &params.metadata_to_skip);
        if !strings.is_empty() {
            metadata.insert(field.into(), json!(strings));
        }
    }
    let object =
        json!({"apiVersion": "v1", "kind": "Secret", "type": TLS_TYPE, "metadata": metadata, "data": data.0});
    Companion { kind: GroupResource::secrets(), object }
}
