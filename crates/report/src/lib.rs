//! Reads a hub and reports the state of policies and Gateways on all clusters, for commands and web pages.
//!
//! ```text
//! query ─▶ list objects ─┐
//!                        ├─▶ mirror ─▶ items: Gateways, policies, copies on one cluster
//!         watch objects  ┘
//! ```
//!
//! [`Report`] has the status that the controller and the agents have written, and decides nothing. [`explain()`] and [`across()`] make the
//! plans of the controller from a [`snapshot`]. [`cluster_objects`] reads the topology of any cluster.
//!
//! Reads have the rights of the user. An object without permission to read it is reported as unknown ([`Known`]), never as absent.

mod across;
mod check;
mod copy;
mod differences;
mod explanation;
pub mod fleet;
mod gateway;
mod index;
mod item;
mod key;
mod kinds;
mod known;
mod names;
mod policy;
mod query;
mod seen;
mod served;
pub mod snapshot;
mod topology;
mod waits;
mod watch;
pub mod watched;

#[cfg(any(test, feature = "testing"))]
pub use across::across_view;
pub use across::{Across, AcrossQuery, across, across_files};
pub use check::{Check, FailOn};
pub use copy::CopyReport;
pub use differences::{Differences, Differs};
pub use explanation::{
    ExplainError, ExplainQuery, Group, ObjectExplanation, Sentence, explain, explain_on_clusters,
};
pub use gateway::{GatewayCopy, GatewayOnCluster, GatewayReport, GatewayRow};
pub use item::{Item, ItemOnCluster};
pub use key::{ItemKey, Table};
pub use known::Known;
pub use names::{clusters, namespace, namespaces, objects};
pub use policy::{Detail, PolicyOnCluster, PolicyReport, PolicyRow, Reading};
pub use query::{
    Asked, Listed, Query, QueryError, Report, cluster, synced_kinds, unavailable, unavailable_of,
};
pub use seen::Seen;
pub use served::{Meant, ServedKind, discover, full, meant};
pub use topology::{ClusterObjects, ClusterQuery, cluster_objects};
pub use waits::Waits;
pub use watch::{Event, WatchError, Watching};

#[cfg(any(test, feature = "testing"))]
pub mod testing;
