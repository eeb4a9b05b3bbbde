//! Hashes of statuses. If the stored and the desired status have the same hash, no write is needed. Transition times
//! are ignored.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use policy_sync_api::json::Hash;
use policy_sync_topology::conditions;
use policy_sync_topology::rows::ParentReference;

/// The hash of conditions without their generations.
pub(super) fn of_conditions(conditions: &[Condition]) -> Hash {
    fn words(condition: &Condition) -> [&str; 4] {
        [&condition.type_, &condition.status, &condition.reason, &condition.message]
    }
    conditions::hash(conditions.iter().map(words))
}

/// The hash of a Gateway's conditions, with the generation of each.
pub(super) fn of_gateway(conditions: Hash, generations: impl Iterator<Item = i64>) -> Hash {
    let mut parts = vec![conditions.to_string()];
    parts.extend(generations.map(|generation| generation.to_string()));
    of_texts(&parts)
}

/// The hash of the entry for `reference` in a route's status.
pub(super) fn of_entry(reference: &ParentReference, conditions: Hash, generation: i64) -> Hash {
    let [kind, port] = [reference.parent.kind().to_string(), reference.port.unwrap_or_default().to_string()];
    let [conditions, generation] = [conditions.to_string(), generation.to_string()];
    let [namespace, section] =
        [&reference.namespace, &reference.section].map(|name| name.as_deref().unwrap_or_default());
    Hash::of_parts(&[&kind, namespace, &reference.name, section, &port, &conditions, &generation])
}

/// The hash of all entries in a route's status. The order is ignored, because other controllers may change it. An entry
/// is `None` if this controller would write it differently.
pub(super) fn of_route(entries: impl Iterator<Item = Option<Hash>>) -> Hash {
    let mut parts: Vec<String> =
        entries.map(|entry| entry.map(|hash| hash.to_string()).unwrap_or_default()).collect();
    parts.sort_unstable();
    of_texts(&parts)
}

fn of_texts(texts: &[String]) -> Hash {
    Hash::of_parts(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}
