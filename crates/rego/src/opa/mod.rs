//! OPA: an engine that is a server of its own, and which we fill.
//!
//! ```text
//! Snapshot ──▶ Contents ──push──▶ OPA: modules, data, and once it has all of them the marker
//!     └─ question ──────────────▶ decision and marker; without the marker it is no decision
//! ```
//!
//! OPA also rejects a query unless all modules are installed, and changes by others are reverted.
//!
//! So an OPA that came back empty, or is being filled, lets nothing pass. One at a loopback address is this process's own, and must
//! have just what this process has in force. Any other is shared: the leader fills it, and the others ask.

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
