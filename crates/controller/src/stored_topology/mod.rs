//! Stores the topology on the hub: the attachments between Gateways, routes and policies. Writes a ConfigMap,
//! metrics, and the statuses of Gateways and routes.
//!
//! ```text
//! sync's mirror (classes, Gateways, policies) ─┐
//!                                              ├─▶ rows ─▶ graph ─▶ text ─▶ the ConfigMap
//! own mirror (routes, Services, …) ────────────┘     │        ╰─▶ statuses that differ ─▶ a separate queue
//!                                                    ╰─▶ further kinds to watch
//! ```
//!
//! Changes are batched: the graph is rebuilt at most once a second, on a low-priority thread, and dropped after use.
//! While works are planned and written, builds and status writes wait for a limited time.

mod affected;
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
mod settings;
mod setup;
mod status_diff;
mod status_key;
mod status_writer;
mod statuses;
mod text;
mod throttle;
mod versions;
mod watches;

pub use affected::is_affected;
pub use build::{TopologyBuild, TopologySnapshot};
pub use gateway_status::GatewayStatus;
pub use index::{Index, OwnRows, View};
pub use metrics::TopologyMetrics;
pub use pending::{Desired, DesiredStatus, PendingStatuses, PendingWrite, ReplaceResult};
pub use route_status::{RouteStatus, route_status_request};
pub use rows::{Parsed, RouteRow, StoredConfigMap};
pub use settings::Settings;
pub(crate) use setup::Sources;
pub use setup::StoredTopology;
pub use status_key::{StatusKey, StatusWriteKey};
pub use text::{DotText, LIMIT, text};
pub use versions::Versions;
