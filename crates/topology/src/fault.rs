//! Faults in the fields of objects.

use std::fmt;

use serde_json::Value;

use policy_sync_api::json::step::Step;
use policy_sync_api::json::type_of;

/// A fault in a field of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The path of the field, such as `spec.limits.a`; empty for the whole object.
    pub place: String,
    /// The description of the fault.
    pub text: String,
}

impl Fault {
    pub(super) fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { place: place.into(), text: text.into() }
    }

    pub(super) fn expected(place: impl Into<String>, expected: &str, found: &Value) -> Self {
        Self::new(place, format!("expected {expected}, found {}", type_of(found)))
    }

    /// Returns the fault with a path inside `outer`.
    pub(super) fn under(self, outer: &Step) -> Self {
        Self { place: format!("{outer}{}", self.place), ..self }
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() {
            f.write_str(&self.text)
        } else {
            write!(f, "{}: {}", self.place, self.text)
        }
    }
}
