//! A hub and spokes on one machine, without containers.
//!
//! Tests, the demo and development use real servers, because the project depends on how API servers validate,
//! default, prune and reject objects. Tests with thousands of runs and injected faults use [`memory`], whose
//! behavior is compared with a real server.
//!
//! ```text
//! Fleet ─┬─ hub:   ControlPlane (etcd, kube-apiserver, kube-controller-manager) + CRDs + rights of the agents
//!        └─ spoke: ControlPlane + CRDs + rights of a klusterlet, a work agent, a policy controller
//! ```
//!
//! No server outlives this process, not even after a crash: see [`process`].

pub mod agent;
pub mod api;
pub mod apply;
pub mod audit;
pub mod authorization;
pub mod bad_input;
pub mod binaries;
pub mod browser;
pub mod certificates;
pub mod control_plane;
pub mod controller;
pub mod crds;
pub mod fixtures;
pub mod fleet;
pub mod flow;
pub mod hostile;
pub mod http;
pub mod kubeconfig;
pub mod memory;
pub mod metrics;
pub mod opa;
pub mod policy_controller;
pub mod ports;
pub mod process;
pub mod proxy;
mod published;
pub mod rights;
pub mod running;
pub mod spoke;
pub mod tenant;
pub mod wait;
pub mod web;
pub mod webhooks;

pub use control_plane::{ControlPlane, ControlPlaneOptions};
pub use controller::Controller;
pub use fleet::{Fleet, FleetOptions};
pub use memory::MemoryServer;
pub use opa::Opa;
pub use proxy::Proxy;
pub use spoke::Spoke;
pub use tenant::Tenant;
