//! What objects say of the policies that affect them, and of what they attach to: conditions, as a graph has them.
//!
//! They name policies and say no values, so that a changed limit changes none of them.

mod gateways;
mod routes;

use std::collections::{BTreeMap, BTreeSet};

use super::graph::Graph;
use super::locator::Locator;
use crate::api::json::Hash;
use crate::api::text::named;

pub use gateways::affected;
pub use routes::{EntryTold, RoutesTold};

/// What types of conditions begin with that say which policies affect an object.
pub const AFFECTED_DOMAIN: &str = "policysync.kuadrant.io/";
/// What they end with, after the policies' kind.
pub const AFFECTED: &str = "Affected";
/// The most conditions that the API has an object say, or an entry of a route's status.
pub const CONDITIONS_LIMIT: usize = 8;
/// The most of these that say which policies affect it: two others stand beside them.
pub const AFFECTED_LIMIT: usize = CONDITIONS_LIMIT - 2;

/// A condition, without when it became so, and of which generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its type.
    pub name: String,
    /// `True` or `False`.
    pub status: &'static str,
    /// Why, in a word.
    pub reason: &'static str,
    /// The same in a sentence.
    pub message: String,
}

/// Conditions that stand together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Each.
    pub said: Box<[Said]>,
    /// The hash of all that they say.
    pub hash: Hash,
}

impl From<Vec<Said>> for Conditions {
    fn from(said: Vec<Said>) -> Self {
        let texts = said.iter().map(|said| [&said.name, said.status, said.reason, &said.message]);
        Self { hash: hash(texts), said: said.into() }
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
    in_force: BTreeSet<u32>,
    stacked: BTreeSet<u32>,
}

impl<'f> Affecting<'f> {
    fn of_kind(&mut self, kind: &'f str) -> &mut Affects {
        self.0.entry(kind).or_default()
    }

    /// The conditions, at most `room` of them: the last counts the kinds that have none of their own.
    fn conditions(&self, room: usize, message: impl Fn(&Affects) -> String) -> Vec<Said> {
        let mut said: Vec<Said> =
            self.0.iter().take(room).map(|(kind, of)| affects(kind, message(of))).collect();
        let more: Vec<&str> = self.0.keys().skip(room).copied().collect();
        if let Some(last) = said.last_mut()
            && !more.is_empty()
        {
            last.message =
                format!("{}; and policies of {} more kinds: {}", last.message, more.len(), named(&more));
        }
        // As they are compared.
        said.sort_by(|left, right| left.name.cmp(&right.name));
        said
    }
}

fn affects(kind: &str, message: String) -> Said {
    Said { name: format!("{AFFECTED_DOMAIN}{kind}{AFFECTED}"), status: "True", reason: AFFECTED, message }
}

impl Graph<'_> {
    /// The names of policies, those of kinds of different groups with their groups.
    fn names_of(&self, policies: &BTreeSet<u32>) -> Vec<String> {
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
