//! The words for programs in Events and conditions: each set is an enum, so that what documentation lists can be held against it.

use crate::Problem;
use crate::problem::{INVALID_PARAMETERS, PARAMETERS_UNREAD};
use crate::rows::kind::KindReason;

/// The reason of an Event about how a policy or a Gateway fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeReason {
    /// A policy is applied on all of its clusters.
    Synced,
    /// Another policy on a cluster takes precedence over it.
    Overridden,
    /// Some cluster has neither applied nor deleted it for long.
    Stuck,
    /// All clusters have programmed a Gateway.
    Programmed,
    /// Some cluster says that a Gateway is not programmed.
    NotProgrammed,
    /// A Gateway has no cluster.
    NotPlaced,
}

impl NoticeReason {
    /// Those that a Gateway's condition `Programmed` can have come to say.
    pub(super) const OF_PROGRAMMED: [Self; 3] = [Self::Programmed, Self::NotProgrammed, Self::NotPlaced];

    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Synced => "Synced",
            Self::Overridden => "Overridden",
            Self::Stuck => "Stuck",
            Self::Programmed => "Programmed",
            Self::NotProgrammed => "NotProgrammed",
            Self::NotPlaced => "NotPlaced",
        }
    }

    /// Whether all is well.
    #[must_use]
    pub fn is_good(self) -> bool {
        match self {
            Self::Synced | Self::Programmed => true,
            Self::Overridden | Self::Stuck | Self::NotProgrammed | Self::NotPlaced => false,
        }
    }
}

/// What the condition `Accepted` of a GatewayClass says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassAccepted {
    Accepted,
    InvalidParameters,
    ParametersUnread,
}

impl ClassAccepted {
    /// Its status and its reason.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Accepted => ("True", "Accepted"),
            Self::InvalidParameters => ("False", INVALID_PARAMETERS),
            Self::ParametersUnread => ("Unknown", PARAMETERS_UNREAD),
        }
    }
}

/// What the condition `PoliciesResolved` of a GatewayClass says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoliciesResolved {
    /// Its kinds were looked up: this of the first that cannot be synced, where there is one.
    Kinds(KindReason),
    InvalidParameters,
    ParametersUnread,
}

impl PoliciesResolved {
    /// Its status and its reason.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Kinds(KindReason::Resolved) => ("True", KindReason::Resolved.as_str()),
            Self::Kinds(reason) => ("False", reason.as_str()),
            Self::InvalidParameters => ("Unknown", INVALID_PARAMETERS),
            Self::ParametersUnread => ("Unknown", PARAMETERS_UNREAD),
        }
    }
}

/// What the condition `Accepted` of a Gateway says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatewayAccepted<'p> {
    Accepted,
    /// This keeps it from being planned.
    Frozen(&'p Problem),
}

impl GatewayAccepted<'_> {
    /// Its status and its reason.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Accepted => ("True", "Accepted"),
            Self::Frozen(problem) if problem.is_unknown() => ("Unknown", problem.category()),
            Self::Frozen(problem) => ("False", problem.category()),
        }
    }
}

/// What the condition `Programmed` of a Gateway says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatewayProgrammed {
    Programmed,
    /// What is missing has only to be waited for, or the Gateway is not sent.
    Pending,
    /// It is held back on some cluster.
    PoliciesPending,
    NotProgrammed,
    NotPlaced,
    /// Nobody looks after it any more.
    ClassGone,
}

impl GatewayProgrammed {
    /// Its status and its reason.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Programmed => ("True", NoticeReason::Programmed.as_str()),
            Self::Pending => ("False", "Pending"),
            Self::PoliciesPending => ("False", Problem::PoliciesPending.category()),
            Self::NotProgrammed => ("False", NoticeReason::NotProgrammed.as_str()),
            Self::NotPlaced => ("False", NoticeReason::NotPlaced.as_str()),
            Self::ClassGone => ("Unknown", "Pending"),
        }
    }
}

/// The reason of an Event about a write that the hub refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The API server refuses the write.
    WriteRefused,
    /// A work of the same name exists that is not of this controller.
    ForeignWork,
}

impl RefusalReason {
    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WriteRefused => "WriteRefused",
            Self::ForeignWork => "ForeignWork",
        }
    }
}
