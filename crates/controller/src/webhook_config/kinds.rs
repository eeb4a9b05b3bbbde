//! The registry of watched kinds for webhooks. Each source is a single object, selected by name.

use super::rows::{CertificateSecret, Configuration};
use super::settings::Settings;
use policy_sync_api::names::{GroupVersionResource, ObjectKey};
use policy_sync_mirror::{Kind, Source, WatchedSources};

/// The API group of the configurations.
const GROUP: &str = "admissionregistration.k8s.io";
static MUTATING: Kind<Configuration> = Kind::new(GROUP, "v1", "mutatingwebhookconfigurations").with_text();
static VALIDATING: Kind<Configuration> =
    Kind::new(GROUP, "v1", "validatingwebhookconfigurations").with_text();
pub(super) static SECRETS: Kind<CertificateSecret> = Kind::new("", "v1", "secrets");

/// One of the two webhook configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ConfigurationKind {
    /// The configuration whose webhooks may patch objects.
    Mutating,
    /// The configuration whose webhooks see the final object.
    Validating,
}

impl ConfigurationKind {
    /// Both webhook configurations.
    pub(super) const ALL: [Self; 2] = [Self::Mutating, Self::Validating];

    fn line(self) -> &'static Kind<Configuration> {
        match self {
            Self::Mutating => &MUTATING,
            Self::Validating => &VALIDATING,
        }
    }

    /// The source that watches the configuration.
    pub(super) fn source(self, settings: &Settings) -> Source {
        self.line().object(Self::key(settings))
    }

    /// The name of the configuration. Both configurations have the same name.
    pub(super) fn key(settings: &Settings) -> ObjectKey {
        ObjectKey::new("", &settings.name)
    }

    pub(super) fn gvr(self) -> GroupVersionResource {
        self.line().gvr()
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        }
    }

    /// The configuration that `source` watches.
    pub(super) fn of(source: &Source) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| source.is(kind.line()))
    }
}

/// The name of the Secret with the certificate.
pub(super) fn secret_key(settings: &Settings) -> ObjectKey {
    ObjectKey::new(&settings.namespace, &settings.secret())
}

/// The source that watches the Secret.
pub(super) fn secret(settings: &Settings) -> Source {
    SECRETS.object(secret_key(settings))
}

/// The sources to watch: both configurations, and the Secret if this controller issues the certificate.
pub(super) fn wanted(settings: &Settings) -> WatchedSources {
    let configurations = ConfigurationKind::ALL.into_iter().map(|kind| (kind.source(settings), kind.gvr()));
    let own = matches!(settings.authority, super::Authority::Own);
    configurations.chain(own.then(|| (secret(settings), SECRETS.gvr()))).collect()
}
