//! How a policy is merged with one that is more specific (its target), seen from the less specific one (its source).

use std::fmt;

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
