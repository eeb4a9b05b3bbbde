//! Updates the derived data when rows change.

use super::index::Index;
use super::kinds::{CONFIG_MAPS, DOCUMENTS, documents};
use super::rows::{Carrier, Document};
use super::shares::NamespacedKind;
use super::view::View;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_mirror::{AnyRow, Cascade, KindDeclaration, MirrorChange, Source, Tables};

impl policy_sync_mirror::Index for Index {
    /// The watched kinds depend on the settings, so no kind is always required.
    const REQUIRED_KINDS: &'static [&'static KindDeclaration] = &[];
    type View<'m> = View<'m>;

    fn new(controller: ControllerName) -> Self {
        Self::new(controller, usize::MAX, usize::MAX)
    }

    fn view<'m>(&'m self, tables: &'m Tables, now: Moment) -> View<'m> {
        View::new(tables, self, now)
    }

    fn complete(&mut self, tables: &Tables, source: &Source, key: &mut ObjectKey, row: &mut AnyRow) {
        if let Some(document) = row.get_mut::<Document>()
            && let Some(kind) = DOCUMENTS.resource_of(source)
        {
            if self.usage.are_left_out(&key.namespace, kind) {
                *document = document.left_out();
            } else {
                document.value = self.sharing.share(&document.value);
            }
        } else if source.is(&CONFIG_MAPS)
            && let Some(Carrier { carried: Some(carried), .. }) = row.get_mut::<Carrier>()
            && let Some(before) = tables.row::<Carrier>(source, key).and_then(|row| row.carried.as_ref())
        {
            carried.keep_last_valid_data(before);
        }
    }

    fn source_removed(&mut self, _: &Tables, source: &Source) -> Vec<Cascade> {
        if source.is(&DOCUMENTS) {
            self.sharing.sweep();
        }
        Vec::new()
    }

    fn changed(&mut self, tables: &Tables, changed: &MirrorChange, _: Moment) -> Vec<Cascade> {
        let MirrorChange::Object { source, key, before } = changed else { return Vec::new() };
        let Some(kind) = DOCUMENTS.resource_of(source) else { return Vec::new() };
        let before = before.as_ref().and_then(AnyRow::get::<Document>);
        let document = tables.row::<Document>(source, key);
        self.usage.replace(&key.namespace, kind, before, document);
        let Some(object) = document.and_then(Document::object) else {
            self.take(kind, key);
            return Vec::new();
        };
        self.put(kind, key, object.clone());
        let cut = self.usage.take_excess();
        cut.into_iter().flat_map(|part| self.leave_out(tables, &part)).collect()
    }

    fn release_memory(&mut self) {
        self.sharing.sweep();
    }
}

impl Index {
    /// Replaces the rows of the documents in `part` by rows without objects.
    fn leave_out(&self, tables: &Tables, part: &NamespacedKind) -> Vec<Cascade> {
        let source = documents(&part.kind);
        let keys = self.names(&part.kind, &part.namespace).into_iter();
        let replaced = keys.filter_map(|key| {
            let row = AnyRow::new(tables.row::<Document>(&source, &key)?.left_out());
            Some(Cascade::ReplaceRow(source.clone(), key, row))
        });
        replaced.collect()
    }
}
