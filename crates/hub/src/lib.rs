//! Watches the API of a hub, mirrors the fields that decisions need, and applies plans.
//!
//! ```text
//! hub API ──watch──▶ mirror ──view──▶ plan ──actions──▶ apply ──▶ hub API
//! ```
//!
//! [`watch`] runs one task for each source and feeds a [mirror](policy_sync_mirror::Mirror). [`reconcile`] has the
//! queue, workers, leader election, requests and Events with which a capability applies its plans. This crate knows no
//! kind of object; each capability declares its kinds.

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
pub use client::{HubClient, Requirement};
pub use connection::{IDLE_TIMEOUT, watching};
pub use discovery::served_beside;
pub use error::{HubError, innermost};
pub use pages::Pages;
pub use request_timeout::RequestTimeout;
