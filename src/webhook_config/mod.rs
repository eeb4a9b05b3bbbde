//! Has the API server ask this controller's webhooks, while there are policies: entries of two configurations that manifests bring
//! empty, and the certificate that the webhooks serve with.
//!
//! ```text
//! policies in use (rego) ─┐
//! what is covered (sync) ─┼─▶ Facts ─┐
//! who we are, ca.crt ─────┘          ├─▶ plan: entries ──────▶ MutatingWebhookConfiguration, Validating… (the leader)
//! configurations, Secret ─▶ View ────┤                   ╰───▶ what keeps them from being registered: told with each policy
//!                                    └─▶ certificate: due ───▶ Secret (the leader) ─watch─▶ served (each replica)
//! ```
//!
//! What is not known changes nothing: entries stay as they are, and rules only grow. A certificate is renewed while the one
//! before is good for another month, and signed by an authority that every entry has in its `caBundle`.

mod certificate;
mod entries;
mod facts;
mod flow;
mod index;
mod key;
mod kinds;
mod metrics;
mod registrar;
mod rows;
mod settings;
mod shared;

pub(crate) use entries::{ADMIT, ADMIT_LAST};
pub use flow::Registration;
pub(crate) use flow::Sources;
pub use metrics::RegistrationMetrics;
pub use settings::{Authority, FailurePolicy, Settings, Url, UrlFault};
pub use shared::Registered;
