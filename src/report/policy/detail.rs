//! How much the list of a policy's clusters shows: a big fleet's is cut, and what is cut is not missing.

/// How much of each cluster the list shows, and of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Everything.
    Full,
    /// No conditions that are true.
    Minimal,
    /// Names alone.
    Keys,
    /// The names of so many clusters.
    First {
        /// How many are named.
        named: usize,
        /// How many there are.
        of: usize,
    },
    /// A level that the controller does not write: nothing is taken for granted.
    Other,
}

impl Detail {
    /// Reads the annotation.
    pub(super) fn read(text: Option<&str>) -> Self {
        match text {
            None | Some("full") => Self::Full,
            Some("minimal") => Self::Minimal,
            Some("keys") => Self::Keys,
            Some(text) => first(text).unwrap_or(Self::Other),
        }
    }

    /// Whether the list says more of a cluster than that the policy is for it.
    #[must_use]
    pub fn shows_states(self) -> bool {
        matches!(self, Self::Full | Self::Minimal)
    }

    /// How many of `all` clusters the list names; `None` where that is not known.
    pub(super) fn names(self, all: usize) -> Option<usize> {
        match self {
            Self::Full | Self::Minimal | Self::Keys => Some(all),
            Self::First { named, of } => (of == all).then_some(named),
            Self::Other => None,
        }
    }

    /// What the list leaves out, for people.
    #[must_use]
    pub fn explanation(self) -> Option<String> {
        match self {
            Self::Full => None,
            Self::Minimal => {
                Some("conditions that are true are left out of the list, which was too large".into())
            }
            Self::Keys => {
                Some("only the clusters' names are in the list, which was too large for more".into())
            }
            Self::First { named, of } => Some(format!(
                "only the names of {named} of {of} clusters are in the list, which was too large for more"
            )),
            Self::Other => Some("only the clusters' names are shown".into()),
        }
    }
}

/// `first <n> of <m>`.
fn first(text: &str) -> Option<Detail> {
    let (named, of) = text.strip_prefix("first ")?.split_once(" of ")?;
    Some(Detail::First { named: named.parse().ok()?, of: of.parse().ok()? })
}
