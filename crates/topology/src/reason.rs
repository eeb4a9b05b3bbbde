//! Why something is not attached, in the words of Gateway API and of GEP-713.

use std::fmt;

use super::locator::Locator;

/// Why something is not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// A rule's backend, or a port of it, is not there.
    BackendNotFound,
    /// Another, which is older or first by name, holds the place.
    Conflicted,
    /// The policy was asked to go.
    Deleting,
    /// Another listener of the same protocol has the port and the host.
    HostnameConflict,
    /// An implementation accepts a reference that does not attach or resolve by Gateway API. Not a fault.
    ImplementationAccepts,
    /// An implementation reports that it rejects what attaches or resolves by Gateway API.
    ImplementationRejects,
    /// Whether the reference resolves is specific to the implementation. Not a fault.
    ImplementationSpecific,
    /// A certificate does not exist, is malformed, or is of a kind that holds none.
    InvalidCertificateRef,
    /// No policy of the kind may lie there, or no backend is of the kind.
    InvalidKind,
    /// The listener allows a kind of routes that its protocol does not carry.
    InvalidRouteKinds,
    /// No listener has a host of the route.
    NoMatchingListenerHostname,
    /// The parent has no listener of the name, or of the port.
    NoMatchingParent,
    /// The policy's status refuses it.
    NotAccepted,
    /// The Gateway lets no ListenerSet of the namespace attach.
    NotAllowed,
    /// No listener lets a route of the kind, or of the namespace, attach.
    NotAllowedByListeners,
    /// The parent is of a kind that is another controller's matter. No fault.
    OtherParent,
    /// The parent is not there.
    ParentNotFound,
    /// Another listener has the port for a protocol that does not go with this one's.
    ProtocolConflict,
    /// What is in another namespace is not granted.
    RefNotPermitted,
    /// The target, or the section of it, is not there.
    TargetNotFound,
    /// A listener or a Gateway selects Namespaces by labels, and those of this Namespace are not known. Not a fault.
    UnknownLabels,
    /// The labels of possible targets are not known. Not a fault.
    UnknownTargets,
    /// The kind of the referenced object is specific to implementations. Not a fault.
    UnknownKind,
    /// The listener's protocol is neither a core protocol nor one of an implementation.
    UnsupportedProtocol,
}

impl Reason {
    /// Whether somebody has to mend it.
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
    /// Whether an implementation reports something else than Gateway API says.
    #[must_use]
    pub fn differs(self) -> bool {
        matches!(self, Self::ImplementationAccepts | Self::ImplementationRejects)
    }

    /// The word that conditions have for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
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

/// As conditions have it.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What is not attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unattached<'f> {
    /// What does not attach.
    pub from: Locator<'f>,
    /// To what.
    pub to: Locator<'f>,
    /// Of a route: the port of listeners that its reference names.
    pub port: Option<u16>,
    /// Why not.
    pub reason: Reason,
    /// The same in a sentence.
    pub message: String,
}

/// A reference that does not resolve, or may not. Those of listeners and rules count for the condition `ResolvedRefs`; routes and
/// ListenerSets refer to their parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved<'f> {
    /// The object, or the section of it, that refers.
    pub from: Locator<'f>,
    /// The referenced object; `None` for kinds of routes.
    pub to: Option<Locator<'f>>,
    /// Why it does not resolve.
    pub reason: Reason,
    /// The same in a sentence.
    pub message: String,
}

impl Unresolved<'_> {
    /// The status of the condition: `True` or `False` as an implementation reports, otherwise `False` or `Unknown`.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match self.reason {
            Reason::ImplementationAccepts => "True",
            reason if reason.is_fault() => "False",
            _ => "Unknown",
        }
    }
}
