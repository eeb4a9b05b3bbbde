#![doc = include_str!("../README.md")]

mod background;
pub mod certificates;
mod client;
pub mod clock;
mod connection;
mod discovery;
mod error;
pub mod json_client;
mod metered;
mod pages;
pub mod reconcile;
mod request_timeout;
pub mod tasks;
pub mod telemetry;
pub mod watch;

pub use background::{BackgroundError, compute_in_background, run_in_background};
pub use client::HubClient;
pub use connection::{IDLE_TIMEOUT, watch_client};
pub use discovery::{discover_resource, group_version_resources};
pub use error::{HubError, root_cause};
pub use pages::Pages;
pub use request_timeout::RequestTimeout;
