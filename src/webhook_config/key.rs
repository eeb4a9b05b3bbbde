//! What the registrar keeps as planned, and which change affects what.

use std::collections::BTreeSet;

use super::index::Index;
use super::kinds::{SECRETS, Sort};
use policy_sync_mirror::{self as mirror, Priority};
use policy_sync_mirror::{Changed, Changes};

/// What the registrar keeps as planned.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    /// The certificate that this process serves with.
    Served,
    /// The certificate in the Secret.
    Certificate,
    /// The entries of a configuration.
    Entries(Sort),
}

impl Key {
    /// All of them.
    pub(super) fn all() -> BTreeSet<Self> {
        [Self::Served, Self::Certificate].into_iter().chain(Sort::ALL.map(Self::Entries)).collect()
    }
}

impl mirror::Key for Key {
    const CATEGORIES: &'static [&'static str] = &["webhook_served", "webhook_certificate", "webhook_entries"];

    fn category(&self) -> &'static str {
        match self {
            Self::Served => "webhook_served",
            Self::Certificate => "webhook_certificate",
            Self::Entries(_) => "webhook_entries",
        }
    }

    fn priority(&self) -> Priority {
        Priority::First
    }
}

/// The keys that `changes` affect.
pub(super) fn affected(changes: &Changes<'_, Index>) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    for changed in changes.iter() {
        let source = match changed {
            Changed::Object { source, .. } | Changed::Failing { source, .. } => source,
            Changed::Listed(source) | Changed::Forgotten(source) => source,
            Changed::Everything => continue,
        };
        // A new authority counts in entries first, and what entries trust decides what is signed.
        if source.is(&SECRETS) {
            keys.extend(Key::all());
        } else if let Some(sort) = Sort::of(source) {
            keys.extend([Key::Entries(sort), Key::Certificate]);
        }
    }
    keys
}
