//! The work queue keys of the writer of webhook configurations, and the mapping of changes to keys.

use std::collections::BTreeSet;

use super::index::Index;
use super::kinds::{ConfigurationKind, SECRETS};
use policy_sync_mirror::{self as mirror, Priority};
use policy_sync_mirror::{Changes, MirrorChange};

/// A unit of work of the writer of webhook configurations.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    /// Loads the certificate that this process serves.
    Served,
    /// Renews the certificate in the Secret.
    Certificate,
    /// Updates the entries of a configuration.
    Entries(ConfigurationKind),
}

impl Key {
    pub(super) fn all() -> BTreeSet<Self> {
        [Self::Served, Self::Certificate]
            .into_iter()
            .chain(ConfigurationKind::ALL.map(Self::Entries))
            .collect()
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
        Priority::High
    }
}

/// The keys that `changes` affect.
pub(super) fn affected(changes: &Changes<'_, Index>) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    for changed in changes.iter() {
        let source = match changed {
            MirrorChange::Object { source, .. } | MirrorChange::FailureChanged { source, .. } => source,
            MirrorChange::Listed(source) | MirrorChange::Unwatched(source) => source,
            MirrorChange::Everything => continue,
        };
        // Entries must trust a new CA before the CA signs a certificate. So certificate and entries depend on each
        // other.
        if source.is(&SECRETS) {
            keys.extend(Key::all());
        } else if let Some(kind) = ConfigurationKind::of(source) {
            keys.extend([Key::Entries(kind), Key::Certificate]);
        }
    }
    keys
}
