//! Parses texts into YAML or JSON documents as `kubectl` does, each with the number of its first line.

mod corrections;
mod scalar;
mod yaml;

use std::fmt;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, anyhow};
use serde_json::Value;

use policy_sync_api::json::normalize;

/// The maximum size of a text in bytes.
const MAX_BYTES: usize = 1 << 30;
/// The maximum number of documents in a text.
const MAX_DOCUMENTS: usize = 1_000_000;
/// The maximum number of YAML nodes in a text.
const MAX_NODES: usize = 50_000_000;
const BYTE_ORDER_MARK: char = '\u{feff}';

/// One document of a text.
#[derive(Debug, PartialEq)]
pub struct Document {
    /// The number of the document's first line, starting at 1.
    pub line: u64,
    /// The content, with numbers normalized as the API server does.
    pub value: Value,
}

/// Reads `source`, or standard input if `source` is `-`. Returns the displayed name and the text of the source.
///
/// # Errors
///
/// If the source cannot be read.
pub fn read(source: &Path) -> anyhow::Result<(String, String)> {
    if source.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(("stdin".to_owned(), text));
    }
    let name = source.display().to_string();
    let text = std::fs::read_to_string(source).with_context(|| format!("cannot read {name}"))?;
    Ok((name, text))
}

/// The reason why a document cannot be parsed, with the place of the fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The number of the document in the text, starting at 1.
    pub document: usize,
    /// The line of the fault, starting at 1.
    pub line: u64,
    text: String,
}

impl Fault {
    /// A fault in `line` of a text with one document.
    fn new(line: u64, text: impl Into<String>) -> Self {
        Self { document: 1, line, text: text.into() }
    }

    /// The error for a fault in the file `name`.
    pub fn in_file(&self, name: &str) -> anyhow::Error {
        anyhow!("{name}:{}: {self}", self.line)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "document {}: {}", self.document, self.text)
    }
}

/// Parses all documents of `text`. Empty documents are left out.
///
/// # Errors
///
/// The first fault.
pub fn documents(text: &str) -> Result<Vec<Document>, Fault> {
    documents_each(text).into_iter().collect()
}

/// Parses each document of `text`. Empty documents are left out. A document with a fault does not affect the
/// others.
pub fn documents_each(text: &str) -> Vec<Result<Document, Fault>> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    if text.len() > MAX_BYTES {
        return vec![Err(Fault::new(1, format!("the file has more than {MAX_BYTES} bytes")))];
    }
    let parts = split_documents(text);
    if parts.len() > MAX_DOCUMENTS {
        return vec![Err(Fault::new(1, format!("the file has more than {MAX_DOCUMENTS} documents")))];
    }
    let (mut read, mut nodes) = (Vec::new(), MAX_NODES);
    for DocumentText { line, text } in parts {
        let before = read.len();
        for document in parse_document(text, &mut nodes) {
            read.push(match document {
                Ok(mut document) => {
                    document.line += line;
                    normalize(&mut document.value);
                    Ok(document)
                }
                Err(fault) => Err(Fault { document: 0, line: fault.line + line, ..fault }),
            });
        }
        if before == read.len() {
            read.push(Ok(Document { line, value: Value::Null }));
        }
    }
    for (index, document) in read.iter_mut().enumerate() {
        if let Err(fault) = document {
            fault.document = index + 1;
        }
    }
    read.retain(|document| !matches!(document, Ok(Document { value: Value::Null, .. })));
    read
}

/// A part of a text that YAML treats as one document.
#[derive(Debug, PartialEq)]
struct DocumentText<'t> {
    /// The number of lines of the text before this part.
    line: u64,
    text: &'t str,
}

/// Splits `text` before each line with the mark `---`, and after each line with the mark `...`. YAML allows
/// such lines nowhere else, even in quotes. Stops after [`MAX_DOCUMENTS`].
fn split_documents(text: &str) -> Vec<DocumentText<'_>> {
    let mut parts = Vec::new();
    let (mut begin, mut first_line, mut has_content) = (0, 0, false);
    let mut at = 0;
    for (line, content) in (0..).zip(text.split_inclusive('\n')) {
        if parts.len() > MAX_DOCUMENTS {
            return parts;
        }
        let is_mark = has_mark(content, "---");
        if is_mark && has_content {
            parts.push(DocumentText { line: first_line, text: &text[begin..at] });
            (begin, first_line) = (at, line);
        }
        // Directives and comments before a mark belong to the document that the mark begins.
        has_content |= is_mark || !(content.trim().is_empty() || content.starts_with(['#', '%']));
        at += content.len();
        if has_mark(content, "...") {
            parts.push(DocumentText { line: first_line, text: &text[begin..at] });
            (begin, first_line, has_content) = (at, line + 1, false);
        }
    }
    if begin < text.len() {
        parts.push(DocumentText { line: first_line, text: &text[begin..] });
    }
    parts
}

/// Whether `line` starts with `mark`.
fn has_mark(line: &str, mark: &str) -> bool {
    line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Parses `text`, one part from [`split_documents`]. A line `---` at its start is skipped. `nodes` is the number of
/// YAML nodes that this part and all later parts may contain.
fn parse_document(text: &str, nodes: &mut usize) -> Vec<Result<Document, Fault>> {
    let (lines, content) = match text.split_once('\n') {
        Some((mark, content)) if mark.trim_end() == "---" => (1, content),
        _ => (0, text),
    };
    let mut read = json_or_yaml(content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content), nodes);
    for document in &mut read {
        match document {
            Ok(document) => document.line += lines,
            Err(fault) => fault.line += lines,
        }
    }
    read
}

/// Parses JSON values if `text` starts like JSON, otherwise a YAML document.
fn json_or_yaml(text: &str, nodes: &mut usize) -> Vec<Result<Document, Fault>> {
    let Some(fields) = text.trim_start().strip_prefix('{') else { return yaml(text, nodes) };
    let json = json(text);
    if json.iter().all(Result::is_ok) {
        return json;
    }
    // YAML flow mappings also start with a brace. JSON faults are reported if the first field looks like
    // JSON.
    let yaml = yaml(text, nodes);
    let is_json = fields.trim_start().starts_with(['"', '}']);
    if is_json && yaml.iter().any(Result::is_err) { json } else { yaml }
}

fn yaml(text: &str, nodes: &mut usize) -> Vec<Result<Document, Fault>> {
    let read = yaml::read(text, nodes).map(|read| read.map(|(line, value)| Document { line, value }));
    read.transpose().into_iter().collect()
}

/// Parses the JSON values of `text` up to the first fault.
fn json(text: &str) -> Vec<Result<Document, Fault>> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut documents = Vec::new();
    let (mut line, mut counted) = (1, 0);
    loop {
        let rest = &text[stream.byte_offset()..];
        let begin = text.len() - rest.trim_start().len();
        line += text[counted..begin].bytes().filter(|byte| *byte == b'\n').count() as u64;
        counted = begin;
        match stream.next() {
            Some(Ok(value)) => documents.push(Ok(Document { line, value })),
            Some(Err(error)) => {
                let place = format!(" at line {} column {}", error.line(), error.column());
                let text = error.to_string();
                let text = text.strip_suffix(&place).unwrap_or(&text);
                documents.push(Err(Fault::new(
                    error.line() as u64,
                    format!("{text} at column {}", error.column()),
                )));
                return documents;
            }
            None => return documents,
        }
    }
}

#[cfg(test)]
mod tests;
