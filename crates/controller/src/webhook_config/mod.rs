//! Webhook configurations: while there are policies, adds entries to two configurations that the manifests
//! create empty, and issues the certificate of the webhooks.
//!
//! ```text
//! policies in use (rego) ─┐
//! covered kinds (sync) ───┼─▶ EntryInputs ─┐
//! own user, ca.crt ───────┘          ├─▶ plan: entries ──────▶ MutatingWebhookConfiguration, Validating… (leader only)
//! configurations, Secret ─▶ View ────┤                   ╰───▶ problems, reported in the status of policies
//!                                    └─▶ certificate: due ───▶ Secret (leader only) ─watch─▶ served (each replica)
//! ```
//!
//! Unknown inputs change nothing: entries stay as they are, and rules only grow. A certificate is renewed
//! while the previous one is valid for another month, and only by a CA that is in the `caBundle` of every
//! entry.

mod certificate;
mod entries;
mod index;
mod inputs;
mod key;
mod kinds;
mod metrics;
mod reconciler;
mod rows;
mod settings;
mod setup;
mod shared;

pub(crate) use entries::{ADMIT, ADMIT_VALIDATING};
pub use metrics::WebhookConfigMetrics;
pub use settings::{Authority, FailurePolicy, Settings, Url, UrlFault};
pub(crate) use setup::Sources;
pub use setup::WebhookConfigWriter;
pub use shared::WebhookConfigStatus;
