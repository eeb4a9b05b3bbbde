//! Tables as `kubectl` prints them, in which nothing that others wrote moves the cursor.

use super::text::printable;

/// Columns three spaces apart, as `kubectl` prints them; rows that come later stand below those printed before.
#[derive(Debug, Default)]
pub(super) struct Columns(Vec<usize>);

impl Columns {
    /// The text of `rows`, all of as many cells.
    pub(super) fn text(&mut self, rows: impl IntoIterator<Item = Vec<String>>) -> String {
        let rows: Vec<Vec<String>> =
            rows.into_iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
        for row in &rows {
            self.0.resize(row.len().max(self.0.len()), 0);
            for (width, cell) in self.0.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count() + 3);
            }
        }
        let line = |row: &Vec<String>| {
            let cells: String =
                row.iter().zip(&self.0).map(|(cell, &width)| format!("{cell:<width$}")).collect();
            format!("{}\n", cells.trim_end())
        };
        rows.iter().map(line).collect()
    }
}

/// A table that is printed at once.
pub(super) fn table(headers: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let headers = headers.iter().map(|&header| header.to_owned()).collect();
    Columns::default().text([headers].into_iter().chain(rows))
}
