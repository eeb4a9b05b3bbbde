//! Text to documents: YAML or JSON, as `kubectl` reads them, each with the line that it begins in.

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;
use serde_saphyr::{Options, Spanned};

use crate::api::json::normalize;

/// One document of a text.
#[derive(Debug, PartialEq)]
pub(in crate::cli) struct Document {
    /// The line that it begins in, from 1.
    pub(in crate::cli) line: u64,
    /// What it holds, its numbers in the server's form.
    pub(in crate::cli) value: Value,
}

/// What `source` is called, and its text, where `-` is standard input.
///
/// # Errors
///
/// Where it cannot be read.
pub(in crate::cli) fn read(source: &Path) -> anyhow::Result<(String, String)> {
    if source.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(("stdin".to_owned(), text));
    }
    let name = source.display().to_string();
    let text = std::fs::read_to_string(source).with_context(|| format!("cannot read {name}"))?;
    Ok((name, text))
}

/// Reads all documents of `text`, without the empty ones.
///
/// # Errors
///
/// What is wrong, with its line.
pub(in crate::cli) fn documents(text: &str) -> Result<Vec<Document>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = if text.trim_start().starts_with('{') {
        // YAML in braces begins so too; what is neither is taken for JSON.
        json(text).or_else(|fault| yaml(text).map_err(|_| fault))?
    } else {
        yaml(text)?
    };
    documents.retain(|document| !document.value.is_null());
    documents.iter_mut().for_each(|document| normalize(&mut document.value));
    Ok(documents)
}

fn yaml(text: &str) -> Result<Vec<Document>, String> {
    let documents: Vec<Spanned<Value>> =
        serde_saphyr::from_multiple_with_options(text, options()).map_err(|error| error.to_string())?;
    let document =
        |spanned: Spanned<Value>| Document { line: spanned.referenced.line(), value: spanned.value };
    Ok(documents.into_iter().map(document).collect())
}

/// As `kubectl` reads: `0755` is octal, `yes` is true. The limits are those of a fleet, not of a configuration file.
fn options() -> Options {
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: 100_000_000,
            max_nodes: 50_000_000,
            max_documents: 1_000_000,
            max_depth: 128,
            max_total_scalar_bytes: 1 << 30,
        },
    }
}

fn json(text: &str) -> Result<Vec<Document>, String> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut documents = Vec::new();
    let (mut line, mut counted) = (1, 0);
    loop {
        let rest = &text[stream.byte_offset()..];
        let begin = text.len() - rest.trim_start().len();
        line += text[counted..begin].bytes().filter(|byte| *byte == b'\n').count() as u64;
        counted = begin;
        match stream.next() {
            Some(value) => {
                documents.push(Document { line, value: value.map_err(|error| error.to_string())? });
            }
            None => return Ok(documents),
        }
    }
}

#[cfg(test)]
mod tests;
