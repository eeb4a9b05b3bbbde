//! The conditions of Gateways: the policies on a Gateway and on its own listeners.

use std::collections::BTreeMap;

use super::{AffectingPolicies, ConditionText};
use crate::graph::{Graph, NodeId};
use crate::topology::PolicyId;
use policy_sync_api::text::named;

/// The conditions that list the policies on the Gateway `node` and on its own listeners, at most `room`.
#[must_use]
pub fn gateway_conditions(graph: &Graph<'_>, node: NodeId, room: usize) -> Vec<ConditionText> {
    let mut affecting = AffectingPolicies::default();
    let mut listeners: BTreeMap<PolicyId, Vec<&str>> = BTreeMap::new();
    for place in [node].into_iter().chain(graph.sections(node)) {
        for number in graph.topology().policies_of(place) {
            affecting.of_kind(graph.policy(number).locator.kind.kind).in_force.insert(number);
            let on = listeners.entry(number).or_default();
            on.extend(graph.listener(place).map(|listener| &*listener.name));
        }
    }
    affecting.conditions(room, |of| {
        let names = graph.names_of(&of.in_force).into_iter().zip(&of.in_force);
        let names = names.map(|(name, number)| match listeners.get(number).map(Vec::as_slice) {
            None | Some([]) => name,
            Some([listener]) => format!("{name} on listener {listener}"),
            Some(on) => format!("{name} on listeners {}", named(on)),
        });
        format!("affected by {}", named(&names.collect::<Vec<_>>()))
    })
}
