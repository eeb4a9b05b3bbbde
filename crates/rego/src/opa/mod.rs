//! OPA as the evaluator: a separate server, to which this process pushes modules and data.
//!
//! ```text
//! Snapshot ──▶ Contents ──push──▶ OPA: modules, data, and the marker once it has all of them
//!     └─ query ─────────────────▶ decision and marker; without the marker, the decision is not used
//! ```
//!
//! OPA also rejects a query unless all modules are installed, and changes by others are reverted. So an OPA that was
//! restarted without contents, or is being filled, admits nothing.
//!
//! An OPA at a loopback address belongs to this process, and must have exactly the contents of this process. Any other
//! is shared: the leader fills it, and all replicas query it.

mod answers;
mod changed;
mod contents;
mod in_opa;
mod installed;
mod metrics;
mod push;
mod push_error;
mod server;
pub(super) mod text;

pub use contents::Contents;
pub use in_opa::InOpa;
pub use metrics::OpaMetrics;
pub use push::push;
pub use push_error::PushError;
pub use server::Opa;
