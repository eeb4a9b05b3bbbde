//! A hub and spokes on one machine, without containers.
//!
//! Tests, the demo and the development loop talk to real servers: what an API server accepts, defaults, prunes
//! and refuses is what this project is about. Where a test needs thousands of runs, each with another fault, there
//! is [`memory`], which is held against a real server.
//!
//! ```text
//! Fleet ─┬─ hub:   ControlPlane (etcd, kube-apiserver, kube-controller-manager) + CRDs + rights of the agents
//!        └─ spoke: ControlPlane + CRDs + rights of a klusterlet, a work agent, a policy controller
//! ```
//!
//! Every server is stopped by its process id, whatever becomes of this process: see [`process`].

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
