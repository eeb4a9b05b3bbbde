//! Hashes of what statuses say: the same of what is there and of what the graph has, where nothing is to be written. When a condition
//! became so does not count.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use policy_sync_api::json::Hash;
use policy_sync_topology::conditions;
use policy_sync_topology::rows::ParentReference;

/// That of conditions, but for their generations.
pub(super) fn of_conditions(conditions: &[Condition]) -> Hash {
    fn words(condition: &Condition) -> [&str; 4] {
        [&condition.type_, &condition.status, &condition.reason, &condition.message]
    }
    conditions::hash(conditions.iter().map(words))
}

/// That of a Gateway's: of its conditions, and of the generation of each.
pub(super) fn of_gateway(conditions: Hash, generations: impl Iterator<Item = i64>) -> Hash {
    let mut parts = vec![conditions.to_string()];
    parts.extend(generations.map(|generation| generation.to_string()));
    of_texts(&parts)
}

/// That of an entry of a route: of what it says of `reference`, in which generation.
pub(super) fn of_entry(reference: &ParentReference, conditions: Hash, generation: i64) -> Hash {
    let [kind, port] = [reference.parent.kind().to_string(), reference.port.unwrap_or_default().to_string()];
    let [conditions, generation] = [conditions.to_string(), generation.to_string()];
    let [namespace, section] =
        [&reference.namespace, &reference.section].map(|name| name.as_deref().unwrap_or_default());
    Hash::of_parts(&[&kind, namespace, &reference.name, section, &port, &conditions, &generation])
}

/// That of a route: of its entries in any order, as others who write the list may change that; `None` is one that nobody would write
/// so.
pub(super) fn of_route(entries: impl Iterator<Item = Option<Hash>>) -> Hash {
    let mut parts: Vec<String> =
        entries.map(|entry| entry.map(|hash| hash.to_string()).unwrap_or_default()).collect();
    parts.sort_unstable();
    of_texts(&parts)
}

fn of_texts(texts: &[String]) -> Hash {
    Hash::of_parts(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}
