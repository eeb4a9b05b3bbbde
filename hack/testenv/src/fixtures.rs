//! Sample objects of tests and demos, valid under the published CRDs and the generated CRDs.
//!
//! The functions return plain JSON that tests modify and write with [`crate::apply`].

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
