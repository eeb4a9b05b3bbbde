//! What there is to say about objects: `Gateway shop/web: warning: …`.

use std::fmt;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something is invalid, or frozen by it.
    Error,
    /// Something is not done that was asked for.
    Warning,
    /// Something to know.
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

/// Something to say about an object.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {severity}: {text}", regarding.0)]
pub struct Diagnostic {
    /// How much it matters.
    pub severity: Severity,
    /// The object.
    pub regarding: Regarding,
    /// What.
    pub text: String,
}

/// The object that a diagnostic is about, as it names it: `Gateway shop/web`, or `hub.yaml:12: Gateway shop/web` where it
/// comes from a file.
#[derive(Clone, Debug)]
pub struct Regarding(String);

impl Regarding {
    /// The object of this name.
    #[must_use]
    pub fn new(name: impl fmt::Display) -> Self {
        Self(name.to_string())
    }

    /// An error about it.
    #[must_use]
    pub fn error(&self, text: impl fmt::Display) -> Diagnostic {
        self.diagnostic(Severity::Error, text)
    }

    /// A warning about it.
    #[must_use]
    pub fn warning(&self, text: impl fmt::Display) -> Diagnostic {
        self.diagnostic(Severity::Warning, text)
    }

    /// A note about it.
    #[must_use]
    pub fn note(&self, text: impl fmt::Display) -> Diagnostic {
        self.diagnostic(Severity::Note, text)
    }

    fn diagnostic(&self, severity: Severity, text: impl fmt::Display) -> Diagnostic {
        Diagnostic { severity, regarding: self.clone(), text: text.to_string() }
    }
}
