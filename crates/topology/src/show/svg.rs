//! Writes a picture as [SVG](https://www.w3.org/TR/SVG2/). The SVG has only shapes and text in the current color of the
//! page, so that it is readable in light and dark mode. Text is cut to its box; the tooltip has the whole text.

use std::fmt::{self, Write};

use super::NodeLabel;
use super::picture::{Picture, Row, RowPosition, Tile};
use policy_sync_api::text::{named, printable};

/// Lengths in pixels.
const WIDTH: usize = 300;
const GAP: usize = 90;
const MARGIN: usize = 16;
const ROW: usize = 20;
const BETWEEN: usize = 14;
const HEADING: usize = 28;
const PADDING: usize = 8;
/// The maximum width of a character at the picture's font size, for monospaced fonts.
const CHARACTER: usize = 8;
const SIZE: usize = 12;

/// The explanation of a picture for users.
pub const LEGEND: &str = "Boxes are objects, and their rows are sections. Lines are the paths of requests. A dashed badge counts the policies on a row. An exclamation mark is a problem.";

/// Writes `picture` as an SVG document. `link` returns the address of an object's page, if it has one.
#[must_use]
pub fn svg(picture: &Picture, link: &dyn Fn(&NodeLabel) -> Option<String>) -> String {
    let mut svg = SvgWriter { out: String::new(), link };
    // Writing to a string cannot fail.
    let _ = svg.document(picture);
    svg.out
}

struct SvgWriter<'l> {
    out: String,
    link: &'l dyn Fn(&NodeLabel) -> Option<String>,
}

impl Tile {
    fn height(&self) -> usize {
        (self.rows.len() + self.faults.len()) * ROW
    }
}

/// The upper edges of the boxes in a column, and the lower edge of the last box.
fn tops(tiles: &[Tile]) -> (Vec<usize>, usize) {
    let mut top = MARGIN + HEADING;
    let tops = tiles.iter().map(|tile| {
        let at = top;
        top += tile.height() + BETWEEN;
        at
    });
    let tops: Vec<usize> = tops.collect();
    (tops, top)
}

fn left(column: usize) -> usize {
    MARGIN + column * (WIDTH + GAP)
}

impl SvgWriter<'_> {
    fn document(&mut self, picture: &Picture) -> fmt::Result {
        let seats: Vec<(Vec<usize>, usize)> = picture.columns.iter().map(|(_, tiles)| tops(tiles)).collect();
        let height = seats.iter().map(|(_, bottom)| *bottom).max().unwrap_or(MARGIN + HEADING);
        let width = left(picture.columns.len().max(1)) - GAP + MARGIN;
        writeln!(
            self.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"group\" \
             font-family=\"ui-monospace, monospace\" font-size=\"{SIZE}\" fill=\"currentColor\" stroke=\"none\">"
        )?;
        writeln!(self.out, "<title>Attached objects</title>\n<desc>{}</desc>", Escaped(LEGEND))?;
        for (from, to) in &picture.lines {
            self.line(&seats, *from, *to)?;
        }
        for (index, ((column, tiles), (tops, _))) in picture.columns.iter().zip(&seats).enumerate() {
            let (x, y) = (left(index), MARGIN + SIZE);
            writeln!(self.out, "<text x=\"{x}\" y=\"{y}\" font-weight=\"bold\">{}</text>", column.heading())?;
            for (tile, top) in tiles.iter().zip(tops) {
                self.tile(tile, x, *top)?;
            }
        }
        writeln!(self.out, "</svg>")
    }

    fn line(&mut self, seats: &[(Vec<usize>, usize)], from: RowPosition, to: RowPosition) -> fmt::Result {
        let middle = |(column, tile, row): RowPosition| seats[column].0[tile] + row * ROW + ROW / 2;
        let (x1, y1) = (left(from.0) + WIDTH, middle(from));
        let (x2, y2) = (left(to.0), middle(to));
        let half = x1.midpoint(x2);
        writeln!(
            self.out,
            "<path d=\"M{x1} {y1}C{half} {y1} {half} {y2} {x2} {y2}\" fill=\"none\" stroke=\"currentColor\" stroke-opacity=\"0.6\"/>"
        )
    }

    fn tile(&mut self, tile: &Tile, x: usize, top: usize) -> fmt::Result {
        let height = tile.height();
        writeln!(
            self.out,
            "<g><rect x=\"{x}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{height}\" rx=\"4\" fill=\"none\" stroke=\"currentColor\"/>"
        )?;
        for (index, row) in tile.rows.iter().enumerate() {
            let y = top + index * ROW;
            if index > 0 {
                writeln!(
                    self.out,
                    "<path d=\"M{x} {y}h{WIDTH}\" stroke=\"currentColor\" stroke-opacity=\"0.3\"/>"
                )?;
            }
            let object = tile.object.as_ref().filter(|_| index == 0);
            self.row(row, object, x, y)?;
        }
        for (index, why) in tile.faults.iter().enumerate() {
            let y = top + (tile.rows.len() + index) * ROW;
            self.text(&format!("! {why}"), why, (x + PADDING, y), WIDTH - 2 * PADDING, false)?;
        }
        writeln!(self.out, "</g>")
    }

    fn row(&mut self, row: &Row, object: Option<&NodeLabel>, x: usize, y: usize) -> fmt::Result {
        let chip = match row.policies.len() {
            0 => None,
            1 => Some("1 policy".to_owned()),
            count => Some(format!("{count} policies")),
        };
        let chip_width = chip.as_ref().map_or(0, |text| text.len() * CHARACTER + PADDING);
        let text = if row.faulty { format!("! {}", row.text) } else { row.text.clone() };
        let room = WIDTH - 2 * PADDING - chip_width;
        let page = object.and_then(self.link);
        self.linked(page.as_deref(), |svg| {
            svg.text(&text, &row.title, (x + PADDING, y), room, object.is_some())
        })?;
        let Some(chip) = chip else { return Ok(()) };
        let names: Vec<&str> = row.policies.iter().map(|policy| &*policy.words).collect();
        let page = row.policies.first().filter(|_| names.len() == 1).and_then(self.link);
        let left = x + WIDTH - PADDING / 2 - chip_width;
        self.linked(page.as_deref(), |svg| {
            writeln!(
                svg.out,
                "<rect x=\"{left}\" y=\"{}\" width=\"{chip_width}\" height=\"{}\" rx=\"{}\" fill=\"none\" stroke=\"currentColor\" \
                 stroke-dasharray=\"3 2\"/>",
                y + 2,
                ROW - 4,
                (ROW - 4) / 2
            )?;
            svg.text(&chip, &named(&names), (left + PADDING / 2, y), chip_width - PADDING, false)
        })
    }

    /// Writes the output of `inner`, as a link if `page` is given.
    fn linked(&mut self, page: Option<&str>, inner: impl FnOnce(&mut Self) -> fmt::Result) -> fmt::Result {
        let Some(page) = page else { return inner(self) };
        writeln!(self.out, "<a href=\"{}\">", Escaped(page))?;
        inner(self)?;
        writeln!(self.out, "</a>")
    }

    /// Writes `text` in a row with the upper left corner at `x` and `y`, cut to `room` pixels.
    fn text(
        &mut self,
        text: &str,
        title: &str,
        (x, y): (usize, usize),
        room: usize,
        bold: bool,
    ) -> fmt::Result {
        let (shown, width) = fitting(&printable(text), room / CHARACTER);
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        // Characters that are not ASCII may have any width, so the browser fits the text to this length.
        let length = if shown.is_ascii() {
            String::new()
        } else {
            format!(" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\"", width * CHARACTER)
        };
        let y = y + ROW / 2 + SIZE / 3;
        write!(self.out, "<text x=\"{x}\" y=\"{y}\"{weight}{length}>{}", Escaped(&shown))?;
        writeln!(self.out, "<title>{}</title></text>", Escaped(&printable(title)))
    }
}

/// Cuts `text` to this number of columns, with an ellipsis if it is too long. Also returns the number of columns used.
fn fitting(text: &str, columns: usize) -> (String, usize) {
    let width = |c: char| if c.is_ascii() { 1 } else { 2 };
    let all: usize = text.chars().map(width).sum();
    if all <= columns {
        return (text.to_owned(), all);
    }
    let mut taken = width('…');
    let fits = |c: &char| {
        taken += width(*c);
        taken <= columns
    };
    let cut: String = text.chars().take_while(fits).chain(['…']).collect();
    let width = cut.chars().map(width).sum();
    (cut, width)
}

/// Escapes text for XML content and attributes.
struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                // XML does not allow most control characters.
                '\u{fffe}' | '\u{ffff}' => f.write_char(char::REPLACEMENT_CHARACTER)?,
                control if control.is_control() => f.write_char(char::REPLACEMENT_CHARACTER)?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}
