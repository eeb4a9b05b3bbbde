//! The problems that keep an object from being planned or copied completely, with the messages for its owner.

use std::collections::BTreeMap;
use std::fmt;

use policy_sync_api::names::{ClusterName, GroupVersionResource, ObjectKey};
use policy_sync_api::pause::Pause;
use policy_sync_api::selector::BadSelector;
use policy_sync_api::text::{group_digits, join_limited, truncate_bytes};

/// A problem that the owner of an object, or of one of its dependencies, should know about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Problem {
    /// The annotation that selects the object's clusters is invalid.
    #[error("annotation {annotation}{place}: {fault}")]
    BadSelector {
        /// The key of the annotation.
        annotation: &'static str,
        /// The position inside the annotation, such as `[1].operator`; empty if the whole value is invalid.
        place: String,
        /// The error message.
        fault: String,
    },
    /// The annotation with overrides is invalid, or makes the policy's spec invalid.
    #[error("annotation kuadrant.io/cluster-overrides{place}: {fault}")]
    BadOverrides {
        /// The position inside the annotation, such as `[1].patch.limits`; empty for the whole list.
        place: String,
        /// The error message.
        fault: String,
    },
    /// The grace period of the Gateway is invalid.
    #[error(
        "annotation kuadrant.io/grace-timeout: expected whole seconds, at most 31536000, found {found}: using {used} s"
    )]
    BadGraceTimeout {
        /// The value of the annotation.
        found: String,
        /// The effective grace period in seconds.
        used: u64,
    },
    /// The grace period of the Gateway exceeds the maximum of its class.
    #[error(
        "annotation kuadrant.io/grace-timeout: {requested} is more than maxGraceSeconds of GatewayClass {class}: using {used} s"
    )]
    GraceTooLong {
        /// The requested grace period in seconds.
        requested: u64,
        /// The name of the GatewayClass.
        class: String,
        /// The effective grace period in seconds.
        used: u64,
    },
    /// The namespace on the hub maps to a namespace that is not allowed on spokes.
    #[error("namespace {namespace} maps to {downstream} on the spokes, which {fault}")]
    DownstreamNamespace {
        /// The namespace on the hub.
        namespace: String,
        /// The namespace on the spokes.
        downstream: String,
        /// The reason, as the end of a sentence about the namespace.
        fault: &'static str,
    },
    /// A class lists the kind in a version other than the synced version.
    #[error(
        "{gvr}: is synced in version {held}, which GatewayClass {class} lists: list the same version in all classes"
    )]
    VersionConflict {
        /// The kind in the version that is not synced.
        gvr: GroupVersionResource,
        /// The version that is synced.
        held: String,
        /// The oldest class that lists the synced version.
        class: String,
    },
    /// The kind cannot be synced.
    #[error("{gvr}: {fault}")]
    KindNotResolved {
        /// The kind in the version that cannot be synced.
        gvr: GroupVersionResource,
        /// The reason why the kind cannot be synced.
        fault: String,
    },
    /// The parameters of a class are invalid.
    #[error("GatewayClass {class} has invalid parameters: {fault}")]
    InvalidParameters {
        /// The name of the GatewayClass.
        class: String,
        /// The position in the parameters, and the error message.
        fault: String,
    },
    /// The class of a Gateway was deleted less than [`CLASS_DELETION_DELAY`](crate::CLASS_DELETION_DELAY) ago.
    #[error(
        "GatewayClass {0} does not exist: existing copies are deleted after a minute, unless it is created again"
    )]
    ClassGone(String),
    /// The parameters of a class cannot be read, and this process has never read them.
    #[error("cannot read the parameters of GatewayClass {class}: {fault}")]
    ParametersUnread {
        /// The name of the GatewayClass.
        class: String,
        /// The error message of the hub.
        fault: String,
    },
    /// The work would exceed the size that Open Cluster Management allows.
    #[error("its work would have {bytes} bytes, at most {limit} are allowed")]
    TooLarge {
        /// The size of the manifests in bytes.
        bytes: usize,
        /// The maximum size of the manifests in bytes.
        limit: usize,
    },
    /// The distinct copies of the policy would together exceed the size that is allowed for one policy.
    #[error("its {copies} copies would have {} bytes, at most {} are allowed", group_digits(*bytes), group_digits(*limit))]
    CopiesTooLarge {
        /// The number of distinct copies.
        copies: usize,
        /// An upper bound of the copies' total size in bytes.
        bytes: usize,
        /// The maximum total size of the copies in bytes.
        limit: usize,
    },
    /// The annotation with replica preferences is invalid.
    #[error("annotation federation.kubernetes.io/replica-set-preferences{place}: {fault}")]
    BadPreferences {
        /// The position inside the annotation, such as `.clusters.c1.weight`; empty if the whole value is invalid.
        place: String,
        /// The error message.
        fault: String,
    },
    /// The object has replica preferences but no `spec.replicas`.
    #[error("annotation federation.kubernetes.io/replica-set-preferences: it has no spec.replicas to split")]
    NoReplicas,
    /// The maximums in the preferences leave some replicas unassigned.
    #[error("{left_out} of {total} replicas are not assigned: its preferences allow no more on any cluster")]
    ReplicasLeftOut {
        /// The number of unassigned replicas.
        left_out: u64,
        /// The number of replicas in the spec.
        total: u64,
    },
    /// The spec is invalid.
    #[error("spec: {0}")]
    BadSpec(String),
    /// A target reference does not have the expected form.
    #[error("spec.{place}: {fault}")]
    BadReference {
        /// The position inside the spec, such as `targetRef` or `targetRefs[1]`.
        place: String,
        /// The error message.
        fault: String,
    },
    /// A target reference names another namespace. This reference is omitted from the copies.
    #[error(
        "the reference to Gateway {0} is ignored: a policy can only target Gateways in its own namespace"
    )]
    ForeignReference(ObjectKey),
    /// A ManifestWork with the planned name exists but does not belong to this controller.
    #[error("cluster {cluster} has a ManifestWork {name} of another owner: it is not changed")]
    ForeignWork {
        /// The name of the cluster.
        cluster: String,
        /// The name of the ManifestWork.
        name: String,
    },
    /// The Gateway has waited for its policies for as long as its class allows, and is still not created on some
    /// clusters.
    #[error("it waits for its policies on some clusters: its condition Programmed names them")]
    PoliciesPending,
    /// On some clusters, the copies of this policy and of another policy with the same target were created in a
    /// different order than the policies.
    #[error(
        "its copy was created {} that of {other}, which has the same target and is {} on the hub, on these clusters: {clusters}. These \
         clusters may enforce the wrong policy. To correct this, delete {}, wait until its copies are gone, and create it again",
        if *is_older { "before" } else { "after" },
        if *is_older { "older" } else { "younger" },
        if *is_older { "this policy" } else { "the other policy" },
    )]
    OutOfOrder {
        /// The other policy.
        other: ObjectKey,
        /// Whether the other policy is older than this policy on the hub.
        is_older: bool,
        /// The names of the clusters, as text for the message.
        clusters: String,
    },
    /// Another instance of Policy Sync writes the status of this object.
    #[error(
        "another Policy Sync controller ({0}) reports its status for other clusters, so this controller does not write its status"
    )]
    OtherController(String),
    /// The Secret of a listener is not copied. The Gateway is copied without it.
    #[error("listener {listener}: Secret {secret} is not copied: {fault}")]
    SecretLeftOut {
        /// The name of the listener.
        listener: String,
        /// The Secret on the hub.
        secret: String,
        /// The reason why the Secret is not copied.
        fault: SecretFault,
    },
    /// The number of further Secrets that are not copied; their messages are omitted.
    #[error("{0} more Secrets that its listeners name are not copied")]
    MoreSecretsLeftOut(usize),
    /// Secrets or ReferenceGrants cannot be listed.
    #[error("cannot determine which Secrets of its listeners may be copied: cannot list {what}: {fault}")]
    SecretsUnread {
        /// `secrets` or `referencegrants`.
        what: String,
        /// The error message of the hub.
        fault: String,
    },
    /// The annotation `kuadrant.io/paused` of the object, or of an object on which it depends, is `true`.
    #[error(
        "{0} is paused: works are neither created nor changed while annotation kuadrant.io/paused is true"
    )]
    Paused(PausedObject),
    /// The annotation `kuadrant.io/paused` is invalid. An invalid annotation also pauses the works.
    #[error(
        "{of} has annotation kuadrant.io/paused: expected true or false, found {found}: works are neither created nor changed"
    )]
    BadPaused {
        /// The object with the annotation.
        of: PausedObject,
        /// The value of the annotation.
        found: Box<str>,
    },
    /// A list that the plan needs is not complete yet, so nothing may change.
    #[error("waiting for the list of {0}")]
    Unread(String),
}

impl From<BadSelector> for Problem {
    fn from(BadSelector { annotation, place, fault }: BadSelector) -> Self {
        Self::BadSelector { annotation, place, fault }
    }
}

/// The object whose annotation pauses works: the object of these works, or an object on which it depends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PausedObject {
    /// The object of the works.
    Itself,
    /// The GatewayClass of a Gateway.
    Class(String),
    /// A cluster.
    Cluster(ClusterName),
}

impl fmt::Display for PausedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Itself => f.write_str("it"),
            Self::Class(class) => write!(f, "GatewayClass {class}"),
            Self::Cluster(cluster) => write!(f, "ManagedCluster {cluster}"),
        }
    }
}

/// The reason why a Secret is not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum SecretFault {
    /// The Secret does not exist or has another type.
    #[error("there is no such Secret of type kubernetes.io/tls")]
    Missing,
    /// The Secret is in another namespace and no ReferenceGrant permits the reference. Whether the Secret exists is not
    /// disclosed.
    #[error("no ReferenceGrant in its namespace allows the reference")]
    NotGranted,
    /// The namespace of the Secret maps to a namespace that is not allowed on spokes.
    #[error("the namespace of the Secret on the spokes would be reserved or too long")]
    Namespace,
}

impl SecretFault {
    /// A stable identifier for metrics and event reasons.
    fn category(self) -> &'static str {
        match self {
            Self::Missing => "SecretMissing",
            Self::NotGranted => "SecretNotGranted",
            Self::Namespace => "SecretNamespace",
        }
    }
}

/// The maximum length of a problem's message in bytes. An Event allows this much; an annotation or a condition has
/// room for ten such messages.
pub(super) const TEXT_LIMIT: usize = 1024;

/// The category of invalid parameters.
pub(super) const INVALID_PARAMETERS: &str = "InvalidParameters";
/// The category of parameters that cannot be read and that this process has never read.
pub(super) const PARAMETERS_UNREAD: &str = "ParametersUnread";

impl Problem {
    /// The categories of all reported problems, each with whether it [freezes](Problem::freezes) the object.
    pub const CATEGORIES: [(&'static str, bool); 28] = [
        ("BadGraceTimeout", false),
        ("BadOverrides", true),
        ("BadPaused", true),
        ("BadPreferences", true),
        ("BadReference", true),
        ("BadSelector", true),
        ("BadSpec", true),
        ("ClassGone", true),
        ("DownstreamNamespace", true),
        ("ForeignReference", false),
        ("ForeignWork", false),
        ("GraceTooLong", false),
        (INVALID_PARAMETERS, true),
        ("KindNotResolved", true),
        ("MoreSecretsLeftOut", false),
        ("NoReplicas", false),
        ("OtherController", false),
        ("OutOfOrder", false),
        (PARAMETERS_UNREAD, true),
        ("Paused", true),
        ("PoliciesPending", false),
        ("ReplicasLeftOut", false),
        ("SecretMissing", false),
        ("SecretNamespace", false),
        ("SecretNotGranted", false),
        ("SecretsUnread", true),
        ("TooLarge", true),
        ("VersionConflict", true),
    ];

    /// The message for the owner, cut to the maximum length: it may quote user input of any length.
    #[must_use]
    pub fn text(&self) -> String {
        truncate_bytes(&self.to_string(), TEXT_LIMIT).into_owned()
    }

    /// A stable identifier for metrics and event reasons.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::BadSelector { .. } => "BadSelector",
            Self::BadOverrides { .. } => "BadOverrides",
            Self::BadGraceTimeout { .. } => "BadGraceTimeout",
            Self::GraceTooLong { .. } => "GraceTooLong",
            Self::DownstreamNamespace { .. } => "DownstreamNamespace",
            Self::VersionConflict { .. } => "VersionConflict",
            Self::KindNotResolved { .. } => "KindNotResolved",
            Self::InvalidParameters { .. } => INVALID_PARAMETERS,
            Self::ClassGone(_) => "ClassGone",
            Self::ParametersUnread { .. } => PARAMETERS_UNREAD,
            Self::TooLarge { .. } | Self::CopiesTooLarge { .. } => "TooLarge",
            Self::BadPreferences { .. } => "BadPreferences",
            Self::NoReplicas => "NoReplicas",
            Self::ReplicasLeftOut { .. } => "ReplicasLeftOut",
            Self::BadSpec(_) => "BadSpec",
            Self::BadReference { .. } => "BadReference",
            Self::ForeignReference(_) => "ForeignReference",
            Self::ForeignWork { .. } => "ForeignWork",
            Self::PoliciesPending => "PoliciesPending",
            Self::OtherController(_) => "OtherController",
            Self::OutOfOrder { .. } => "OutOfOrder",
            Self::SecretLeftOut { fault, .. } => fault.category(),
            Self::MoreSecretsLeftOut(_) => "MoreSecretsLeftOut",
            Self::SecretsUnread { .. } => "SecretsUnread",
            Self::Paused(_) => "Paused",
            Self::BadPaused { .. } => "BadPaused",
            Self::Unread(_) => "Unread",
        }
    }

    /// The problem for `pause`, the pause annotation of the object `of`. `None` if the annotation does not pause the
    /// object.
    #[must_use]
    pub(crate) fn of_pause(pause: &Pause, of: PausedObject) -> Option<Self> {
        match pause {
            Pause::No => None,
            Pause::Yes => Some(Self::Paused(of)),
            Pause::Invalid(found) => Some(Self::BadPaused { of, found: found.clone() }),
        }
    }

    /// Whether the problem is a pause by the object's own annotation `kuadrant.io/paused`.
    #[must_use]
    pub(crate) fn is_own_pause(&self) -> bool {
        matches!(self, Self::Paused(of) | Self::BadPaused { of, .. } if *of == PausedObject::Itself)
    }

    /// Whether the problem disappears within moments after the process starts, so that it is not reported to the owner.
    #[must_use]
    pub fn passes(&self) -> bool {
        matches!(self, Self::Unread(_))
    }

    /// Whether the controller lacks information about the hub, so that it is unknown whether the object can be planned.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::ClassGone(_) | Self::ParametersUnread { .. })
    }

    /// The notes of the Events about `problems`: one text for each category, even if its problems concern several
    /// clusters or Secrets.
    pub fn event_notes<'p>(problems: impl Iterator<Item = &'p Self>) -> BTreeMap<&'static str, String> {
        let mut texts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for problem in problems {
            texts.entry(problem.category()).or_default().push(problem.text());
        }
        let note =
            |texts: Vec<String>| truncate_bytes(&join_limited(texts.into_iter()), TEXT_LIMIT).into_owned();
        texts.into_iter().map(|(category, texts)| (category, note(texts))).collect()
    }

    /// Whether this is a work of another owner that has the planned name in `cluster`.
    #[must_use]
    pub fn is_foreign_work(&self, cluster: &ClusterName) -> bool {
        matches!(self, Self::ForeignWork { cluster: found, .. } if **found == *cluster.0)
    }

    /// Whether the object's works are left unchanged until the problem is resolved.
    #[must_use]
    pub fn freezes(&self) -> bool {
        match self {
            Self::BadSelector { .. }
            | Self::BadOverrides { .. }
            | Self::DownstreamNamespace { .. }
            | Self::VersionConflict { .. }
            | Self::KindNotResolved { .. }
            | Self::InvalidParameters { .. }
            | Self::ClassGone(_)
            | Self::ParametersUnread { .. }
            | Self::TooLarge { .. }
            | Self::CopiesTooLarge { .. }
            | Self::BadPreferences { .. }
            | Self::BadSpec(_)
            | Self::BadReference { .. }
            | Self::SecretsUnread { .. }
            | Self::Paused(_)
            | Self::BadPaused { .. }
            | Self::Unread(_) => true,
            Self::BadGraceTimeout { .. }
            | Self::GraceTooLong { .. }
            | Self::ForeignReference(_)
            | Self::ForeignWork { .. }
            | Self::PoliciesPending
            | Self::NoReplicas
            | Self::OtherController(_)
            | Self::OutOfOrder { .. }
            | Self::ReplicasLeftOut { .. }
            | Self::SecretLeftOut { .. }
            | Self::MoreSecretsLeftOut(_) => false,
        }
    }
}
