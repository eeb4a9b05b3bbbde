//! The possible values of expressions in the review of a Secret: each value is a set of parts of the review.

use std::collections::BTreeSet;
use std::ops::BitOr;

/// The fields of a Secret; all others are undefined.
const FIELDS: [&str; 7] = ["apiVersion", "kind", "metadata", "type", "immutable", "data", "stringData"];
/// The fields with the contents of a Secret.
const WITHHELD: [&str; 2] = ["data", "stringData"];

/// The set of parts of the review that an expression may evaluate to; empty if it is undefined for every Secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ReviewParts(u16);

/// A step into a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Key<'k> {
    /// A constant key.
    Text(&'k str),
    /// A constant index of an array.
    Number(usize),
    /// Any key.
    Any,
}

impl ReviewParts {
    /// Undefined.
    pub(super) const NOTHING: Self = Self(0);
    /// A value without contents of the Secret.
    pub(super) const OTHER: Self = Self(1);
    /// `input`
    pub(super) const INPUT: Self = Self(1 << 1);
    /// `input.request`
    const REQUEST: Self = Self(1 << 2);
    /// `input.reviewed`
    pub(super) const REVIEWED: Self = Self(1 << 3);
    /// The Secret.
    const OBJECT: Self = Self(1 << 4);
    /// `data.kubernetes`, which contains the Secret under review.
    pub(super) const KUBERNETES: Self = Self(1 << 5);
    /// `data.kubernetes[_]`
    const NAMESPACES: Self = Self(1 << 6);
    /// `data.kubernetes[_][_]`
    const OBJECTS: Self = Self(1 << 7);
    /// A composite value that contains one of the parts of the review.
    pub(super) const COMPOSITE: Self = Self(1 << 8);
    /// `input.request.kind`
    pub(super) const KIND_OF_REQUEST: Self = Self(1 << 9);
    /// `input.request.resource`
    const RESOURCE: Self = Self(1 << 10);
    /// The kind `Secret`.
    pub(super) const KIND: Self = Self(1 << 11);
    /// The empty group.
    pub(super) const GROUP: Self = Self(1 << 12);
    /// The plural `secrets`.
    pub(super) const PLURAL: Self = Self(1 << 13);
    /// `input.reviewed[0]`: the name by which policies refer to Secrets.
    pub(super) const SECRET_NAME: Self = Self(1 << 14);

    const MAY_CONTAIN_SECRET: Self = Self(
        Self::INPUT.0
            | Self::REQUEST.0
            | Self::REVIEWED.0
            | Self::OBJECT.0
            | Self::KUBERNETES.0
            | Self::NAMESPACES.0
            | Self::OBJECTS.0
            | Self::COMPOSITE.0,
    );

    fn is_any_of(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether the value may be or contain the Secret.
    pub(super) fn holds(self) -> bool {
        self.is_any_of(Self::MAY_CONTAIN_SECRET)
    }

    /// The part at `key`, and whether this step reads the contents. `names` are the names by which policies refer to
    /// Secrets.
    pub(super) fn step(self, key: Key<'_>, names: &BTreeSet<String>) -> (Self, bool) {
        let mut found = Self::NOTHING;
        let mut withheld = false;
        for bit in (0..16).map(|bit| Self(1 << bit)).filter(|bit| self.is_any_of(*bit)) {
            found = found
                | match (bit, key) {
                    (Self::INPUT, Key::Text("request")) => Self::REQUEST,
                    (Self::INPUT, Key::Text("reviewed")) => Self::REVIEWED,
                    (Self::INPUT, Key::Any) => Self::REQUEST | Self::REVIEWED,
                    (Self::REQUEST, Key::Text("object" | "oldObject")) => Self::OBJECT,
                    (Self::REQUEST, Key::Text("kind" | "requestKind")) => Self::KIND_OF_REQUEST,
                    (Self::REQUEST, Key::Text("resource" | "requestResource")) => Self::RESOURCE,
                    (Self::REQUEST, Key::Any) => Self::OBJECT | Self::OTHER,
                    (Self::REVIEWED, Key::Number(0)) => Self::SECRET_NAME,
                    (Self::REVIEWED, Key::Number(3)) => Self::OBJECT,
                    (Self::REVIEWED, Key::Any) => Self::OBJECT | Self::OTHER,
                    (Self::OBJECT, Key::Text("kind")) => Self::KIND,
                    (Self::OBJECT, Key::Text(field)) if !FIELDS.contains(&field) => Self::NOTHING,
                    (Self::OBJECT, Key::Text(field)) if !WITHHELD.contains(&field) => Self::OTHER,
                    (Self::OBJECT | Self::COMPOSITE, _) => {
                        withheld = true;
                        Self::OTHER
                    }
                    (Self::KUBERNETES, Key::Text(kind)) if !names.contains(kind) => Self::OTHER,
                    (Self::KUBERNETES, _) => Self::NAMESPACES,
                    (Self::NAMESPACES, _) => Self::OBJECTS,
                    (Self::OBJECTS, _) => Self::OBJECT,
                    (Self::KIND_OF_REQUEST, Key::Text("kind")) => Self::KIND,
                    (Self::KIND_OF_REQUEST | Self::RESOURCE, Key::Text("group")) => Self::GROUP,
                    (Self::RESOURCE, Key::Text("resource")) => Self::PLURAL,
                    _ => Self::OTHER,
                };
        }
        (found, withheld)
    }
}

impl BitOr for ReviewParts {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
