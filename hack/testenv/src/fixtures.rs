//! The objects that tests and demos begin with, valid under the published CRDs as well as under ours.
//!
//! Each function gives plain JSON: a test changes what it is about, and [`crate::apply`] writes it.

mod hub;
mod policies;
mod resources;
pub mod topology;

pub use self::hub::{
    gateway, gateway_class, https_gateway, managed_cluster, namespace, params_config_map, placement,
    placement_decision, reference_grant, tls_secret,
};
pub use self::policies::{auth_policy, rate_limit_policy, timeout_policy};
pub use self::resources::{deployment, placed_config_map, resources, workload};
