//! The TLS Secrets that travel with a Gateway, where its class says `"tlsSecrets": "copy"`.
//!
//! ```text
//! listeners ──▶ named ──▶ granted? ──▶ reserved? ──▶ there? ──▶ a copy beside the Gateway's
//!                            │             │            │       (and of another namespace: the spoke's own grant)
//!                            └─────────────┴────────────┴─────▶ told; the Gateway goes without it
//! ```
//!
//! A Secret of another namespace is looked for only after a ReferenceGrant there has let the Gateway's namespace name it:
//! whoever names one without learns nothing of it. On the spoke each such Secret gets a grant of its own, for it alone.
//! What keeps one Secret from travelling keeps nothing else back, as Gateway API has it: the spoke's own controller says
//! of the listener that its reference does not resolve.
//!
//! While Secrets are not listed, which of them a Gateway's works hold is not known, and without Secrets it would be another
//! work. So a Gateway that names some is frozen until then; one that names none is not, and one that names those of its
//! own namespace alone does not wait for ReferenceGrants. What was listed once is planned from, though its watch may fail.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::desired::copy::travelling;
use crate::desired::work::Companion;
use crate::kinds::{GRANTS, SECRETS};
use crate::problem::SecretFault;
use crate::rows::grant::Grant;
use crate::rows::secret::{Secret, SecretData};
use crate::{Problem, Settings, View};
use policy_sync_api::gateway::{GROUP, named_secrets};
use policy_sync_api::json::Hash;
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_api::params::Params;
use policy_sync_api::secret::TLS;
use policy_sync_api::text::excerpt;
use policy_sync_mirror::Source;

/// How many Secrets that do not travel are told one by one.
const TOLD: usize = 10;

/// What travels with a Gateway, and what does not although a listener names it.
#[derive(Default)]
pub(super) struct Secrets {
    pub(super) companions: Vec<Companion>,
    pub(super) problems: Vec<Problem>,
}

/// The Secrets that the listeners of the Gateway `key` with this spec name.
///
/// # Errors
///
/// [`Problem::Unread`] and [`Problem::SecretsUnread`] where it is not known which may travel.
pub(super) fn planned(
    view: View<'_>,
    settings: &Settings,
    key: &ObjectKey,
    spec: &Value,
    params: &Params,
) -> Result<Secrets, Problem> {
    // Each is decided on once, and told of the first listener that names it.
    let mut named: BTreeMap<ObjectKey, String> = BTreeMap::new();
    for named_secret in named_secrets(spec, &key.namespace) {
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
        let carried = granted.check(key, &secret).and_then(|()| carry(view, settings, key, &secret, params));
        match carried {
            Ok(companions) => secrets.companions.extend(companions),
            Err(fault) => left_out.push(Problem::SecretLeftOut {
                listener: excerpt(&listener),
                secret: excerpt(&secret.to_string()),
                fault,
            }),
        }
    }
    let more = left_out.len().saturating_sub(TOLD);
    secrets.problems = left_out;
    secrets.problems.truncate(TOLD);
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

/// The ReferenceGrants that let the Gateways of one namespace name Secrets, by their own namespaces.
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

/// The copy of a Secret, and where it is of another namespace than the Gateway `gateway` the grant for the spoke.
fn carry(
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
        let strings = travelling(strings, &params.metadata_to_skip);
        if !strings.is_empty() {
            metadata.insert(field.into(), json!(strings));
        }
    }
    let object =
        json!({"apiVersion": "v1", "kind": "Secret", "type": TLS, "metadata": metadata, "data": data.0});
    Companion { kind: GroupResource::secrets(), object }
}
