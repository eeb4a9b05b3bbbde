//! OPA as the evaluator: a separate server, to which this process pushes modules and data.
//!
//! ```text
//! Snapshot ──▶ OpaContents ──push──▶ OPA: modules, data, and the marker once it has all of them
//!     └─ query ─────────────────▶ decision and marker; without the marker, the decision is not used
//! ```
//!
//! The marker is the value of `data.policysync.revision`: the hash of all modules. OPA also rejects a query unless all
//! modules are installed, and changes by other clients are reverted. So an OPA that was restarted without contents, or
//! is being filled, admits nothing.
//!
//! An OPA at a loopback address belongs to this process, and must have exactly the contents of this process. Any other
//! OPA is shared: the leader fills it, and all replicas query it.

mod contents;
mod drift;
mod installed;
mod metrics;
mod opa_engine;
mod push;
mod responses;
mod server;
pub(super) mod text;

pub use contents::OpaContents;
pub use metrics::OpaMetrics;
pub use opa_engine::OpaEngine;
pub use push::{PushError, push};
pub use server::Opa;
