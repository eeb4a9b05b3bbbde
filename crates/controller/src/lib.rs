//! The controller: capabilities that keep objects of a hub in the state that they plan, and the server of metrics,
//! probes and webhooks.
//!
//! # Data flow
//!
//! ```text
//! hub API ──watch──▶ mirror ──view──▶ plan ──actions──▶ apply ──▶ hub API ──OCM──▶ spokes
//!              one task        synchronous,     pure: no client,     bounded writers,
//!              a source        no I/O           no clock, no async   leader only
//! ```
//!
//! - [`policy_sync_hub::watch`] owns connections: one task for each source, started and stopped while the process runs.
//! - [`policy_sync_mirror`] owns data: tables of rows, and the indexes that capabilities derive from them.
//! - The plan owns decisions: functions of a view, a key and a moment. For policies, [`policy_sync_sync::desired`]
//!   plans the works of each cluster, and [`policy_sync_sync::status`] plans the status on the hub.
//! - [`sync::write`] owns effects: it writes the [difference](policy_sync_sync::diff) between plan and mirror.
//!
//! Data flows only in the direction of the arrows. A *capability* has kinds, such as [`policy_sync_sync::kinds`], their
//! rows, triggers and a plan. [`policy_sync_hub::reconcile`] has the queue, the workers, leader election, requests and
//! Events that every capability needs. [`manager`] starts all capabilities:
//!
//! - [`sync`] copies policies and Gateways to spokes.
//! - [`rego_loading`] loads Rego policies, which [`policy_sync_rego`] checks and evaluates. [`admission`] reviews and
//!   audits objects with them, and [`placement_policy`] selects clusters for objects.
//! - [`stored_topology`] writes the topology, which [`policy_sync_topology`] computes, to the hub.
//! - [`webhook_config`] registers the webhooks that [`server`] serves.

pub mod admission;
pub mod health;
pub mod manager;
pub mod placement_policy;
pub mod rego_loading;
pub mod server;
pub mod stored_topology;
pub mod sync;
pub mod webhook_config;
