//! OPA as the evaluator: a separate server, to which this process pushes modules and data.
//!
//! ```text
//! Snapshot ──▶ OpaContents ──push──▶ OPA: modules, data, and the marker once it has all of them
//!     └─ query ─────────────────▶ decision and marker; without the marker, the decision is not used
//! ```
//!
//! OPA also rejects a query unless all modules are installed, and changes by others are reverted. So an OPA that was
//! restarted without contents, or is being filled, admits nothing.
//!
//! An OPA at a loopback address belongs to this process, and must have exactly the contents of this process. Any other
//! is shared: the leader fills it, and all replicas query it.

mod contents;
mod drift;
mod installed;
mod metrics;
mod opa_engine;
mod push;
mod push_error;
mod responses;
mod server;
pub(super) mod text;

pub use contents::OpaContents;
pub use metrics::OpaMetrics;
pub use opa_engine::OpaEngine;
pub use push::push;
pub use push_error::PushError;
pub use server::Opa;
