//! What stands in the statuses of Gateways and routes, as far as it is this controller's to write.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api::gateway::CONDITIONS;
use crate::api::json::Hash;
use crate::api::names::ControllerName;
use crate::api::object::HubObject;
use crate::hub::{Pruned, Row};
use crate::topology::rows::ParentReference;
use crate::topology::told::{self, AFFECTED_DOMAIN};

/// What a route says of its parents, as its status has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Of the route, unique over time.
    pub(super) uid: Hash,
    /// Of the route: changes with its spec.
    pub(super) generation: i64,
    /// The hash of what this controller says.
    pub(super) said: Hash,
    /// Whether it says anything, and of the present generation.
    pub(super) is_current: bool,
    /// How many entries others have written.
    pub(super) others: usize,
}

impl Standing {
    /// What stands in `route`.
    pub(super) fn of(route: &HubObject, controller: &ControllerName) -> Self {
        let entries = Entries::read(route, controller);
        let generation = route.metadata.generation;
        let mut generations = entries.ours.iter().flatten().map(Entry::generation);
        Self {
            uid: Hash::of_text(&route.metadata.uid),
            generation,
            said: entries.said(),
            is_current: !entries.ours.is_empty() && generations.all(|seen| seen == Some(generation)),
            others: entries.others.len(),
        }
    }
}

/// The entries of a route's status.
#[derive(Debug)]
pub(super) struct Entries<'o> {
    /// Those of this controller; `None` what is none that it writes.
    pub(super) ours: Vec<Option<Entry>>,
    /// Those of others, as they are.
    pub(super) others: Vec<&'o RawValue>,
}

/// What this controller says of one reference.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    /// The reference.
    parent_ref: ParentReference,
    /// What it says of it.
    #[serde(default)]
    pub(super) conditions: Vec<Condition>,
}

impl Entry {
    /// The generation that all of it is of.
    fn generation(&self) -> Option<i64> {
        let first = self.conditions.first()?.observed_generation;
        self.conditions.iter().all(|condition| condition.observed_generation == first).then_some(first)?
    }

    fn part(&self) -> Option<Hash> {
        let conditions = told::hash(self.conditions.iter().map(words));
        Some(part(&self.parent_ref, conditions, self.generation()?))
    }
}

impl<'o> Entries<'o> {
    /// Those of `route`.
    pub(super) fn read(route: &'o HubObject, controller: &ControllerName) -> Self {
        #[derive(Default, Deserialize)]
        struct Status<'o> {
            #[serde(borrow, default)]
            parents: Vec<&'o RawValue>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Owned {
            controller_name: String,
        }
        let status = route.status.as_deref().map(|status| serde_json::from_str::<Status<'o>>(status.get()));
        let status = status.and_then(Result::ok).unwrap_or_default();
        let is_ours = |entry: &&RawValue| {
            let owned = serde_json::from_str::<Owned>(entry.get());
            owned.is_ok_and(|owned| owned.controller_name == controller.as_str())
        };
        let (ours, others): (Vec<_>, Vec<_>) = status.parents.into_iter().partition(is_ours);
        let ours = ours.into_iter().map(|entry| serde_json::from_str(entry.get()).ok()).collect();
        Self { ours, others }
    }

    /// The hash of what this controller says.
    pub(super) fn said(&self) -> Hash {
        said(self.ours.iter().map(|entry| entry.as_ref().and_then(Entry::part)))
    }

    /// The conditions that this controller says of `reference`.
    pub(super) fn conditions(&self, reference: &ParentReference) -> &[Condition] {
        let mut ours = self.ours.iter().flatten();
        ours.find(|entry| entry.parent_ref == *reference).map_or(&[], |entry| &entry.conditions)
    }
}

/// The hash of what a route says of its parents: of each entry its part, `None` where nobody would write it so.
pub(super) fn said(parts: impl Iterator<Item = Option<Hash>>) -> Hash {
    let mut parts: Vec<String> =
        parts.map(|part| part.map(|part| part.to_string()).unwrap_or_default()).collect();
    // Whoever writes others' entries may put ours in another order.
    parts.sort_unstable();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    Hash::of_parts(&parts)
}

/// What an entry adds to that: what it says of `reference`, and of which generation.
pub(super) fn part(reference: &ParentReference, conditions: Hash, generation: i64) -> Hash {
    let [kind, port] = [reference.parent.kind().to_string(), reference.port.unwrap_or_default().to_string()];
    let [conditions, generation] = [conditions.to_string(), generation.to_string()];
    let [namespace, section] =
        [&reference.namespace, &reference.section].map(|name| name.as_deref().unwrap_or_default());
    Hash::of_parts(&[&kind, namespace, &reference.name, section, &port, &conditions, &generation])
}

/// What a condition says, but for when and of which generation.
fn words(condition: &Condition) -> [&str; 4] {
    [&condition.type_, &condition.status, &condition.reason, &condition.message]
}

/// What a Gateway says of the policies that affect it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GatewayStanding {
    /// Unique over time.
    pub(super) uid: Arc<str>,
    /// Changes with the spec.
    pub(super) generation: i64,
    /// The conditions of ours.
    pub(super) conditions: Box<[Condition]>,
    /// How many other conditions there are, beside the two that every Gateway of ours has.
    pub(super) others: usize,
    /// Whether any of it is this controller's.
    pub(super) is_ours: bool,
}

impl GatewayStanding {
    /// Whether `other` differs in nothing but what this controller says.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        let key = |row: &Self| (row.uid.clone(), row.generation, row.others);
        key(self) == key(other)
    }

    /// The hash of what it says.
    pub(super) fn said(&self) -> Hash {
        let generations =
            self.conditions.iter().map(|condition| condition.observed_generation.unwrap_or_default());
        of_gateway(told::hash(self.conditions.iter().map(words)), generations)
    }
}

/// The hash of what a Gateway says: of its conditions, and of the generation of each.
pub(super) fn of_gateway(conditions: Hash, generations: impl Iterator<Item = i64>) -> Hash {
    let mut parts = vec![conditions.to_string()];
    parts.extend(generations.map(|generation| generation.to_string()));
    Hash::of_parts(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}

impl Row for GatewayStanding {}

impl Pruned for GatewayStanding {
    fn prune(object: &HubObject, controller: &ControllerName) -> Self {
        #[derive(Default, Deserialize)]
        struct Status {
            #[serde(default)]
            conditions: Vec<Condition>,
        }
        let status: Status = object.status_as();
        let manager = controller.topology_field_manager();
        let applied = object.metadata.managed_fields.iter().find(|entry| entry.are_applied_by(&manager));
        let fields =
            applied.and_then(|entry| entry.fields_v1.as_deref()).map(RawValue::get).unwrap_or_default();
        // What somebody else has put there is theirs, whatever it is called.
        let is_ours = |condition: &Condition| {
            condition.type_.starts_with(AFFECTED_DOMAIN)
                && fields.contains(&format!(r#""k:{{\"type\":\"{}\"}}""#, condition.type_))
        };
        let (mut ours, others): (Vec<_>, Vec<_>) = status.conditions.into_iter().partition(is_ours);
        ours.sort_by(|left, right| left.type_.cmp(&right.type_));
        let is_beside = |condition: &&Condition| !CONDITIONS.contains(&condition.type_.as_str());
        Self {
            uid: object.metadata.uid.as_str().into(),
            generation: object.metadata.generation,
            others: others.iter().filter(is_beside).count(),
            conditions: ours.into(),
            is_ours: applied.is_some(),
        }
    }
}
