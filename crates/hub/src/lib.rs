#![doc = include_str!("../README.md")]

mod aside;
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
pub mod version;
pub mod watch;

pub use aside::{Ended, aside, computed_aside};
pub use client::HubClient;
pub use connection::{IDLE_TIMEOUT, watching};
pub use discovery::{look_up, served_beside};
pub use error::{HubError, innermost};
pub use pages::Pages;
pub use request_timeout::RequestTimeout;
