//! The data that a capability derives from rows.

use crate::change::MirrorChange;
use crate::row::AnyRow;
use crate::source::{KindDeclaration, Source};
use crate::tables::Tables;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, ObjectKey};

/// A change that the index makes in response to another change.
#[derive(Debug)]
pub enum Cascade {
    /// Remove all rows of a source.
    RemoveSource(Source),
    /// Remove one row.
    RemoveRow(Source, ObjectKey),
    /// Replace an existing row.
    ReplaceRow(Source, ObjectKey, AnyRow),
}

/// Data that a capability derives from rows as they change. It is stored with the tables, under the same lock.
pub trait Index: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// The kinds that must be listed before anything is planned.
    const REQUIRED_KINDS: &'static [&'static KindDeclaration];

    /// The capability's view of the mirror.
    type View<'m>;

    /// An empty index for `controller`.
    fn new(controller: ControllerName) -> Self;

    /// A view of `tables` and the index at the time `now`.
    fn view<'m>(&'m self, tables: &'m Tables, now: Moment) -> Self::View<'m>;

    /// Whether the preconditions of planning are met, apart from [`Self::REQUIRED_KINDS`]. If a row meets the last
    /// precondition after these kinds were listed, the mirror does not return [`MirrorChange::Everything`]. The
    /// capability's triggers must then queue all keys.
    fn ready(&self, _tables: &Tables) -> bool {
        true
    }

    /// Whether planning may begin: [`Self::REQUIRED_KINDS`] is listed, and the index is ready.
    fn can_plan(&self, tables: &Tables) -> bool {
        tables.listed(Self::REQUIRED_KINDS) && self.ready(tables)
    }

    /// Completes a row before it is stored, for example with values of the row that it replaces, or with shared
    /// strings. `key` may be replaced only by an equal key.
    fn complete(&mut self, _tables: &Tables, _source: &Source, _key: &mut ObjectKey, _row: &mut AnyRow) {}

    /// Updates the index after a change at the time `now`. Returns the changes that must follow.
    fn changed(&mut self, _tables: &Tables, _changed: &MirrorChange, _now: Moment) -> Vec<Cascade> {
        Vec::new()
    }

    /// Releases memory that is no longer used.
    fn release_memory(&mut self) {}

    /// Updates the index after `source` is no longer watched and its rows are removed. Returns the changes that must
    /// follow.
    fn source_removed(&mut self, _tables: &Tables, _source: &Source) -> Vec<Cascade> {
        Vec::new()
    }
}
