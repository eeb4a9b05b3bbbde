//! The registry: what is watched to register webhooks, and what is kept of it. Each is one object, by its name.

use super::rows::{Configuration, Kept};
use super::settings::Settings;
use policy_sync_api::names::{GroupVersionResource, ObjectKey};
use policy_sync_mirror::{Kind, Source, Wanted};

/// The group of configurations.
const GROUP: &str = "admissionregistration.k8s.io";
/// MutatingWebhookConfigurations.
static MUTATING: Kind<Configuration> = Kind::new(GROUP, "v1", "mutatingwebhookconfigurations").with_text();
/// ValidatingWebhookConfigurations.
static VALIDATING: Kind<Configuration> =
    Kind::new(GROUP, "v1", "validatingwebhookconfigurations").with_text();
/// Secrets.
pub(super) static SECRETS: Kind<Kept> = Kind::new("", "v1", "secrets");

/// One of the two configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Sort {
    /// Its webhooks may change what is written.
    Mutating,
    /// Its webhooks only see it.
    Validating,
}

impl Sort {
    /// Both.
    pub(super) const ALL: [Self; 2] = [Self::Mutating, Self::Validating];

    fn line(self) -> &'static Kind<Configuration> {
        match self {
            Self::Mutating => &MUTATING,
            Self::Validating => &VALIDATING,
        }
    }

    /// The configuration.
    pub(super) fn source(self, settings: &Settings) -> Source {
        self.line().object(Self::key(settings))
    }

    /// Its name.
    pub(super) fn key(settings: &Settings) -> ObjectKey {
        ObjectKey::new("", &settings.name)
    }

    /// Its resource.
    pub(super) fn gvr(self) -> GroupVersionResource {
        self.line().gvr()
    }

    /// Its kind.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        }
    }

    /// Which of them `source` is.
    pub(super) fn of(source: &Source) -> Option<Self> {
        Self::ALL.into_iter().find(|sort| source.is(sort.line()))
    }
}

/// The key of the Secret with the certificate.
pub(super) fn secret_key(settings: &Settings) -> ObjectKey {
    ObjectKey::new(&settings.namespace, &settings.secret())
}

/// That Secret.
pub(super) fn secret(settings: &Settings) -> Source {
    SECRETS.object(secret_key(settings))
}

/// What is watched.
pub(super) fn wanted(settings: &Settings) -> Wanted {
    let configurations = Sort::ALL.into_iter().map(|sort| (sort.source(settings), sort.gvr()));
    let own = matches!(settings.authority, super::Authority::Own);
    configurations.chain(own.then(|| (secret(settings), SECRETS.gvr()))).collect()
}
