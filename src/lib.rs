//! Policy Sync: write a Gateway API policy once, on the hub, and have every spoke of the fleet enforce it.
//!
//! A *policy* is any namespaced custom resource with `spec.targetRef` or `spec.targetRefs`. If it targets a
//! Gateway of a class managed by this controller, it is copied to the spokes selected by the Gateway's
//! Placement, wrapped in an Open Cluster Management ManifestWork. The status reported by the spokes is
//! aggregated into one annotation on the hub policy.
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
//! - The plan owns decisions: functions of a view, a key and a moment. For policies these are [`policy_sync_sync::desired`], the
//!   works of each cluster, and [`policy_sync_sync::status`], the status on the hub.
//! - [`controller::write`] owns effects: it writes the [difference](policy_sync_sync::diff) between plan and mirror.
//!
//! Data flows only in the direction of the arrows. A *capability* has kinds, such as [`policy_sync_sync::kinds`], their rows, triggers and a
//! plan. [`policy_sync_hub::reconcile`] has the queue, the workers, leader election, requests and Events that every capability
//! needs. [`policy_sync_rego`] checks and evaluates Rego policies, and the capability [`rego_loading`] loads them from the hub.
//! [`policy_sync_topology`] computes effective policies; the capability [`stored_topology`] writes them to the hub.
//! [`policy_sync_report`] is the data of commands and web pages, [`policy_sync_web`] renders the pages, and [`flow`] starts all capabilities.
//! [`policy_sync_api`] has the types of the Kubernetes objects that all of them share.

pub mod admission;
pub mod cli;
pub mod controller;
pub mod flow;
pub mod health;
pub mod placement_policy;
pub mod rego_loading;
pub mod server;
pub mod stored_topology;
pub mod webhook_config;
