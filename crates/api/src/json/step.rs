//! Steps into a JSON value, formatted as `.limits["a b"].rates[0]`.

use std::fmt;

use crate::text::excerpt;

/// A step from a value to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The step into the value of an object's key.
    Key(String),
    /// The step into an item of a list.
    Item(usize),
}

impl Step {
    /// The step to the value of `key`.
    pub fn key(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        match self {
            Self::Item(index) => write!(f, "[{index}]"),
            Self::Key(key) if !key.is_empty() && key.chars().all(plain) => write!(f, ".{}", excerpt(key)),
            Self::Key(key) => write!(f, "[{:?}]", excerpt(key)),
        }
    }
}

/// Formats a path of steps.
#[must_use]
pub fn place(steps: &[Step]) -> String {
    steps.iter().map(Step::to_string).collect()
}
