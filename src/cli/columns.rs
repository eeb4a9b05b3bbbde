//! Tables in the format of `kubectl`. Control characters in cells are escaped, so that no cell can move the
//! cursor.

use super::output::terminal_width;
use super::text::printable;
use policy_sync_api::text::cut;

/// The number of spaces between columns.
const GAP: usize = 3;

/// The column widths of a table that is printed in parts. Widths never shrink, so later rows align with
/// earlier ones.
#[derive(Debug, Default)]
pub(super) struct Columns(Vec<usize>);

impl Columns {
    /// Formats `rows`, which all have the same number of cells.
    pub(super) fn text(&mut self, rows: impl IntoIterator<Item = Vec<String>>) -> String {
        let rows = printable_rows(rows);
        self.widen(&rows);
        lines(&rows, &self.0)
    }

    fn widen(&mut self, rows: &[Vec<String>]) {
        for row in rows {
            self.0.resize(row.len().max(self.0.len()), 0);
            for (width, cell) in self.0.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
    }
}

/// Formats a complete table. The first `names` columns identify a row. On a terminal, cells are cut so that each row
/// fits the width of the terminal.
pub(super) fn table(headers: &[&str], names: usize, rows: impl Iterator<Item = Vec<String>>) -> String {
    let headers = headers.iter().map(|&header| header.to_owned()).collect();
    fitted_table([headers].into_iter().chain(rows), names, terminal_width())
}

/// Formats `rows`, starting with the headers, in lines of at most `width` characters. The first `names`
/// columns are truncated last; headers are never truncated.
pub(super) fn fitted_table(
    rows: impl IntoIterator<Item = Vec<String>>,
    names: usize,
    width: Option<usize>,
) -> String {
    let mut rows = printable_rows(rows);
    let mut columns = Columns::default();
    columns.widen(&rows);
    let Columns(mut widths) = columns;
    let Some(width) = width.filter(|width| total(&widths) > *width) else { return lines(&rows, &widths) };
    let minimum: Vec<usize> =
        rows.first().into_iter().flatten().map(|header| header.chars().count()).collect();
    let names = names.min(widths.len());
    narrow(&mut widths, &minimum, names..minimum.len(), width);
    narrow(&mut widths, &minimum, 0..names, width);
    for row in &mut rows {
        for (cell, width) in row.iter_mut().zip(&widths) {
            *cell = cut(cell, *width);
        }
    }
    lines(&rows, &widths)
}

/// The length of a line with these column widths.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Narrows the widest of `columns` repeatedly, until a line has at most `width` characters or all columns
/// have their `minimum` width.
fn narrow(widths: &mut [usize], minimum: &[usize], columns: std::ops::Range<usize>, width: usize) {
    let can_be_narrowed = |widths: &[usize], column: &usize| widths[*column] > minimum[*column];
    while total(widths) > width {
        let candidates = columns.clone().filter(|column| can_be_narrowed(widths, column));
        let Some(widest) = candidates.max_by_key(|column| widths[*column]) else { return };
        widths[widest] -= 1;
    }
}

fn printable_rows(rows: impl IntoIterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    rows.into_iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect()
}

fn lines(rows: &[Vec<String>], widths: &[usize]) -> String {
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(widths).map(|(cell, &width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
        format!("{}\n", line.trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
