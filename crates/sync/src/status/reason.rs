//! The reasons of Events and conditions, as enums so that tests can compare them with the documentation.

use crate::Problem;
use crate::problem::{INVALID_PARAMETERS, PARAMETERS_UNREAD};
use crate::rows::kind::KindReason;

/// The reason of an Event about the state of a policy or Gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeReason {
    /// All clusters have applied the policy.
    Synced,
    /// Another policy on a cluster overrides the policy.
    Overridden,
    /// A cluster has neither applied nor deleted the object for five minutes.
    Stuck,
    /// All clusters have programmed a Gateway.
    Programmed,
    /// A cluster reports that the Gateway is not programmed.
    NotProgrammed,
    /// The Gateway has no cluster.
    NotPlaced,
}

impl NoticeReason {
    /// The reasons that match reasons of a Gateway's condition `Programmed`.
    pub(super) const OF_PROGRAMMED: [Self; 3] = [Self::Programmed, Self::NotProgrammed, Self::NotPlaced];

    /// The reason as Events show it.
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

    /// Whether the Event reports success: the object is synced or programmed.
    #[must_use]
    pub fn is_good(self) -> bool {
        match self {
            Self::Synced | Self::Programmed => true,
            Self::Overridden | Self::Stuck | Self::NotProgrammed | Self::NotPlaced => false,
        }
    }
}

/// The state of the condition `Accepted` of a GatewayClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassAccepted {
    Accepted,
    InvalidParameters,
    ParametersUnread,
}

impl ClassAccepted {
    /// The status and the reason of the condition.
    pub(crate) fn status_and_reason(self) -> (&'static str, &'static str) {
        match self {
            Self::Accepted => ("True", "Accepted"),
            Self::InvalidParameters => ("False", INVALID_PARAMETERS),
            Self::ParametersUnread => ("Unknown", PARAMETERS_UNREAD),
        }
    }
}

/// The state of the condition `PoliciesResolved` of a GatewayClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoliciesResolved {
    /// All kinds were checked. Contains the reason of the first kind that cannot be synced, or `Resolved`.
    Kinds(KindReason),
    InvalidParameters,
    ParametersUnread,
}

impl PoliciesResolved {
    /// The status and the reason of the condition.
    pub(crate) fn status_and_reason(self) -> (&'static str, &'static str) {
        match self {
            Self::Kinds(KindReason::Resolved) => ("True", KindReason::Resolved.as_str()),
            Self::Kinds(reason) => ("False", reason.as_str()),
            Self::InvalidParameters => ("Unknown", INVALID_PARAMETERS),
            Self::ParametersUnread => ("Unknown", PARAMETERS_UNREAD),
        }
    }
}

/// The state of the condition `Accepted` of a Gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatewayAccepted<'p> {
    Accepted,
    /// A problem prevents planning.
    Frozen(&'p Problem),
}

impl GatewayAccepted<'_> {
    /// The status and the reason of the condition.
    pub(crate) fn status_and_reason(self) -> (&'static str, &'static str) {
        match self {
            Self::Accepted => ("True", "Accepted"),
            Self::Frozen(problem) if problem.is_unknown() => ("Unknown", problem.category()),
            Self::Frozen(problem) => ("False", problem.category()),
        }
    }
}

/// The state of the condition `Programmed` of a Gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatewayProgrammed {
    Programmed,
    /// Clusters have yet to report, or the Gateway is frozen.
    Pending,
    /// The creation of the Gateway on a cluster has waited too long for the Gateway's policies.
    PoliciesPending,
    NotProgrammed,
    NotPlaced,
    /// The class of the Gateway was deleted, so no controller reports on the Gateway.
    ClassGone,
}

impl GatewayProgrammed {
    /// The status and the reason of the condition.
    pub(crate) fn status_and_reason(self) -> (&'static str, &'static str) {
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

/// The reason of an Event about a write that the hub rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionReason {
    /// The API server rejects the write.
    WriteRejected,
    /// A work of the same name exists that does not belong to this controller.
    ForeignWork,
}

impl RejectionReason {
    /// The reason as Events show it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WriteRejected => "WriteRefused",
            Self::ForeignWork => "ForeignWork",
        }
    }
}
