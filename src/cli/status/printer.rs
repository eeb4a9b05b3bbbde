//! The output of `status --watch`: compares items with the previous output, and prints the rows that changed.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::Format;
use super::table::Row;
use super::view::View;
use crate::cli::columns::Columns;
use crate::cli::output;
use crate::cli::text::printable;
use policy_sync_report::{Item, ItemKey, Table};

/// The terminal sequence that clears the screen and moves the cursor to its upper left corner.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J\u{1b}[3J";

/// New output, for standard output and for standard error.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PrinterOutput {
    pub(super) printed: String,
    pub(super) diagnostics: Vec<String>,
}

/// A function that returns the number of columns of the terminal, if it is known.
pub(super) type Screen = fn() -> Option<usize>;

/// The state of the output.
pub(super) struct Printer {
    view: View,
    format: Format,
    /// The terminal on which tables are redrawn. Without one, changed rows are appended.
    screen: Option<Screen>,
    columns: BTreeMap<Table, Columns>,
    /// The table of the last row.
    last: Option<Table>,
    objects: BTreeMap<ItemKey, Object>,
    /// A line about a limit of the watch. On a terminal it is part of each screen, otherwise it is a
    /// diagnostic of the first output.
    note: Option<&'static str>,
}

/// The last output of an object.
#[derive(Default)]
struct Object {
    item: Option<Item>,
    rows: Vec<Row>,
    document: Option<Value>,
    diagnostics: Vec<String>,
}

impl Printer {
    pub(super) fn new(view: View, format: Format, screen: Option<Screen>) -> Self {
        let (columns, objects) = (BTreeMap::new(), BTreeMap::new());
        Self { view, format, screen, columns, last: None, objects, note: None }
    }

    /// Adds a line about a limit of the watch.
    pub(super) fn with_note(self, note: &'static str) -> Self {
        Self { note: Some(note), ..self }
    }

    /// The output for changed items; `None` is a deleted item.
    ///
    /// # Errors
    ///
    /// If an item cannot be formatted.
    pub(super) fn update(
        &mut self,
        items: impl IntoIterator<Item = (ItemKey, Option<Item>)>,
        now: Timestamp,
    ) -> anyhow::Result<PrinterOutput> {
        let (mut update, mut cells) = (PrinterOutput::default(), BTreeMap::<Table, Vec<Vec<String>>>::new());
        if self.screen.is_none() {
            update.diagnostics.extend(self.note.take().map(str::to_owned));
        }
        for (key, item) in items {
            let old = self.objects.remove(&key).unwrap_or_default();
            let shown = item.as_ref().filter(|item| self.view.shows(item));
            let new = shown.map(|item| self.object(item)).unwrap_or_default();
            update
                .diagnostics
                .extend(new.diagnostics.iter().filter(|text| !old.diagnostics.contains(text)).cloned());
            match self.format {
                Format::Table | Format::Wide => {
                    let created = shown.and_then(Item::created);
                    let rows = rows(&old.rows, &new.rows);
                    let new = rows.iter().map(|row| self.view.cells(key.table, row, created, now));
                    cells.entry(key.table).or_default().extend(new);
                }
                Format::Json | Format::Yaml if new.document != old.document => {
                    let gone = || json!({"resource": key.resource, "namespace": key.namespace, "name": key.name, "gone": true});
                    let document = new.document.clone().unwrap_or_else(gone);
                    update.printed.push_str(&self.text(&document)?);
                }
                Format::Json | Format::Yaml => {}
            }
            if item.is_some() {
                self.objects.insert(key, new);
            }
        }
        cells.retain(|_, rows| !rows.is_empty());
        if let Some(width) = self.screen.filter(|_| !cells.is_empty()) {
            update.printed = self.drawn(now, width());
            // Diagnostics are part of the screen, which overwrites standard error.
            update.diagnostics.clear();
        } else {
            for (table, rows) in cells {
                update.printed.push_str(&self.below(table, rows));
            }
        }
        Ok(update)
    }

    /// Formats rows to append. Headers are added if the previous row belongs to another table.
    fn below(&mut self, table: Table, rows: Vec<Vec<String>>) -> String {
        let headers = Some(self.view.headers(table)).filter(|_| self.last != Some(table));
        let between = if headers.is_some() && self.last.is_some() { "\n" } else { "" };
        self.last = Some(table);
        let text = self.columns.entry(table).or_default().text(headers.into_iter().chain(rows));
        format!("{between}{text}")
    }

    /// Formats a screen with all items.
    fn drawn(&self, now: Timestamp, width: Option<usize>) -> String {
        let items = self.objects.values().filter_map(|object| object.item.as_ref());
        let of_objects = self.objects.values().flat_map(|object| &object.diagnostics).map(String::as_str);
        let diagnostics: Vec<&str> = of_objects.chain(self.note).collect();
        let diagnostics = diagnostics.iter().map(|text| format!("{}\n", printable(text))).collect::<String>();
        let between = if diagnostics.is_empty() { "" } else { "\n" };
        format!("{CLEAR}{}{between}{diagnostics}", self.view.tables(items, now, width))
    }

    fn object(&self, item: &Item) -> Object {
        let documents = matches!(self.format, Format::Json | Format::Yaml);
        Object {
            item: self.screen.map(|_| item.clone()),
            rows: if documents { Vec::new() } else { self.view.rows(item) },
            document: documents.then(|| self.view.json(item)),
            diagnostics: self.view.diagnostics(item),
        }
    }

    fn text(&self, document: &Value) -> anyhow::Result<String> {
        match self.format {
            Format::Yaml => Ok(format!("---\n{}", output::yaml(document)?)),
            _ => output::json_line(document),
        }
    }
}

/// The rows of `new` that `old` lacks, followed by rows that mark removed rows as gone.
fn rows(old: &[Row], new: &[Row]) -> Vec<Row> {
    let changed = new.iter().filter(|row| !old.contains(row)).cloned();
    let gone = old.iter().filter(|row| !new.iter().any(|other| other.of == row.of)).map(|row| {
        let mut state = vec!["-".to_owned(); row.state.len()];
        state[0] = "gone".to_owned();
        Row { of: row.of.clone(), state }
    });
    changed.chain(gone).collect()
}

#[cfg(test)]
mod tests;
