//! Reads a hub and reports the state of policies and Gateways on all clusters, for commands and web pages.
//!
//! ```text
//! query ─▶ list objects ─┐
//!                        ├─▶ mirror ─▶ items: Gateways, policies, copies on one cluster
//!         watch objects  ┘
//! ```
//!
//! [`Report`] has the status that the controller and the agents have written, and decides nothing. [`explain()`] and
//! [`fleet_objects()`] make the plans of the controller from a [`snapshot`]. [`cluster_objects`] reads the topology of
//! any cluster.
//!
//! Reads have the rights of the user. An object that the user may not read is reported as unknown ([`Known`]), never as
//! absent.

mod check;
mod copy;
mod differences;
mod explanation;
pub mod fleet;
mod fleet_objects;
mod gateway;
mod index;
mod item;
mod key;
mod kinds;
mod known;
mod names;
mod out_of_sync_times;
mod policy;
mod query;
mod report_mirror;
mod served;
pub mod snapshot;
mod topology;
mod watch;
pub mod watched;

pub use check::{Check, FailOn};
pub use copy::CopyReport;
pub use differences::{Differences, DifferingPaths};
pub use explanation::{
    ExplainError, ExplainQuery, ObjectExplanation, Sentence, VerdictGroup, explain, explain_on_clusters,
};
#[cfg(any(test, feature = "testing"))]
pub use fleet_objects::fleet_objects_from_view;
pub use fleet_objects::{FleetObjects, FleetObjectsQuery, fleet_objects, fleet_objects_from_files};
pub use gateway::{GatewayCopy, GatewayOnCluster, GatewayReport, GatewayRow};
pub use item::{Item, ItemOnCluster};
pub use key::{ItemKey, Table};
pub use known::Known;
pub use names::{clusters, namespace, namespaces, objects};
pub use out_of_sync_times::OutOfSyncTimes;
pub use policy::{AnnotationValue, Detail, PolicyOnCluster, PolicyReport, PolicyRow};
pub use query::{
    ClassParameters, Query, QueryError, Report, RequestedKinds, cluster, synced_kinds, unavailable,
    unavailable_of,
};
pub use report_mirror::ReportMirror;
pub use served::{KindMatch, ServedKind, discover, match_kind, qualified_names};
pub use topology::{ClusterObjects, ClusterQuery, cluster_objects};
pub use watch::{ReportWatch, WatchError, WatchEvent};

#[cfg(any(test, feature = "testing"))]
pub mod testing;
