//! Errors of requests to the hub.

use std::error::Error;

/// Why a request to the hub failed: one line with the attempted action.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The client cannot be created, for example without credentials.
    #[error("cannot create a client for {url}: {cause}")]
    Client {
        /// The URL of the hub.
        url: String,
        /// The innermost cause.
        cause: String,
    },
    /// The hub returned an error status.
    #[error("cannot {what} on the hub at {url}: {cause}")]
    Rejected {
        /// The attempted action, for example `list GatewayClasses`.
        what: String,
        /// The URL of the hub.
        url: String,
        /// The hub's message and status code.
        cause: String,
        /// The HTTP status.
        code: u16,
    },
    /// The hub sent no response.
    #[error("cannot reach the hub at {url}: {cause}")]
    Unreachable {
        /// The URL of the hub.
        url: String,
        /// The innermost cause.
        cause: String,
    },
    /// The hub does not serve this API.
    #[error("the hub at {url} has no {what}")]
    NotServed {
        /// The URL of the hub.
        url: String,
        /// The missing API.
        what: String,
    },
    /// The object does not exist.
    #[error("the hub at {url} has no {what}")]
    Absent {
        /// The URL of the hub.
        url: String,
        /// The kind and the name of the object.
        what: String,
    },
    /// The cluster serves OCM's APIs for spokes, but lacks OCM's APIs for hubs.
    #[error(
        "the cluster at {url} looks like a spoke, not a hub: it has AppliedManifestWorks and no ManifestWorks. Set \
         --kubeconfig or --context to the hub"
    )]
    Spoke {
        /// The URL of the cluster.
        url: String,
    },
}

impl HubError {
    /// Whether the API server denied access (403).
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Rejected { code: 403, .. })
    }

    /// Replaces the attempted action of a [`HubError::Rejected`].
    #[must_use]
    pub fn on(self, what: String) -> Self {
        match self {
            Self::Rejected { url, cause, code, .. } => Self::Rejected { what, url, cause, code },
            other => other,
        }
    }

    /// Whether the hub responded, even if with an error.
    #[must_use]
    pub fn is_response(&self) -> bool {
        match self {
            Self::Rejected { .. } | Self::NotServed { .. } | Self::Absent { .. } | Self::Spoke { .. } => true,
            Self::Client { .. } | Self::Unreachable { .. } => false,
        }
    }
}

/// Follows the sources of `error` to the last source, the root cause.
#[must_use]
pub fn root_cause<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    let mut root_cause = error;
    while let Some(source) = root_cause.source() {
        root_cause = source;
    }
    root_cause
}
