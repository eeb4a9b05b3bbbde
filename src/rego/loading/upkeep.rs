//! How what is derived from rows follows them.

use super::index::Index;
use super::kinds::{CONFIG_MAPS, DOCUMENTS};
use super::rows::{Carrier, Document};
use super::view::View;
use crate::api::moment::Moment;
use crate::api::names::{ControllerName, ObjectKey};
use crate::hub::{self, AnyRow, Cascade, Changed, Line, Source, Tables};

impl hub::Index for Index {
    /// Where policies come from, only settings say.
    const NEEDED: &'static [&'static Line] = &[];
    type View<'m> = View<'m>;

    fn new(controller: ControllerName) -> Self {
        Self::new(controller)
    }

    fn view<'m>(&'m self, tables: &'m Tables, now: Moment) -> View<'m> {
        View::new(tables, self, now)
    }

    fn complete(&mut self, tables: &Tables, source: &Source, key: &mut ObjectKey, row: &mut AnyRow) {
        if let Some(Document(value)) = row.get_mut::<Document>() {
            *value = self.sharing.share(value);
        } else if source.is(&CONFIG_MAPS)
            && let Some(Carrier { carried: Some(carried), .. }) = row.get_mut::<Carrier>()
            && let Some(before) = tables.row::<Carrier>(source, key).and_then(|row| row.carried.as_ref())
        {
            carried.keep_good_data(before);
        }
    }

    fn forgot(&mut self, _: &Tables, source: &Source) -> Vec<Cascade> {
        if source.is(&DOCUMENTS) {
            self.sharing.sweep();
        }
        Vec::new()
    }

    fn changed(&mut self, tables: &Tables, changed: &Changed, _: Moment) -> Vec<Cascade> {
        if let Changed::Object { source, key, .. } = changed
            && let Some(kind) = DOCUMENTS.resource_of(source)
        {
            match tables.row::<Document>(source, key) {
                Some(Document(document)) => self.put(kind, key, document.clone()),
                None => self.take(kind, key),
            }
        }
        Vec::new()
    }
}
