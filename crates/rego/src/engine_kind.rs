//! The evaluator for which a bundle is checked.

/// The evaluator for which a bundle is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// The embedded engine. The check includes a trial evaluation.
    #[default]
    Embedded,
    /// OPA, which has builtins that the embedded engine lacks.
    Opa,
}
