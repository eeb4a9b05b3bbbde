//! The annotation `kuadrant.io/paused`: while its value is neither empty nor `false`, works are neither created nor
//! changed.

use std::collections::BTreeMap;

use super::annotations::PAUSED;
use super::text::escaped_excerpt;

/// The value of the annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pause {
    /// The annotation is absent, empty or `false`.
    #[default]
    No,
    /// The annotation is `true`.
    Yes,
    /// Any other value, which pauses too. The value is cut, and escaped to fit on one line.
    Invalid(Box<str>),
}

impl Pause {
    /// Reads the annotation of an object with these annotations.
    #[must_use]
    pub fn read(annotations: &BTreeMap<String, String>) -> Self {
        match annotations.get(PAUSED).map(String::as_str) {
            None | Some("" | "false") => Self::No,
            Some("true") => Self::Yes,
            Some(other) => Self::Invalid(escaped_excerpt(other).into()),
        }
    }

    /// Whether works are neither created nor changed.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        *self != Self::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_other_than_false_pause() {
        let read = |value: &str| Pause::read(&BTreeMap::from([(PAUSED.to_owned(), value.to_owned())]));
        assert_eq!(Pause::read(&BTreeMap::new()), Pause::No);
        assert_eq!([read(""), read("false"), read("true")], [Pause::No, Pause::No, Pause::Yes]);
        for (value, found) in [("True", "True"), ("yes", "yes"), (" true", " true"), ("a\nb", "a\\nb")] {
            assert_eq!(read(value), Pause::Invalid(found.into()));
        }
    }
}
