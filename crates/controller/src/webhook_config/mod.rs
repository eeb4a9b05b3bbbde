//! While there are Rego policies, the controller adds its webhooks to two webhook configurations. The chart creates
//! both without webhooks. The controller also issues the certificate of the webhooks.
//!
//! ```text
//! Rego policies in use ───┐
//! covered kinds (sync) ───┼─▶ EntryInputs ─┐
//! own user, ca.crt ───────┘                ├─▶ entries: plan ────────▶ webhook configurations (leader only)
//! configurations, Secret ─▶ View ──────────┤                 ╰───────▶ problems, in the status of Rego policies
//!                                          └─▶ certificate: renewal ─▶ Secret (leader only) ─▶ served (each replica)
//! ```
//!
//! If an input is unknown, no entry is removed, and no kind is removed from a rule. Kinds may be added. The serving
//! certificate is renewed a month before it expires, once the `caBundle` of every entry contains the CA.

mod certificate;
mod entries;
mod index;
mod key;
mod kinds;
mod reconciler;
mod rows;
mod settings;
mod setup;
mod shared;

pub(crate) use entries::{ADMIT, ADMIT_VALIDATING};
pub use settings::{Authority, FailurePolicy, Settings, Url, UrlFault};
pub(crate) use setup::Sources;
pub use setup::WebhookConfigWriter;
pub use shared::{WebhookConfigMetrics, WebhookConfigStatus};
