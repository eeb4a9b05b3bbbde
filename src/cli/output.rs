//! Prints results to standard output, and messages to standard error.

use std::fmt::Display;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;

use super::progress;
use super::text::{printable, printable_json, printable_yaml};

/// The number of columns of the terminal; `None` if standard output is no terminal, or its size is unknown.
pub(super) fn terminal_width() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = terminal_size::terminal_size_of(&stdout).filter(|_| stdout.is_terminal());
    size.map(|(width, _)| width.0.into())
}

/// Prints `text`. A closed pipe, as in `… | head`, is no error.
///
/// # Errors
///
/// If standard output cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_while_read(text).map(drop)
}

/// Prints `text`. Returns whether the pipe is still open.
///
/// # Errors
///
/// The errors of [`print()`].
pub fn print_while_read(text: &str) -> anyhow::Result<bool> {
    progress::end();
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// Prints `line` to standard error. Write errors are ignored.
pub fn print_message(line: impl Display) {
    progress::end();
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints each of `lines` to standard error, with control characters escaped.
pub fn print_messages(lines: impl IntoIterator<Item = impl Display>) {
    lines.into_iter().for_each(|line| print_message(printable(&line.to_string())));
}

/// Formats `value` as indented JSON.
///
/// # Errors
///
/// If `value` has keys that are no strings.
pub fn json(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(value).context("cannot write JSON")?;
    Ok(printable_json(&text) + "\n")
}

/// Prints `value` as indented JSON while it is serialized, because the text may be larger than memory.
///
/// # Errors
///
/// If standard output cannot be written.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    progress::end();
    let mut writer = Printable(BufWriter::with_capacity(1 << 16, std::io::stdout().lock()));
    let written = serde_json::to_writer_pretty(&mut writer, value).map_err(std::io::Error::from);
    match written.and_then(|()| writer.write_all(b"\n")).and_then(|()| writer.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Escapes JSON text as [`printable_json`] does.
struct Printable<W>(W);

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.bytes().all(|byte| (b' '..0x7f).contains(&byte) || byte == b'\n') => {
                self.0.write_all(printable_json(text).as_bytes())?;
            }
            // `serde_json` splits strings only at characters that it escapes, so the bytes are valid UTF-8.
            _ => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Formats `value` as JSON in one line.
///
/// # Errors
///
/// If `value` has keys that are no strings.
pub fn json_line(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string(value).context("cannot write JSON")?;
    Ok(printable_json(&text) + "\n")
}

/// Formats `value` as a YAML document.
///
/// # Errors
///
/// If YAML cannot represent the value.
pub fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    printable_yaml(value).context("cannot write YAML")
}

/// Formats `values` as YAML documents.
///
/// # Errors
///
/// If YAML cannot represent one of the values.
pub fn yaml_documents<T: Serialize>(values: &[T]) -> anyhow::Result<String> {
    let documents = values.iter().map(yaml).collect::<anyhow::Result<Vec<String>>>()?;
    Ok(documents.join("---\n"))
}
