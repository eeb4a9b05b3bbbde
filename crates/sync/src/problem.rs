//! What keeps an object from being planned, in words for its owner.

use std::collections::BTreeMap;

use policy_sync_api::names::{ClusterName, GroupVersionResource, ObjectKey};
use policy_sync_api::selector::BadSelector;
use policy_sync_api::text::{capped, grouped, itemized};

/// Something that an object's owner, or the owner of what it depends on, should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Problem {
    /// The selector of the object's clusters cannot be read.
    #[error("annotation {annotation}{place}: {fault}")]
    BadSelector {
        /// The annotation.
        annotation: &'static str,
        /// `[1].operator`, empty for all of it.
        place: String,
        /// What is wrong.
        fault: String,
    },
    /// The overrides of the policy cannot be read, or what they make of its spec is invalid.
    #[error("annotation kuadrant.io/cluster-overrides{place}: {fault}")]
    BadOverrides {
        /// `[1].patch.limits`, empty for the whole list.
        place: String,
        /// What is wrong.
        fault: String,
    },
    /// How long the Gateway is to serve on cannot be read.
    #[error(
        "annotation kuadrant.io/grace-timeout: expected whole seconds, 31536000 at most, found {found}: {used} are used"
    )]
    BadGraceTimeout {
        /// What stands there.
        found: String,
        /// How many seconds hold.
        used: u64,
    },
    /// The Gateway is to serve on for longer than its class lets it.
    #[error(
        "annotation kuadrant.io/grace-timeout: {asked} is more than maxGraceSeconds of GatewayClass {class}: {used} are used"
    )]
    GraceTooLong {
        /// How many seconds its owner wants.
        asked: u64,
        /// The class.
        class: String,
        /// How many seconds hold.
        used: u64,
    },
    /// The hub namespace maps to one that no spoke may have.
    #[error("namespace {namespace} maps to {downstream} on the spokes, which {fault}")]
    DownstreamNamespace {
        /// On the hub.
        namespace: String,
        /// On the spokes.
        downstream: String,
        /// Why not.
        fault: &'static str,
    },
    /// A class lists the kind in another version than it is synced in.
    #[error(
        "{gvr}: is synced in version {held}, which GatewayClass {class} lists: let the classes agree on one"
    )]
    VersionConflict {
        /// The kind, in the version that is not synced.
        gvr: GroupVersionResource,
        /// The version that is.
        held: String,
        /// The oldest class that lists that one.
        class: String,
    },
    /// The kind cannot be synced at present.
    #[error("{gvr}: {fault}")]
    KindNotResolved {
        /// The kind.
        gvr: GroupVersionResource,
        /// Why not.
        fault: String,
    },
    /// The parameters of a class are invalid.
    #[error("GatewayClass {class} has invalid parameters: {fault}")]
    InvalidParameters {
        /// The class.
        class: String,
        /// Where and what is wrong.
        fault: String,
    },
    /// The class of a Gateway went, and may be made anew.
    #[error(
        "GatewayClass {0} does not exist: unless it is made anew within a minute, what was sent for it goes"
    )]
    ClassGone(String),
    /// The parameters of a class cannot be read, and never were.
    #[error("the parameters of GatewayClass {class} are not known: {fault}")]
    ParametersUnread {
        /// The class.
        class: String,
        /// Why not, in the hub's words.
        fault: String,
    },
    /// The work would be larger than Open Cluster Management takes.
    #[error("its work would have {bytes} bytes, {limit} are allowed")]
    TooLarge {
        /// The size of the manifests.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The copies that differ would be larger together than one policy's may be.
    #[error("its {copies} copies would have {} bytes, {} are allowed", grouped(*bytes), grouped(*limit))]
    CopiesTooLarge {
        /// How many there are.
        copies: usize,
        /// How many bytes they have at most.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The preferences of its replicas cannot be read.
    #[error("annotation federation.kubernetes.io/replica-set-preferences{place}: {fault}")]
    BadPreferences {
        /// `.clusters.c1.weight`, empty for all of it.
        place: String,
        /// What is wrong.
        fault: String,
    },
    /// There are preferences for replicas, and it has none.
    #[error("annotation federation.kubernetes.io/replica-set-preferences: it has no spec.replicas to split")]
    NoReplicas,
    /// Its clusters may not take all replicas.
    #[error("{left_out} of {total} replicas run nowhere: no cluster may take more, as its preferences are")]
    ReplicasLeftOut {
        /// How many are left out.
        left_out: u64,
        /// Of how many.
        total: u64,
    },
    /// The spec cannot be read.
    #[error("spec: {0}")]
    BadSpec(String),
    /// The target references are of another shape.
    #[error("spec.{place}: {fault}")]
    BadReference {
        /// `targetRef`, `targetRefs[1]`.
        place: String,
        /// What is wrong.
        fault: String,
    },
    /// A reference leaves the policy's namespace, and is dropped from the copies.
    #[error("the reference to Gateway {0} is dropped: policies target gateways of their own namespace")]
    ForeignReference(ObjectKey),
    /// A work of the planned name is not ours.
    #[error("cluster {cluster} has a ManifestWork {name} that is not ours: it is left alone")]
    ForeignWork {
        /// The cluster.
        cluster: String,
        /// The work.
        name: String,
    },
    /// A Gateway has waited for its policies for as long as its class says, and is held back on.
    #[error("it is held back where its policies are not applied: its condition Programmed names them")]
    PoliciesPending,
    /// On some clusters its copy and that of another policy with the same target were created in another order than the policies on
    /// the hub.
    #[error(
        "its copy comes {} that of {other}, which has the same target and is {} on the hub, on these clusters: {clusters}. They may \
         enforce the wrong one. To correct this, delete {}, wait until its copies are gone, and create it again",
        if *is_older { "before" } else { "after" },
        if *is_older { "older" } else { "younger" },
        if *is_older { "this policy" } else { "the other policy" },
    )]
    OutOfOrder {
        /// The other policy.
        other: ObjectKey,
        /// Whether the other policy is the older one on the hub.
        is_older: bool,
        /// The clusters, as text.
        clusters: String,
    },
    /// Another controller of this make writes what it says of its clusters.
    #[error(
        "another controller of Policy Sync ({0}) says how it fares, of its own clusters: this one leaves that to it"
    )]
    OtherController(String),
    /// A Secret that a listener names does not travel. The Gateway does, without it.
    #[error("listener {listener}: Secret {secret} does not travel: {fault}")]
    SecretLeftOut {
        /// The listener.
        listener: String,
        /// The Secret on the hub.
        secret: String,
        /// Why not.
        fault: SecretFault,
    },
    /// So many more than are told one by one.
    #[error("{0} more Secrets that listeners name do not travel")]
    MoreSecretsLeftOut(usize),
    /// Secrets, or ReferenceGrants, cannot be listed.
    #[error("its listeners name Secrets, and which may travel is not known: cannot list {what}: {fault}")]
    SecretsUnread {
        /// `secrets` or `referencegrants`.
        what: String,
        /// Why not, in the hub's words.
        fault: String,
    },
    /// What exists is not known yet, so nothing may change.
    #[error("waiting for the list of {0}")]
    Unread(String),
}

impl From<BadSelector> for Problem {
    fn from(BadSelector { annotation, place, fault }: BadSelector) -> Self {
        Self::BadSelector { annotation, place, fault }
    }
}

/// Why a Secret does not travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum SecretFault {
    /// It does not exist, or is of another type.
    #[error("there is no such Secret of type kubernetes.io/tls")]
    Missing,
    /// It is of another namespace, which has no grant for it. Whether it exists is none of the Gateway's business.
    #[error("no ReferenceGrant of its namespace allows it")]
    NotGranted,
    /// Its namespace maps to one that no spoke may have.
    #[error("its namespace maps to one on the spokes that is reserved or too long")]
    Namespace,
}

impl SecretFault {
    /// A stable word for metrics and event reasons.
    fn category(self) -> &'static str {
        match self {
            Self::Missing => "SecretMissing",
            Self::NotGranted => "SecretNotGranted",
            Self::Namespace => "SecretNamespace",
        }
    }
}

/// The most bytes of a problem in words: an Event takes no more, and an annotation and a condition have room for ten.
pub(super) const TEXT_LIMIT: usize = 1024;

/// What is said of parameters that are invalid.
pub(super) const INVALID_PARAMETERS: &str = "InvalidParameters";
/// What is said of parameters that were never read, and cannot be.
pub(super) const PARAMETERS_UNREAD: &str = "ParametersUnread";

impl Problem {
    /// The categories of problems that are told, each with whether it [freezes](Problem::freezes).
    pub const CATEGORIES: [(&'static str, bool); 26] = [
        ("BadGraceTimeout", false),
        ("BadOverrides", true),
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
        ("PoliciesPending", false),
        ("ReplicasLeftOut", false),
        ("SecretMissing", false),
        ("SecretNamespace", false),
        ("SecretNotGranted", false),
        ("SecretsUnread", true),
        ("TooLarge", true),
        ("VersionConflict", true),
    ];

    /// What an owner is told: it may quote what users wrote, of any length.
    #[must_use]
    pub fn text(&self) -> String {
        capped(&self.to_string(), TEXT_LIMIT).into_owned()
    }

    /// A stable word for metrics and event reasons.
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
            Self::Unread(_) => "Unread",
        }
    }

    /// Whether it passes by itself within moments of a start, and so is nothing to tell an owner.
    #[must_use]
    pub fn passes(&self) -> bool {
        matches!(self, Self::Unread(_))
    }

    /// Whether it is no fault of the object: whether that can be planned is not known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::ClassGone(_) | Self::ParametersUnread { .. })
    }

    /// `problems` in the words of Events: one text for each category, however many clusters or Secrets it is about.
    pub fn event_notes<'p>(problems: impl Iterator<Item = &'p Self>) -> BTreeMap<&'static str, String> {
        let mut texts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for problem in problems {
            texts.entry(problem.category()).or_default().push(problem.text());
        }
        let note = |texts: Vec<String>| capped(&itemized(texts.into_iter()), TEXT_LIMIT).into_owned();
        texts.into_iter().map(|(category, texts)| (category, note(texts))).collect()
    }

    /// Whether it is that a work in `cluster` has the planned name and is not ours.
    #[must_use]
    pub fn is_foreign_work(&self, cluster: &ClusterName) -> bool {
        matches!(self, Self::ForeignWork { cluster: found, .. } if **found == *cluster.0)
    }

    /// Whether the object's works are left as they are until the problem is mended.
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
