//! Diagnostics about objects, such as `Gateway shop/web: warning: …`.

use std::fmt;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// An input is invalid, or an object is frozen because of an invalid input.
    Error,
    /// An input is incomplete, or a part of it has no effect.
    Warning,
    /// A hint that requires no action.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// A message about an object.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {severity}: {text}", regarding.0)]
pub struct Diagnostic {
    /// The severity of the message.
    pub severity: Severity,
    /// The object.
    pub regarding: Regarding,
    /// The message.
    pub text: String,
}

/// The name of the object of a diagnostic: `Gateway shop/web`, or `hub.yaml:12: Gateway shop/web` for an object from a
/// file.
#[derive(Clone, Debug)]
pub struct Regarding(String);

impl Regarding {
    /// The object of this name.
    #[must_use]
    pub fn new(name: impl fmt::Display) -> Self {
        Self(name.to_string())
    }

    /// An error about this object.
    #[must_use]
    pub fn error(&self, text: impl fmt::Display) -> Diagnostic {
        self.diagnostic(Severity::Error, text)
    }

    /// A warning about this object.
    #[must_use]
    pub fn warning(&self, text: impl fmt::Display) -> Diagnostic {
        self.diagnostic(Severity::Warning, text)
    }

    /// A note about this object.
    #[must_use]
    pub fn note(&self, text: impl fmt::Display) -> Diagnostic {
        self.diagnostic(Severity::Note, text)
    }

    fn diagnostic(&self, severity: Severity, text: impl fmt::Display) -> Diagnostic {
        Diagnostic { severity, regarding: self.clone(), text: text.to_string() }
    }
}
