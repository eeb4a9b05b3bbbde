//! The level of detail of a policy's list of clusters. The controller shortens the list for a large fleet;
//! shortened values are unknown, not absent.

/// The fields that the list shows for each cluster, and for how many clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The list shows all fields.
    Full,
    /// The list shows all fields except conditions that are true.
    Minimal,
    /// The list shows only the names of clusters.
    Keys,
    /// The list shows only the names of the first clusters.
    First {
        /// The number of clusters in the list.
        named: usize,
        /// The number of clusters of the policy.
        of: usize,
    },
    /// A level that the controller does not write, so the list is not trusted.
    Other,
}

impl Detail {
    /// Parses `text`, the value of the annotation with the level of detail.
    pub(super) fn read(text: Option<&str>) -> Self {
        match text {
            None | Some("full") => Self::Full,
            Some("minimal") => Self::Minimal,
            Some("keys") => Self::Keys,
            Some(text) => first(text).unwrap_or(Self::Other),
        }
    }

    /// Whether the list contains states.
    #[must_use]
    pub fn shows_states(self) -> bool {
        matches!(self, Self::Full | Self::Minimal)
    }

    /// The number of entries that a list for `all` clusters has; `None` if unknown.
    pub(super) fn names(self, all: usize) -> Option<usize> {
        match self {
            Self::Full | Self::Minimal | Self::Keys => Some(all),
            Self::First { named, of } => (of == all).then_some(named),
            Self::Other => None,
        }
    }

    /// A sentence about the fields that the list leaves out; `None` if the list is complete.
    #[must_use]
    pub fn explanation(self) -> Option<String> {
        match self {
            Self::Full => None,
            Self::Minimal => Some("true conditions are omitted: the list was too large".into()),
            Self::Keys => Some("only cluster names are listed: the full list was too large".into()),
            Self::First { named, of } => Some(format!(
                "only the names of {named} of {of} clusters are listed: the full list was too large"
            )),
            Self::Other => Some("only cluster names are shown".into()),
        }
    }
}

/// Parses `first <n> of <m>`.
fn first(text: &str) -> Option<Detail> {
    let (named, of) = text.strip_prefix("first ")?.split_once(" of ")?;
    Some(Detail::First { named: named.parse().ok()?, of: of.parse().ok()? })
}
