//! Tables as `kubectl` prints them, in which nothing that others wrote moves the cursor.

use super::text::printable;

/// Columns of equal width, three spaces apart, as `kubectl` prints them.
pub(super) fn table(headers: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let headers = headers.iter().map(|&header| header.to_owned()).collect();
    let cells = |row: Vec<String>| row.iter().map(|cell| printable(cell)).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = [headers].into_iter().chain(rows.map(cells)).collect();
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default() + 3;
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: String = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        format!("{}\n", cells.trim_end())
    };
    rows.iter().map(line).collect()
}
