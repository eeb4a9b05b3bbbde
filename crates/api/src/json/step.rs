//! A step into a JSON value, as places are written: `.limits["a b"].rates[0]`.

use std::fmt;

use crate::text::excerpt;

/// A step to what is inside a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the value of a key.
    Key(String),
    /// To an item of a list.
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

/// The place that `steps` lead to.
#[must_use]
pub fn place(steps: &[Step]) -> String {
    steps.iter().map(Step::to_string).collect()
}
