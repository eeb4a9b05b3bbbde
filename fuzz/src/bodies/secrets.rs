//! A model of the Secrets that are copied with a Gateway, computed from the objects. The model follows the
//! documentation and is independent of the product's code for references and grants.

use std::collections::BTreeSet;

use policy_sync_api::gateway::GROUP;
use policy_sync_api::names::ObjectKey;
use policy_sync_sync::kinds::{GATEWAYS, GRANTS, SECRETS};
use serde_json::{Value, json};

use super::hub::{Hub, PREFIX};

/// The type of the copied Secrets, and the names of the copied values.
const TYPE: &str = "kubernetes.io/tls";
const NAMES: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];

/// Checks that the works of the Gateway `key` contain exactly the allowed Secrets. `copies` states whether the class of
/// the Gateway copies Secrets. `companions` are the manifests besides the Gateway.
pub(super) fn check_copied_secrets(hub: &Hub, key: &ObjectKey, copies: bool, companions: &[&Value]) {
    let of = |kind: &'static str| companions.iter().copied().filter(move |object| object["kind"] == kind);
    let text =
        |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let address = |object: &Value| (text(object, "namespace"), text(object, "name"));
    let allowed = if copies { allowed(hub, key) } else { BTreeSet::new() };
    let downstream = |(namespace, name): &(String, String)| (format!("{PREFIX}{namespace}"), name.clone());
    let carried: BTreeSet<_> = of("Secret").map(address).collect();
    assert_eq!(carried, allowed.iter().map(downstream).collect(), "Secrets of {key}");

    let own = format!("{PREFIX}{}", key.namespace);
    for secret in of("Secret") {
        let (namespace, name) = address(secret);
        let hub_key = ObjectKey::new(namespace.trim_start_matches(PREFIX), &name);
        let found = &hub.objects[&(SECRETS.all(), hub_key)];
        assert_eq!((&secret["type"], &secret["apiVersion"]), (&TYPE.into(), &"v1".into()));
        for (name, value) in secret["data"].as_object().expect("data is an object") {
            assert!(NAMES.contains(&name.as_str()) && found["data"][name] == *value, "{name}");
        }
        let fields = secret.as_object().expect("an object").keys();
        let known = ["apiVersion", "data", "kind", "metadata", "type"];
        assert_eq!(fields.collect::<Vec<_>>(), known);
    }
    // Each Secret of another namespace has exactly one grant on the spoke, and there are no other grants.
    let granted = of("ReferenceGrant").map(|grant| {
        let (namespace, _) = address(grant);
        let name = grant["spec"]["to"][0]["name"].as_str().unwrap_or_default().to_owned();
        let expected = json!({
            "from": [{"group": GROUP, "kind": "Gateway", "namespace": own}],
            "to": [{"group": "", "kind": "Secret", "name": name}],
        });
        assert_eq!(grant["spec"], expected);
        (namespace, name)
    });
    let elsewhere: BTreeSet<_> = carried.iter().filter(|(namespace, _)| *namespace != own).cloned().collect();
    assert_eq!(granted.collect::<BTreeSet<_>>(), elsewhere);
    let namespaces: BTreeSet<String> = of("Namespace").map(|object| text(object, "name")).collect();
    assert_eq!(namespaces, elsewhere.into_iter().map(|(namespace, _)| namespace).collect());
    let known = |object: &&Value| {
        ["Namespace", "ReferenceGrant", "Secret"].iter().any(|kind| object["kind"] == **kind)
    };
    assert!(companions.iter().all(known), "the work has a manifest of another kind");
}

/// The Secrets that the Gateway's listeners reference and may use, by namespace and name.
fn allowed(hub: &Hub, key: &ObjectKey) -> BTreeSet<(String, String)> {
    let gateway = &hub.objects[&(GATEWAYS.all(), key.clone())];
    let mut allowed = BTreeSet::new();
    for listener in gateway["spec"]["listeners"].as_array().into_iter().flatten() {
        if listener["tls"]["mode"] == "Passthrough" {
            continue;
        }
        for reference in listener["tls"]["certificateRefs"].as_array().into_iter().flatten() {
            let group = &reference["group"];
            let kind = &reference["kind"];
            let namespace = if reference["namespace"].is_null() {
                Some(&*key.namespace)
            } else {
                reference["namespace"].as_str()
            };
            if let (true, true, Some(namespace), Some(name)) = (
                group.is_null() || group == "",
                kind.is_null() || kind == "Secret",
                namespace,
                reference["name"].as_str(),
            ) && may_be_copied(hub, &key.namespace, namespace, name)
            {
                allowed.insert((namespace.to_owned(), name.to_owned()));
            }
        }
    }
    allowed
}

fn may_be_copied(hub: &Hub, gateway: &str, namespace: &str, name: &str) -> bool {
    let Some(secret) = hub.objects.get(&(SECRETS.all(), ObjectKey::new(namespace, name))) else {
        return false;
    };
    let downstream = format!("{PREFIX}{namespace}");
    secret["type"] == TYPE
        && secret["metadata"]["deletionTimestamp"].is_null()
        && downstream.len() <= 63
        && downstream != "kuadrant-system"
        && (namespace == gateway || is_granted(hub, gateway, namespace, name))
}

fn is_granted(hub: &Hub, gateway: &str, namespace: &str, name: &str) -> bool {
    let items = |grant: &'static str| {
        move |object: &Value| object["spec"][grant].as_array().cloned().unwrap_or_default()
    };
    let (from, to) = (items("from"), items("to"));
    let lets = |grant: &Value| {
        let who = from(grant)
            .iter()
            .any(|from| from["group"] == GROUP && from["kind"] == "Gateway" && from["namespace"] == gateway);
        let what = to(grant).iter().any(|to| {
            let named = to["name"].is_null() || to["name"] == name;
            to["group"] == "" && to["kind"] == "Secret" && named
        });
        who && what && grant["metadata"]["deletionTimestamp"].is_null()
    };
    let mut grants = hub
        .objects
        .iter()
        .filter(|((source, key), _)| *source == GRANTS.all() && *key.namespace == *namespace);
    grants.any(|(_, grant)| lets(grant))
}
