//! The conditions of Gateways, listeners and routes: the policies that affect an object, its attachments and
//! its references.
//!
//! The conditions contain the names of policies but no values, so that a changed limit does not change a condition.

mod listeners;
mod routes;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::graph::{Graph, NodeId};
use super::locator::Locator;
use crate::topology::PolicyId;
use policy_sync_api::condition::condition;
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::text::named;

pub use listeners::ListenerConditions;
pub use routes::{ParentConditions, RouteConditions};

/// The prefix of the condition types that list the policies affecting an object.
pub const AFFECTED_DOMAIN: &str = "policysync.kuadrant.io/";
/// The suffix of the condition types that list the policies affecting an object. The kind of the policies is between
/// prefix and suffix.
pub const AFFECTED: &str = "Affected";
/// The maximum number of conditions of an object, and of an entry in a route's status, that the API accepts.
pub const CONDITIONS_LIMIT: usize = 8;
/// The maximum number of conditions about affecting policies. Two other conditions are always present.
pub const AFFECTED_LIMIT: usize = CONDITIONS_LIMIT - 2;

/// The maximum length in bytes of a message that contains text from users.
const MESSAGE_LIMIT: usize = 4096;

/// A condition without its transition time and its generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConditionText {
    /// The condition's type.
    pub name: String,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The reason of the condition, in CamelCase.
    pub reason: &'static str,
    /// The message of the condition.
    pub message: String,
}

impl ConditionText {
    /// The complete condition for an object of this `generation`. `found` are the object's present conditions. If they
    /// contain this condition with the same status, its transition time is kept. Otherwise the transition time is
    /// `now`.
    #[must_use]
    pub fn dated(&self, found: &[Condition], generation: i64, now: Moment) -> Condition {
        condition(found, &self.name, (self.status, self.reason), self.message.clone(), generation, now)
    }
}

/// The conditions of one object or of one entry in a route's status.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// The conditions.
    pub texts: Box<[ConditionText]>,
    /// The hash of all conditions.
    pub hash: Hash,
}

impl From<Vec<ConditionText>> for Conditions {
    fn from(texts: Vec<ConditionText>) -> Self {
        let each = texts.iter().map(|text| [&text.name, text.status, text.reason, &text.message]);
        Self { hash: hash(each), texts: texts.into() }
    }
}

/// The hash of conditions, each given by its type, status, reason and message.
#[must_use]
pub fn hash<'t>(conditions: impl Iterator<Item = [&'t str; 4]>) -> Hash {
    Hash::of_parts(conditions.flatten().collect::<Vec<_>>().as_slice())
}

/// The policies that affect an object, by the name of their kind. Kinds of two groups may share a name.
#[derive(Debug, Default)]
struct AffectingPolicies<'f>(BTreeMap<&'f str, KindPolicies>);

/// Policies of one kind. Their ids are in the order of their locators.
#[derive(Debug, Default)]
struct KindPolicies {
    in_force: BTreeSet<PolicyId>,
    stacked: BTreeSet<PolicyId>,
}

impl<'f> AffectingPolicies<'f> {
    fn of_kind(&mut self, kind: &'f str) -> &mut KindPolicies {
        self.0.entry(kind).or_default()
    }

    /// The conditions, at most `room`. The message of the last condition lists the kinds without a condition.
    fn conditions(&self, room: usize, message: impl Fn(&KindPolicies) -> String) -> Vec<ConditionText> {
        let mut texts: Vec<ConditionText> =
            self.0.iter().take(room).map(|(kind, of)| affected_condition(kind, message(of))).collect();
        let more: Vec<&str> = self.0.keys().skip(room).copied().collect();
        if let Some(last) = texts.last_mut()
            && !more.is_empty()
        {
            last.message =
                format!("{}; and policies of {} more kinds: {}", last.message, more.len(), named(&more));
        }
        // The comparison with the object's present conditions requires this order.
        texts.sort_by(|left, right| left.name.cmp(&right.name));
        texts
    }
}

fn affected_condition(kind: &str, message: String) -> ConditionText {
    ConditionText {
        name: format!("{AFFECTED_DOMAIN}{kind}{AFFECTED}"),
        status: "True",
        reason: AFFECTED,
        message,
    }
}

impl Graph<'_> {
    /// The names of policies; with their groups if the policies are of kinds in different groups.
    fn names_of(&self, policies: &BTreeSet<PolicyId>) -> Vec<String> {
        let locators = || policies.iter().map(|number| self.policy(*number).locator);
        let mut groups = locators().map(|locator| locator.kind.group);
        let first = groups.next();
        let is_plain = groups.all(|group| Some(group) == first);
        let name = |locator: Locator<'_>| {
            if is_plain { locator.object() } else { format!("{} ({})", locator.object(), locator.kind.group) }
        };
        locators().map(name).collect()
    }
}

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
