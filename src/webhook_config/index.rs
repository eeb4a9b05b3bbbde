//! The mirror as plans see it; nothing is derived from its rows.

use super::kinds::{Sort, secret, secret_key};
use super::rows::{Configuration, Kept};
use super::settings::Settings;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ControllerName;
use policy_sync_mirror::{Line, Source, Tables};

/// For whom the mirror is.
#[derive(Clone, Debug)]
pub(super) struct Index(ControllerName);

impl policy_sync_mirror::Index for Index {
    /// Which objects these are, only settings say.
    const NEEDED: &'static [&'static Line] = &[];
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
    /// For whom it is.
    pub controller: &'m ControllerName,
}

impl<'m> View<'m> {
    /// A configuration.
    ///
    /// # Errors
    ///
    /// Why it cannot be known.
    pub(super) fn configuration(
        &self,
        settings: &Settings,
        sort: Sort,
    ) -> Result<Option<&'m Configuration>, String> {
        let source = sort.source(settings);
        self.known(&source).map(|()| self.tables.row(&source, &Sort::key(settings)))
    }

    /// The Secret.
    ///
    /// # Errors
    ///
    /// Why it cannot be known.
    pub(super) fn secret(&self, settings: &Settings) -> Result<Option<&'m Kept>, String> {
        let source = secret(settings);
        self.known(&source).map(|()| self.tables.row(&source, &secret_key(settings)))
    }

    /// The highest version that `source` has seen.
    pub(super) fn version(&self, source: &Source) -> u64 {
        self.tables.version(source)
    }

    /// Whether `source` was listed, and can be watched.
    pub(super) fn is_up(&self, source: &Source) -> bool {
        self.tables.synced(source).is_some() && self.tables.failure(source).is_none()
    }

    /// What is watched, and cannot be.
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
