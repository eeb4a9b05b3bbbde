//! What there is to say about the objects given: `<file>:<line>: <Kind> <namespace>/<name>: error: …`; of
//! those on a hub without the file.

use std::fmt;

use crate::api::object::HubObject;
use crate::cli::manifests::{Manifest, Place};
use crate::cli::text::printable;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// Something is invalid, or frozen by it.
    Error,
    /// Something is not done that was asked for.
    Warning,
    /// Something to know.
    Note,
}

/// Something to say about an object.
#[derive(Clone, Debug)]
pub(super) struct Remark {
    pub(super) severity: Severity,
    pub(super) subject: Subject,
    pub(super) text: String,
}

/// The object that a remark is about.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// Where it stands, `None` for one on the hub.
    place: Option<Place>,
    name: String,
}

impl Subject {
    /// The object of `manifest`.
    pub(super) fn of(manifest: &Manifest) -> Self {
        Self { place: Some(manifest.place.clone()), name: name(&manifest.object) }
    }

    /// The object `name` on the hub.
    pub(super) fn on_hub(name: impl fmt::Display) -> Self {
        Self { place: None, name: name.to_string() }
    }

    pub(super) fn error(&self, text: impl fmt::Display) -> Remark {
        self.remark(Severity::Error, text)
    }

    pub(super) fn warning(&self, text: impl fmt::Display) -> Remark {
        self.remark(Severity::Warning, text)
    }

    pub(super) fn note(&self, text: impl fmt::Display) -> Remark {
        self.remark(Severity::Note, text)
    }

    fn remark(&self, severity: Severity, text: impl fmt::Display) -> Remark {
        Remark { severity, subject: self.clone(), text: text.to_string() }
    }
}

fn name(object: &HubObject) -> String {
    let metadata = &object.metadata;
    if metadata.namespace.is_empty() {
        format!("{} {}", object.kind, metadata.name)
    } else {
        format!("{} {}/{}", object.kind, metadata.namespace, metadata.name)
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let Subject { place, name } = &self.subject;
        let place = place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        f.write_str(&printable(&format!("{place}{name}: {severity}: {}", self.text)))
    }
}
