//! Stores the topology on the hub: the attachments between Gateways, routes and policies. This capability writes a
//! ConfigMap, metrics, and the status of Gateways and routes.
//!
//! ```text
//! sync's mirror (classes, Gateways, policies) ─┐
//!                                              ├─▶ rows ─▶ graph ─▶ text ─▶ the ConfigMap
//! own mirror (routes, Services, …) ────────────┘     │        ╰─▶ statuses that differ ─▶ a separate queue
//!                                                    ╰─▶ further kinds to watch
//! ```
//!
//! Changes are batched: the graph is rebuilt at most once a second, on a low-priority thread, and dropped after use.
//! While the sync plans and writes works, builds and status writes are delayed for a limited time.

mod build;
pub mod config_map;
mod digest;
mod gateway_status;
mod index;
mod key;
pub mod kinds;
mod metrics;
mod pending;
mod reconciler;
mod route_status;
mod rows;
mod setup;
mod status_diff;
mod status_writer;
mod statuses;
mod text;
mod throttle;
mod watches;

pub use build::{TopologyBuild, TopologySnapshot};
pub use gateway_status::GatewayStatus;
pub use index::{Index, OwnRows, Versions, View};
pub use key::{StatusKey, StatusWriteKey};
pub use metrics::TopologyMetrics;
pub use pending::{Desired, DesiredStatus, PendingStatuses, PendingWrite, ReplaceResult, is_affected};
pub use route_status::{RouteStatus, route_status_request};
pub use rows::{Parsed, RouteRow, StoredConfigMap};
pub(crate) use setup::Sources;
pub use setup::{Settings, StoredTopology};
pub use text::{DotText, LIMIT, text};
