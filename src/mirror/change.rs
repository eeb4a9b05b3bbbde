//! What the watch tells the mirror: which object came, went or changed, and where that was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::PolicyKind;
use super::rows::class::{Class, ConfigMap};
use super::rows::cluster::{Cluster, Decision, Placement};
use super::rows::gateway::Gateway;
use super::rows::grant::Grant;
use super::rows::kind::Resolution;
use super::rows::policy::Policy;
use super::rows::schema::WorkSchema;
use super::rows::secret::Secret;
use super::rows::work::Work;
use crate::api::json::Hash;
use crate::api::names::{ControllerName, GroupVersionResource, ObjectKey};
use crate::api::object::HubObject;

/// Where rows come from: one list and watch each.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// GatewayClasses.
    Classes,
    /// One ConfigMap that a class names.
    ConfigMap(ObjectKey),
    /// Gateways.
    Gateways,
    /// ManagedClusters.
    Clusters,
    /// Placements.
    Placements,
    /// PlacementDecisions.
    Decisions,
    /// Works of this controller.
    Works,
    /// Policies of one kind.
    Policies(PolicyKind),
    /// Secrets of the type `kubernetes.io/tls`.
    Secrets,
    /// ReferenceGrants.
    Grants,
}

impl Source {
    /// The sources without which nothing can be planned.
    pub const FIXED: [Self; 6] =
        [Self::Classes, Self::Gateways, Self::Clusters, Self::Placements, Self::Decisions, Self::Works];
}

/// What should be watched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wants {
    /// The sources, each with its kind.
    pub watched: BTreeMap<Source, GroupVersionResource>,
    /// Other versions of the same kinds, of which is to be found out whether they could be.
    pub others: BTreeSet<GroupVersionResource>,
}

/// A row of any kind.
#[derive(Clone, Debug)]
pub enum Row {
    /// A GatewayClass.
    Class(Class),
    /// A ConfigMap with parameters.
    ConfigMap(ConfigMap),
    /// A Gateway.
    Gateway(Box<Gateway>),
    /// A ManagedCluster.
    Cluster(Cluster),
    /// A Placement.
    Placement(Placement),
    /// A PlacementDecision.
    Decision(Decision),
    /// A work.
    Work(Box<Work>),
    /// A policy.
    Policy(Arc<Policy>),
    /// A Secret.
    Secret(Secret),
    /// A ReferenceGrant.
    Grant(Grant),
}

impl Row {
    /// Prunes `object`, which came from `source`.
    #[must_use]
    pub fn prune(source: &Source, object: &HubObject, controller: &ControllerName) -> Self {
        match source {
            Source::Classes => Self::Class(object.into()),
            Source::ConfigMap(_) => Self::ConfigMap(object.into()),
            Source::Gateways => {
                Self::Gateway(Box::new(Gateway::new(object, &controller.hub_field_manager())))
            }
            Source::Clusters => Self::Cluster(object.into()),
            Source::Placements => Self::Placement(object.into()),
            Source::Decisions => Self::Decision(object.into()),
            Source::Works => Self::Work(Box::new(Work::new(object, controller))),
            Source::Policies(_) => {
                Self::Policy(Arc::new(Policy::new(object, &controller.hub_field_manager())))
            }
            Source::Secrets => Self::Secret(object.into()),
            Source::Grants => Self::Grant(object.into()),
        }
    }
}

impl Row {
    /// The hash of what decisions on what is where read of it; none of a kind that they do not read. A row that is pruned
    /// from an object's metadata alone has the same, but for ConfigMaps, Placements and their decisions.
    #[must_use]
    pub fn decides(&self) -> Option<Hash> {
        match self {
            Self::Class(row) => Some(row.decides()),
            Self::ConfigMap(row) => Some(row.decides()),
            Self::Gateway(row) => Some(row.decides()),
            Self::Cluster(row) => Some(row.decides()),
            Self::Placement(row) => Some(row.decides()),
            Self::Decision(row) => Some(row.decides()),
            Self::Policy(row) => Some(row.decides()),
            Self::Work(_) | Self::Secret(_) | Self::Grant(_) => None,
        }
    }
}

/// A change of the hub.
#[derive(Debug)]
pub enum Change {
    /// An object is there, as this row shows it.
    Applied {
        /// Where it comes from.
        source: Source,
        /// Its namespace and name.
        key: ObjectKey,
        /// Its resource version.
        version: u64,
        /// What is kept of it.
        row: Row,
    },
    /// An object is gone.
    Deleted {
        /// Where it came from.
        source: Source,
        /// Its namespace and name.
        key: ObjectKey,
        /// The resource version of its deletion.
        version: u64,
    },
    /// It was found out whether a kind can be synced.
    Resolved(GroupVersionResource, Resolution),
    /// A kind is read in this version from now on.
    Followed(GroupVersionResource),
    /// It was found out what ManifestWorks can say.
    WorkSchema(WorkSchema),
    /// A source could not be listed or watched; `None` once it can again.
    Failing(Source, Option<Failure>),
}

/// What a change came to: what a capability goes by to find what it plans anew.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most are objects, and there is hardly more than one at a time"
)]
pub enum Changed {
    /// Anything: from now on plans can be made, or works can say something else.
    Everything,
    /// An object came, went or changed.
    Object {
        /// Where it comes from.
        source: Source,
        /// Its namespace and name.
        key: ObjectKey,
        /// What was kept of it, `None` where it was not there.
        before: Option<Row>,
    },
    /// A source was listed whole for the first time.
    Listed(Source),
    /// A source cannot be listed or watched, can be again, or cannot for another reason.
    Failing {
        /// The source.
        source: Source,
        /// Whether it could before, or can now.
        toggled: bool,
    },
    /// Something else is known of a kind.
    Kind(PolicyKind),
}

/// Why a source cannot be listed or watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In the hub's words, where it gave any.
    pub text: String,
    /// Whether the hub refuses it, and will until somebody changes something.
    pub refused: bool,
}

impl Failure {
    /// One that may pass by itself.
    #[must_use]
    pub fn passing(text: impl Into<String>) -> Self {
        Self { text: text.into(), refused: false }
    }
}
