//! The watch: connections to the hub, one task for each kind, each with its own backoff.
//!
//! ```text
//! fixed kinds ───────────────▶ list, then watch ──prune──▶ mirror ──changes──▶ triggers
//! wanted kinds ──▶ resolve ──▶ list, then watch ──prune──▶   "
//!                     ▲
//! definitions ────────┘ a CustomResourceDefinition came, went or changed
//! ```
//!
//! Tasks know nothing of policies: they prune an object, hand it to the mirror and pass on what that changed.

mod answer;
mod feed;
mod follow;
mod resolve;
mod supervisor;

pub use answer::ANSWERED_WITHIN;
pub use feed::Feed;
pub(crate) use follow::SILENCE;
pub(crate) use resolve::{defined, resolve_for};
pub use supervisor::Supervisor;

use crate::api::names::{ControllerName, GroupVersionResource};
use crate::api::{annotations, cluster, gateway, secret, work};
use crate::mirror::Source;

/// The label selector of the works of `controller`.
pub(crate) fn work_selector(controller: &ControllerName) -> String {
    format!("{}={}", annotations::CONTROLLER, controller.hash())
}

/// The field selector of what is listed and watched of `source`.
pub(crate) fn field_selector(source: &Source) -> Option<String> {
    match source {
        Source::ConfigMap(key) => Some(format!("metadata.name={}", key.name)),
        Source::Secrets => Some(format!("type={}", secret::TLS)),
        _ => None,
    }
}

/// The kind that a fixed source watches, `None` for the others.
pub(crate) fn fixed_kind(source: &Source) -> Option<GroupVersionResource> {
    let (group, version, resource) = match source {
        Source::Classes => (gateway::GROUP, "v1", "gatewayclasses"),
        Source::Gateways => (gateway::GROUP, "v1", "gateways"),
        Source::Clusters => (cluster::GROUP, "v1", "managedclusters"),
        Source::Placements => (cluster::GROUP, "v1beta1", "placements"),
        Source::Decisions => (cluster::GROUP, "v1beta1", "placementdecisions"),
        Source::Works => (work::GROUP, "v1", "manifestworks"),
        Source::ConfigMap(_) | Source::Policies(_) | Source::Secrets | Source::Grants => return None,
    };
    Some(GroupVersionResource::new(group, version, resource))
}
