//! A read-only view of the mirror for plans. This capability derives no data from the rows.

use super::kinds::{ConfigurationKind, secret, secret_key};
use super::rows::{CertificateSecret, Configuration};
use super::settings::Settings;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ControllerName;
use policy_sync_mirror::{KindDeclaration, Source, Tables};

/// The controller that the mirror belongs to.
#[derive(Clone, Debug)]
pub(super) struct Index(ControllerName);

impl policy_sync_mirror::Index for Index {
    /// The watched objects depend on the settings, so no kind is always required.
    const REQUIRED_KINDS: &'static [&'static KindDeclaration] = &[];
    type View<'m> = View<'m>;

    fn new(controller: ControllerName) -> Self {
        Self(controller)
    }

    fn view<'m>(&'m self, tables: &'m Tables, _: Moment) -> View<'m> {
        View { tables, controller: &self.0 }
    }
}

/// The mirror at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'m> {
    tables: &'m Tables,
    /// The controller that the mirror belongs to.
    pub controller: &'m ControllerName,
}

impl<'m> View<'m> {
    /// A webhook configuration; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// If the configuration is not read yet or cannot be read, with the reason.
    pub(super) fn configuration(
        &self,
        settings: &Settings,
        kind: ConfigurationKind,
    ) -> Result<Option<&'m Configuration>, String> {
        let source = kind.source(settings);
        self.known(&source).map(|()| self.tables.row(&source, &ConfigurationKind::key(settings)))
    }

    /// The Secret with the certificate; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// If the Secret is not read yet or cannot be read, with the reason.
    pub(super) fn secret(&self, settings: &Settings) -> Result<Option<&'m CertificateSecret>, String> {
        let source = secret(settings);
        self.known(&source).map(|()| self.tables.row(&source, &secret_key(settings)))
    }

    /// The highest resource version seen from `source`.
    pub(super) fn version(&self, source: &Source) -> u64 {
        self.tables.version(source)
    }

    /// Whether `source` is listed and its watch does not fail.
    pub(super) fn is_up(&self, source: &Source) -> bool {
        self.tables.synced(source).is_some() && self.tables.failure(source).is_none()
    }

    /// The failing sources with their errors.
    pub(super) fn failing(&self) -> impl Iterator<Item = (&'m Source, &'m str)> {
        self.tables.failing().into_iter()
    }

    fn known(&self, source: &Source) -> Result<(), String> {
        match (self.tables.synced(source), self.tables.failure(source)) {
            (Some(_), _) => Ok(()),
            (None, Some(failing)) => Err(format!("{source}: {}", failing.text)),
            (None, None) => Err(format!("{source}: not read yet")),
        }
    }
}
