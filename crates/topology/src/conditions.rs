//! The conditions of Gateways, listeners and routes: the policies that affect an object, its attachments and its references.
//!
//! They name policies and say no values, so that a changed limit changes none of them.

mod gateways;
mod listeners;
mod routes;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::graph::Graph;
use super::locator::Locator;
use crate::topology::PolicyId;
use policy_sync_api::condition::condition;
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::text::named;

pub use gateways::gateway_conditions;
pub use listeners::ListenerConditions;
pub use routes::{ParentConditions, RouteConditions};

/// What types of conditions begin with that say which policies affect an object.
pub const AFFECTED_DOMAIN: &str = "policysync.kuadrant.io/";
/// What they end with, after the policies' kind.
pub const AFFECTED: &str = "Affected";
/// The most conditions of an object that the API takes, and of an entry of a route's status.
pub const CONDITIONS_LIMIT: usize = 8;
/// The most of these that say which policies affect it: two others stand beside them.
pub const AFFECTED_LIMIT: usize = CONDITIONS_LIMIT - 2;

/// The most bytes of a message that repeats what others wrote.
const MESSAGE_LIMIT: usize = 4096;

/// A condition, without when it became so, and of which generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConditionText {
    /// Its type.
    pub name: String,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Why, in a word.
    pub reason: &'static str,
    /// The same in a sentence.
    pub message: String,
}

impl ConditionText {
    /// The condition of an object of this `generation`. Since when it has its status is as `found` knows, or now.
    #[must_use]
    pub fn dated(&self, found: &[Condition], generation: i64, now: Moment) -> Condition {
        condition(found, &self.name, (self.status, self.reason), self.message.clone(), generation, now)
    }
}

/// Conditions that stand together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// Each.
    pub texts: Box<[ConditionText]>,
    /// The hash of all of them.
    pub hash: Hash,
}

impl From<Vec<ConditionText>> for Conditions {
    fn from(texts: Vec<ConditionText>) -> Self {
        let each = texts.iter().map(|text| [&text.name, text.status, text.reason, &text.message]);
        Self { hash: hash(each), texts: texts.into() }
    }
}

/// The hash of conditions, each of its type, its status, its reason and its message.
#[must_use]
pub fn hash<'t>(conditions: impl Iterator<Item = [&'t str; 4]>) -> Hash {
    Hash::of_parts(conditions.flatten().collect::<Vec<_>>().as_slice())
}

/// The names of the policies of one kind that affect something, by the kind's name. Kinds of two groups may share one.
#[derive(Debug, Default)]
struct Affecting<'f>(BTreeMap<&'f str, Affects>);

/// Policies of a kind, by their numbers, which are in the order of their locators.
#[derive(Debug, Default)]
struct Affects {
    in_force: BTreeSet<PolicyId>,
    stacked: BTreeSet<PolicyId>,
}

impl<'f> Affecting<'f> {
    fn of_kind(&mut self, kind: &'f str) -> &mut Affects {
        self.0.entry(kind).or_default()
    }

    /// The conditions, at most `room` of them: the last counts the kinds that have none of their own.
    fn conditions(&self, room: usize, message: impl Fn(&Affects) -> String) -> Vec<ConditionText> {
        let mut texts: Vec<ConditionText> =
            self.0.iter().take(room).map(|(kind, of)| affects(kind, message(of))).collect();
        let more: Vec<&str> = self.0.keys().skip(room).copied().collect();
        if let Some(last) = texts.last_mut()
            && !more.is_empty()
        {
            last.message =
                format!("{}; and policies of {} more kinds: {}", last.message, more.len(), named(&more));
        }
        // As they are compared.
        texts.sort_by(|left, right| left.name.cmp(&right.name));
        texts
    }
}

fn affects(kind: &str, message: String) -> ConditionText {
    ConditionText {
        name: format!("{AFFECTED_DOMAIN}{kind}{AFFECTED}"),
        status: "True",
        reason: AFFECTED,
        message,
    }
}

impl Graph<'_> {
    /// The names of policies, those of kinds of different groups with their groups.
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
