//! Stores the topology on the hub: the attachments between Gateways, routes and policies. Writes a ConfigMap,
//! metrics, and the statuses of Gateways and routes.
//!
//! ```text
//! sync's mirror (classes, Gateways, policies) ─┐
//!                                              ├─▶ facts ─▶ graph ─▶ text ─▶ the ConfigMap
//! own mirror (routes, Services, …) ────────────┘     │         ╰─▶ statuses that differ ─▶ a separate queue
//!                                                    ╰─▶ further kinds to watch
//! ```
//!
//! Changes are batched: the graph is rebuilt at most once a second, on a low-priority thread, and dropped
//! after use. Builds and status writes also wait briefly while works are planned and written.

mod affected;
pub mod config_map;
mod differs;
mod digest;
mod flow;
mod gateway_status;
mod index;
mod key;
pub mod kinds;
mod metrics;
mod outcome;
mod pending;
mod route_status;
mod rows;
mod settings;
mod status_key;
mod status_writer;
mod statuses;
mod storer;
mod text;
mod throttle;
mod versions;
mod watches;

pub use affected::is_affected;
pub(crate) use flow::Sources;
pub use flow::Stored;
pub use gateway_status::GatewayStatus;
pub use index::{Index, OwnRows, View};
pub use metrics::TopologyMetrics;
pub use outcome::{Outcome, Snapshot};
pub use pending::{Desired, DesiredStatus, PendingStatuses, PendingWrite, Replaced};
pub use route_status::{RouteStatus, replacing_parents};
pub use rows::{Read, RouteRow, StoredText};
pub use settings::Settings;
pub use status_key::{StatusKey, Turn};
pub use text::{LIMIT, Text, text};
pub use versions::Versions;
