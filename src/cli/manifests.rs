//! Reads Kubernetes objects from files, directories and standard input, each with its file and line.

use std::fmt;
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Outcome;
use super::documents::{self, Document, documents_each};
use super::output::print_messages;
use policy_sync_api::object::HubObject;

/// The extensions of files that are read from a directory.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The file of an object, and the first line of its document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) struct SourceLocation {
    file: Arc<str>,
    line: u64,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// An object with its file and line.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Manifest {
    pub(in crate::cli) place: SourceLocation,
    pub(in crate::cli) object: HubObject,
}

/// A document, or an item of a list, that is no Kubernetes object.
#[derive(Clone, Debug)]
pub(in crate::cli) struct InvalidManifest {
    pub(in crate::cli) place: SourceLocation,
    /// The `kind` of the document; empty if the document has none.
    pub(in crate::cli) kind: String,
    /// Why the document or item is no Kubernetes object.
    pub(in crate::cli) fault: String,
}

/// The content of files.
#[derive(Debug, Default)]
pub(in crate::cli) struct Manifests {
    /// The objects, and the documents that are no objects, in the order of the files.
    pub(in crate::cli) read: Vec<Result<Manifest, InvalidManifest>>,
    /// The documents that cannot be parsed.
    pub(in crate::cli) unreadable: UnreadableDocuments,
}

/// Documents that a command leaves out.
#[derive(Debug, Default)]
pub(in crate::cli) struct UnreadableDocuments(Vec<InvalidManifest>);

impl UnreadableDocuments {
    /// Adds documents that are no objects.
    pub(in crate::cli) fn add(&mut self, none: Vec<InvalidManifest>) {
        self.0.extend(none);
        self.0.sort_by(|one, other| one.place.cmp(&other.place));
    }

    /// Returns the outcome of a command that has printed a result for all documents that it could use.
    ///
    /// # Errors
    ///
    /// If there is a document that cannot be used. The error names the last of these documents. This function prints
    /// the others.
    pub(in crate::cli) fn end(mut self, outcome: Outcome) -> anyhow::Result<Outcome> {
        let Some(last) = self.0.pop() else { return Ok(outcome) };
        print_messages(self.0.iter().map(|fault| format!("policy-sync: {fault}")));
        Err(last.into_error())
    }
}

/// Reads the objects of all `sources`: files, directories (without subdirectories), and `-` for standard
/// input.
///
/// # Errors
///
/// If a source cannot be read, or contains a document that is no Kubernetes object.
pub(in crate::cli) fn read(sources: &[PathBuf]) -> anyhow::Result<Vec<Manifest>> {
    objects(gather(sources)?)
}

/// Reads each document of all `sources`. A document that cannot be parsed does not affect the others.
///
/// # Errors
///
/// If a file cannot be read, or no document can be parsed.
pub(in crate::cli) fn read_each(sources: &[PathBuf]) -> anyhow::Result<Manifests> {
    let mut manifests = gather(sources)?;
    if manifests.read.is_empty() {
        mem::take(&mut manifests.unreadable).end(Outcome::Positive)?;
    }
    Ok(manifests)
}

fn gather(sources: &[PathBuf]) -> anyhow::Result<Manifests> {
    let mut manifests = Manifests::default();
    for source in sources {
        if source.as_os_str() != "-" && source.is_dir() {
            for file in files(source)? {
                manifests.add_file(&file)?;
            }
        } else {
            manifests.add_file(source)?;
        }
    }
    Ok(manifests)
}

/// Reads the objects of `sources`, and leaves out all other documents.
///
/// # Errors
///
/// If a file cannot be read, or all documents are left out.
pub(in crate::cli) fn read_objects(
    sources: &[PathBuf],
) -> anyhow::Result<(Vec<Manifest>, UnreadableDocuments)> {
    let Manifests { read, mut unreadable } = read_each(sources)?;
    let (objects, none) = divided(read);
    unreadable.add(none);
    if objects.is_empty() {
        mem::take(&mut unreadable).end(Outcome::Positive)?;
    }
    Ok((objects, unreadable))
}

fn objects(manifests: Manifests) -> anyhow::Result<Vec<Manifest>> {
    let (objects, mut none) = divided(manifests.read);
    none.extend(manifests.unreadable.0);
    match none.into_iter().min_by(|one, other| one.place.cmp(&other.place)) {
        Some(first) => Err(first.into_error()),
        None => Ok(objects),
    }
}

/// Separates objects from documents that are no objects.
pub(in crate::cli) fn divided(
    read: Vec<Result<Manifest, InvalidManifest>>,
) -> (Vec<Manifest>, Vec<InvalidManifest>) {
    let (mut objects, mut others) = (Vec::new(), Vec::new());
    for read in read {
        match read {
            Ok(manifest) => objects.push(manifest),
            Err(none) => others.push(none),
        }
    }
    (objects, others)
}

impl fmt::Display for InvalidManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.fault)
    }
}

impl InvalidManifest {
    fn into_error(self) -> anyhow::Error {
        anyhow!("{self}")
    }
}

fn files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let unreadable = || format!("cannot read {}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if is_manifest_file(&path) && !path.is_dir() {
            files.push(path);
        }
    }
    if files.is_empty() {
        bail!("{} has no .yaml, .yml or .json file", directory.display());
    }
    files.sort();
    Ok(files)
}

/// Whether a file with this name contains manifests.
pub(in crate::cli) fn is_manifest_file(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
}

/// Reads the objects of `text`, the content of `file`.
///
/// # Errors
///
/// The errors of [`read`].
pub(in crate::cli) fn parse(file: &str, text: &str) -> anyhow::Result<Vec<Manifest>> {
    let mut manifests = Manifests::default();
    manifests.add(file, text);
    objects(manifests)
}

impl Manifests {
    fn add_file(&mut self, path: &Path) -> anyhow::Result<()> {
        let (name, text) = documents::read(path)?;
        self.add(&name, &text);
        Ok(())
    }

    fn add(&mut self, file: &str, text: &str) {
        let file: Arc<str> = file.into();
        for document in documents_each(text) {
            match document {
                Ok(Document { line, value }) => {
                    collect(&SourceLocation { file: file.clone(), line }, "", value, &mut self.read);
                }
                Err(fault) => self.unreadable.0.push(InvalidManifest {
                    place: SourceLocation { file: file.clone(), line: fault.line },
                    kind: String::new(),
                    fault: fault.to_string(),
                }),
            }
        }
    }
}

/// Adds the object `value`, or the items of `value` if `value` is a list. `within` is the path of `value` in the
/// document.
fn collect(
    place: &SourceLocation,
    within: &str,
    mut value: Value,
    to: &mut Vec<Result<Manifest, InvalidManifest>>,
) {
    let kind = value["kind"].as_str().unwrap_or_default().to_owned();
    if let (Some(item_kind), Some(Value::Array(items))) =
        (kind.strip_suffix("List"), value.get_mut("items").map(Value::take))
    {
        for (index, mut item) in items.into_iter().enumerate() {
            if !item_kind.is_empty() && item.is_object() && item.get("kind").is_none() {
                // The API server omits `apiVersion` and `kind` from the items of a typed list.
                item["kind"] = item_kind.into();
                item["apiVersion"] = value["apiVersion"].clone();
            }
            collect(place, &format!("{within}items[{index}]."), item, to);
        }
        return;
    }
    to.push(match object(within, value) {
        Ok(object) => Ok(Manifest { place: place.clone(), object }),
        Err(fault) => Err(InvalidManifest { place: place.clone(), kind, fault }),
    });
}

fn object(within: &str, mut value: Value) -> Result<HubObject, String> {
    let item = within.trim_end_matches('.');
    let at = if item.is_empty() { String::new() } else { format!("{item}: ") };
    if !value.is_object() {
        return Err(format!("{at}expected a Kubernetes object"));
    }
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        // A null in metadata is equivalent to an absent field, as in `creationTimestamp: null`.
        metadata.retain(|_, value| !value.is_null());
    }
    let text = RawValue::from_string(value.to_string()).ok();
    let object: HubObject = serde_path_to_error::deserialize(value)
        .map_err(|error| format!("{within}{}: {}", error.path(), error.inner()))?;
    let object = HubObject { text, ..object };
    for (field, text) in [
        ("apiVersion", &object.api_version),
        ("kind", &object.kind),
        ("metadata.name", &object.metadata.name),
    ] {
        if text.is_empty() {
            return Err(format!("{at}an object without {field}"));
        }
    }
    Ok(object)
}

#[cfg(test)]
mod tests;
