//! The reasons why an object does not attach or a reference does not resolve, with the names of Gateway API
//! and of GEP-713.

use std::fmt;

use super::locator::Locator;

/// The reason why an object does not attach, a reference does not resolve, or a policy has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// A rule's backend, or the port of the backend, does not exist.
    BackendNotFound,
    /// The object conflicts with an object that takes precedence because it is older, or first by name.
    Conflicted,
    /// The policy is being deleted.
    Deleting,
    /// Another listener of the same protocol has the same port and host.
    HostnameConflict,
    /// An implementation accepts a reference that does not attach or resolve according to Gateway API. Not a
    /// fault.
    ImplementationAccepts,
    /// An implementation rejects a reference that attaches or resolves according to Gateway API.
    ImplementationRejects,
    /// Whether the reference resolves is specific to the implementation. Not a fault.
    ImplementationSpecific,
    /// A certificate does not exist, is malformed, or is of a kind without certificates.
    InvalidCertificateRef,
    /// Policies of the kind cannot target such an object, or objects of the kind cannot be backends.
    InvalidKind,
    /// The listener allows a kind of routes that its protocol does not carry.
    InvalidRouteKinds,
    /// No listener has a host of the route.
    NoMatchingListenerHostname,
    /// The parent has no listener with the name or the port.
    NoMatchingParent,
    /// The policy's status has `Accepted=False`.
    NotAccepted,
    /// The Gateway does not allow ListenerSets of the namespace.
    NotAllowed,
    /// No listener allows routes of the kind or of the namespace.
    NotAllowedByListeners,
    /// The parent is of a kind that other controllers manage. Not a fault.
    OtherParent,
    /// The parent does not exist.
    ParentNotFound,
    /// Another listener uses the port for an incompatible protocol.
    ProtocolConflict,
    /// No ReferenceGrant permits the reference to another namespace.
    RefNotPermitted,
    /// The target, or its section, does not exist.
    TargetNotFound,
    /// A listener or a Gateway selects Namespaces by labels, and the labels of this Namespace are unknown.
    /// Not a fault.
    UnknownLabels,
    /// The labels of possible targets are unknown. Not a fault.
    UnknownTargets,
    /// Only an implementation knows the kind of the referenced object. Not a fault.
    UnknownKind,
    /// The listener's protocol is neither a core protocol nor a protocol of an implementation.
    UnsupportedProtocol,
}

impl Reason {
    /// Whether a user has to fix the problem.
    #[must_use]
    pub fn is_fault(self) -> bool {
        !matches!(
            self,
            Self::ImplementationAccepts
                | Self::ImplementationSpecific
                | Self::OtherParent
                | Self::UnknownKind
                | Self::UnknownLabels
                | Self::UnknownTargets
        )
    }
}

impl Reason {
    /// Whether the status of an implementation differs from the rules of Gateway API.
    #[must_use]
    pub fn differs(self) -> bool {
        matches!(self, Self::ImplementationAccepts | Self::ImplementationRejects)
    }

    /// The reason as conditions contain it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BackendNotFound => "BackendNotFound",
            Self::Conflicted => "Conflicted",
            Self::Deleting => "Deleting",
            Self::HostnameConflict => "HostnameConflict",
            Self::ImplementationAccepts => "ImplementationAccepts",
            Self::ImplementationRejects => "ImplementationRejects",
            Self::ImplementationSpecific => "ImplementationSpecific",
            Self::InvalidCertificateRef => "InvalidCertificateRef",
            Self::InvalidKind => "InvalidKind",
            Self::InvalidRouteKinds => "InvalidRouteKinds",
            Self::NoMatchingListenerHostname => "NoMatchingListenerHostname",
            Self::NoMatchingParent => "NoMatchingParent",
            Self::NotAccepted => "NotAccepted",
            Self::NotAllowed => "NotAllowed",
            Self::NotAllowedByListeners => "NotAllowedByListeners",
            Self::OtherParent => "OtherParent",
            Self::ParentNotFound => "ParentNotFound",
            Self::ProtocolConflict => "ProtocolConflict",
            Self::RefNotPermitted => "RefNotPermitted",
            Self::TargetNotFound => "TargetNotFound",
            Self::UnknownKind => "UnknownKind",
            Self::UnknownLabels => "UnknownLabels",
            Self::UnknownTargets => "UnknownTargets",
            Self::UnsupportedProtocol => "UnsupportedProtocol",
        }
    }
}

/// The reason as conditions contain it.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An object or section that does not attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unattached<'f> {
    /// The object or section that does not attach.
    pub from: Locator<'f>,
    /// The parent or target to which it does not attach.
    pub to: Locator<'f>,
    /// The port in the parent reference, if `from` is a route.
    pub port: Option<u16>,
    /// The reason why the object or section does not attach.
    pub reason: Reason,
    /// The reason as a sentence.
    pub message: String,
}

/// A reference that does not resolve, or that may not resolve. References of listeners and rules affect the
/// condition `ResolvedRefs`. References of routes and ListenerSets to their parents do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved<'f> {
    /// The object or section with the reference.
    pub from: Locator<'f>,
    /// The referenced object; `None` if a listener refers to a kind of routes.
    pub to: Option<Locator<'f>>,
    /// The reason why the reference does not resolve.
    pub reason: Reason,
    /// The reason as a sentence.
    pub message: String,
}

impl Unresolved<'_> {
    /// The status of the condition: `True` or `False` as an implementation reports it, otherwise `False` or `Unknown`.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match self.reason {
            Reason::ImplementationAccepts => "True",
            reason if reason.is_fault() => "False",
            _ => "Unknown",
        }
    }
}
