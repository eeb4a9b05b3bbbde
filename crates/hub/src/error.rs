//! Why a hub was not read.

use std::error::Error;

/// Why a hub was not read, in one line that says what was tried.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// There are no credentials.
    #[error("cannot make a client of {url}: {cause}")]
    Client {
        /// The hub.
        url: String,
        /// The innermost cause.
        cause: String,
    },
    /// It was asked, and said no.
    #[error("cannot {what} on the hub at {url}: {cause}")]
    Refused {
        /// As in `list GatewayClasses`.
        what: String,
        /// The hub.
        url: String,
        /// Its own words, and the code.
        cause: String,
        /// The HTTP status.
        code: u16,
    },
    /// There was no answer.
    #[error("cannot reach the hub at {url}: {cause}")]
    Unreachable {
        /// The hub.
        url: String,
        /// The innermost cause.
        cause: String,
    },
    /// It serves no such kind.
    #[error("the hub at {url} has no {what}")]
    NotServed {
        /// The hub.
        url: String,
        /// What it lacks.
        what: String,
    },
    /// It has no object of this name.
    #[error("the hub at {url} has no {what}")]
    Absent {
        /// The hub.
        url: String,
        /// The kind and the name.
        what: String,
    },
    /// It serves OCM's kinds for spokes, and lacks those for hubs.
    #[error(
        "the cluster at {url} looks like a spoke, not a hub: it has AppliedManifestWorks and no ManifestWorks. Set \
         --kubeconfig or --context to the hub"
    )]
    Spoke {
        /// The cluster.
        url: String,
    },
}

impl HubError {
    /// Whether a right is missing.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: 403, .. })
    }

    /// The same, of an attempt at `what` instead.
    #[must_use]
    pub fn on(self, what: String) -> Self {
        match self {
            Self::Refused { url, cause, code, .. } => Self::Refused { what, url, cause, code },
            other => other,
        }
    }

    /// Whether the hub answered at all.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::NotServed { .. } | Self::Absent { .. } | Self::Spoke { .. } => true,
            Self::Client { .. } | Self::Unreachable { .. } => false,
        }
    }
}

/// The innermost of an error's causes: what really happened.
#[must_use]
pub fn innermost<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}
