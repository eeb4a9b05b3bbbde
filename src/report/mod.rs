//! Reads the state of a hub as plain data. The command line and the web page print it.
//!
//! ```text
//! query ─▶ list objects ─┐
//!                        ├─▶ mirror ─▶ items: Gateways, policies, copies on one cluster
//!          watch them    ┘
//! ```
//!
//! `topology` reads Gateways, routes and policies in the same way, from a hub or a spoke.
//!
//! A report contains the last state that the controller wrote and the status of works; it decides nothing
//! itself. All reads use the user's rights. Objects that may not be read are reported as unread, never as
//! absent.

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

#[cfg(test)]
pub(crate) use across::across_view;
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

#[cfg(test)]
pub(crate) mod tests;
