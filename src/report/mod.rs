//! What people see of a hub, as plain data: the command line prints it, and knows no more.
//!
//! ```text
//! query ─▶ list what may be read ─┐
//!                                 ├─▶ mirror of what is shown ─▶ items: Gateways, policies, copies on one cluster
//!          watch it               ┘
//! ```
//!
//! What is attached to what is read the same way, of any cluster: `topology`.
//!
//! It is what the controller last wrote, and what works say: nothing is decided here. Only the hub is read, with whatever
//! rights the reader has: what they do not let be read is told beside it, and is not taken for nothing.

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
