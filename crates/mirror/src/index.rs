//! What a capability derives from rows.

use crate::change::Changed;
use crate::row::AnyRow;
use crate::source::{Line, Source};
use crate::tables::Tables;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, ObjectKey};

/// What goes along with a change.
#[derive(Debug)]
pub enum Cascade {
    /// All rows of a source.
    Source(Source),
    /// One row.
    Row(Source, ObjectKey),
    /// This row takes the place of one that is there.
    Replaced(Source, ObjectKey, AnyRow),
}

/// What a capability derives from rows as they come and go. It is kept beside them, under the same lock.
pub trait Index: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// What has to be listed before anything is planned.
    const NEEDED: &'static [&'static Line];

    /// The mirror as its plans see it.
    type View<'m>;

    /// What is derived from nothing, for `controller`.
    fn new(controller: ControllerName) -> Self;

    /// A look at `tables` and at what is derived from them, at the moment `now`.
    fn view<'m>(&'m self, tables: &'m Tables, now: Moment) -> Self::View<'m>;

    /// Whether all else is known without which nothing is planned. Where a row makes it so, and no listing, it is for the
    /// triggers to plan everything.
    fn ready(&self, _tables: &Tables) -> bool {
        true
    }

    /// Whether anything is planned: what is needed has been listed, and all else is known.
    fn plans(&self, tables: &Tables) -> bool {
        tables.listed(Self::NEEDED) && self.ready(tables)
    }

    /// Completes a row of `source` that is about to be put in: from the one that it replaces, or with values that it shares
    /// with others. The `key` stays the same, in another place.
    fn complete(&mut self, _tables: &Tables, _source: &Source, _key: &mut ObjectKey, _row: &mut AnyRow) {}

    /// An object has `changed`, seen at `now`; returns what goes along with that.
    fn changed(&mut self, _tables: &Tables, _changed: &Changed, _now: Moment) -> Vec<Cascade> {
        Vec::new()
    }

    /// Gives memory back that nothing uses any more.
    fn tidy(&mut self) {}

    /// `source` is watched no longer, and its rows are gone; returns what goes along with that.
    fn forgot(&mut self, _tables: &Tables, _source: &Source) -> Vec<Cascade> {
        Vec::new()
    }
}
