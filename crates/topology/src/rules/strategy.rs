//! How a policy is merged with more specific policies.

use std::fmt;

use super::has_overlapping_path;
use crate::merge::{
    AtomicDefaults, AtomicOverrides, Entry, MergeDefaults, MergeOverrides, MergeStrategy, has_key, union,
};

/// How a policy is merged with more specific policies, as in GEP-713 and Kuadrant's RFC 0009.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The policy is not merged.
    #[default]
    None,
    /// The policy applies unless a more specific policy has rules.
    AtomicDefaults,
    /// The policy applies instead of all more specific policies.
    AtomicOverrides,
    /// Each rule applies unless a more specific policy has a rule with the same key.
    MergedDefaults,
    /// Each rule applies, even if a more specific policy has a rule with the same key.
    MergedOverrides,
    /// GEP-2649: overrides apply instead of more specific policies. A default applies unless a more specific policy
    /// has a rule with the same key.
    Inherited,
    /// The policy is merged with its parent policy as in [RFC 7396](https://www.rfc-editor.org/rfc/rfc7396). This is a
    /// `mergeType` of Envoy Gateway.
    JsonMerge,
    /// The policy is merged with its parent policy by a strategic merge, which may combine lists. This is a `mergeType`
    /// of Envoy Gateway.
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
    /// The implementation of the strategy. With `has_path_keys`, the keys of rules are paths in a spec. Otherwise the
    /// keys are independent of each other.
    pub(crate) fn implementation(self, has_path_keys: bool) -> &'static dyn MergeStrategy {
        match (self, has_path_keys) {
            (Self::None | Self::JsonMerge | Self::StrategicMerge, _) => &MostSpecific,
            (Self::AtomicDefaults, _) => &AtomicDefaults,
            (Self::AtomicOverrides, _) => &AtomicOverrides,
            (Self::MergedDefaults, false) => &MergeDefaults,
            (Self::MergedOverrides, false) => &MergeOverrides,
            (Self::MergedDefaults, true) => &MergeByPath::Defaults,
            (Self::MergedOverrides, true) => &MergeByPath::Overrides,
            (Self::Inherited, _) => &MergeByPath::Inherited,
        }
    }
}

/// Policies are not merged: the most specific policy applies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MostSpecific;

impl MergeStrategy for MostSpecific {
    fn merge<'p>(&self, _: Vec<Entry<'p>>, more_specific: Vec<Entry<'p>>) -> Vec<Entry<'p>> {
        more_specific
    }
}

/// Merges rules whose keys are paths in a spec. A rule replaces rules at paths inside its own path, and rules whose
/// paths contain its path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MergeByPath {
    /// The rules of the more specific policies win.
    Defaults,
    /// The rules of the less specific policy win.
    Overrides,
    /// The overrides of the less specific policy win, and its defaults lose (GEP-2649).
    Inherited,
}

impl MergeStrategy for MergeByPath {
    fn merge<'p>(&self, own: Vec<Entry<'p>>, more_specific: Vec<Entry<'p>>) -> Vec<Entry<'p>> {
        match self {
            Self::Defaults => union(more_specific, own, is_taken),
            Self::Overrides => union(own, more_specific, is_taken),
            Self::Inherited => {
                let (overrides, defaults) = own.into_iter().partition(|entry| entry.rule.is_override);
                union(union(overrides, more_specific, is_taken), defaults, is_taken)
            }
        }
    }
}

/// Whether `key` is one of `keys`, which are sorted, or a path inside or around one of them.
fn is_taken(keys: &[&str], key: &str) -> bool {
    has_key(keys, key) || has_overlapping_path(keys, key)
}
