//! For whom a bundle is checked.

/// Who is to evaluate what is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvaluatedBy {
    /// The embedded engine, which is tried.
    #[default]
    Embedded,
    /// OPA, which has builtins that the embedded engine lacks.
    Opa,
}
