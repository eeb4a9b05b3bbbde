//! How a policy is merged with one that is more specific (its target), seen from the less specific one (its source).

use std::fmt;

use super::has_place_of;
use crate::merge::{AtomicDefaults, AtomicOverrides, Entry, MergeDefaults, MergeOverrides, MergeStrategy};

/// How a policy is merged with what is more specific: GEP-713 and Kuadrant's RFC 0009.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// It is not merged.
    #[default]
    None,
    /// It holds where nothing more specific has rules.
    AtomicDefaults,
    /// It holds, and nothing more specific.
    AtomicOverrides,
    /// Each of its rules holds where nothing more specific has one of the same key.
    MergedDefaults,
    /// Each of its rules holds, whatever is more specific.
    MergedOverrides,
    /// GEP-2649: its overrides hold against every more specific policy. Its defaults hold if no more specific policy has a rule with the
    /// same key.
    Inherited,
    /// It is merged with its parent as in [RFC 7396](https://www.rfc-editor.org/rfc/rfc7396): Envoy Gateway's `mergeType`.
    JsonMerge,
    /// The same with a strategic merge, which may combine lists.
    StrategicMerge,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::AtomicDefaults => "atomic defaults",
            Self::AtomicOverrides => "atomic overrides",
            Self::MergedDefaults => "merged defaults",
            Self::MergedOverrides => "merged overrides",
            Self::Inherited => "inherited",
            Self::JsonMerge => "JSON merge",
            Self::StrategicMerge => "strategic merge",
        })
    }
}

impl Strategy {
    /// The strategy for policies whose rules are places in a spec, or have keys that are independent of each other.
    pub(crate) fn merging(self, has_places: bool) -> &'static dyn MergeStrategy {
        match (self, has_places) {
            (Self::None | Self::JsonMerge | Self::StrategicMerge, _) => &MostSpecific,
            (Self::AtomicDefaults, _) => &AtomicDefaults,
            (Self::AtomicOverrides, _) => &AtomicOverrides,
            (Self::MergedDefaults, false) => &MergeDefaults,
            (Self::MergedOverrides, false) => &MergeOverrides,
            (Self::MergedDefaults, true) => &MergeByPlace::Defaults,
            (Self::MergedOverrides, true) => &MergeByPlace::Overrides,
            (Self::Inherited, _) => &MergeByPlace::Inherited,
        }
    }
}

/// Policies are not merged: the most specific one applies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MostSpecific;

impl MergeStrategy for MostSpecific {
    fn merge<'p>(&self, _: Vec<Entry<'p>>, target: Vec<Entry<'p>>) -> Vec<Entry<'p>> {
        target
    }
}

/// Merges rules whose keys are places in a spec: a rule replaces rules at places inside of its own, and those that its place is inside
/// of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MergeByPlace {
    /// The rules of the more specific policies win.
    Defaults,
    /// The rules of the less specific policy win.
    Overrides,
    /// The overrides of the less specific policy win, its defaults lose (GEP-2649).
    Inherited,
}

impl MergeStrategy for MergeByPlace {
    fn merge<'p>(&self, source: Vec<Entry<'p>>, target: Vec<Entry<'p>>) -> Vec<Entry<'p>> {
        match self {
            Self::Defaults => union(target, source),
            Self::Overrides => union(source, target),
            Self::Inherited => {
                let (overrides, defaults) = source.into_iter().partition(|entry| entry.rule.is_override);
                union(union(overrides, target), defaults)
            }
        }
    }
}

/// The rules of `winner`, and those of `loser` whose places are free. Both are in the order of their keys, and so is the result.
fn union<'p>(winner: Vec<Entry<'p>>, loser: Vec<Entry<'p>>) -> Vec<Entry<'p>> {
    let keys: Vec<&str> = winner.iter().map(Entry::key).collect();
    let is_free =
        |entry: &Entry<'_>| keys.binary_search(&entry.key()).is_err() && !has_place_of(&keys, entry.key());
    let others: Vec<Entry<'p>> = loser.into_iter().filter(is_free).collect();
    let mut union = winner;
    union.extend(others);
    union.sort_by(|left, right| left.key().cmp(right.key()));
    union
}
