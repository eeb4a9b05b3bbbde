//! Policy Sync: write a Gateway API policy once, on the hub, and have every spoke of the fleet enforce it.
//!
//! A *policy* is any namespaced custom resource with `spec.targetRef` or `spec.targetRefs`. A policy that targets a
//! Gateway of a class of ours is copied to the spokes where that Gateway is *placed*, wrapped in a ManifestWork of
//! Open Cluster Management, and what the spokes answer is *folded* into one annotation on the hub policy.
//!
//! # The one direction of flow
//!
//! ```text
//! hub API ──watch──▶ mirror ──view──▶ plan ──actions──▶ apply ──▶ hub API ──OCM──▶ spokes
//!              one task        synchronous,     pure: no client,     bounded writers,
//!              a source        no I/O           no clock, no async   leader only
//! ```
//!
//! - [`hub::watch`] owns connections: one task for each source, started and stopped while the process runs.
//! - [`hub::mirror`] owns facts: tables that say what a change was, and what a capability derives from them.
//! - the plan owns decisions: functions from a view, a key and a moment to what should exist. Here they are what is
//!   [desired](sync::desired) on each cluster and what the hub [says](sync::status) of them.
//! - [`sync::write`] owns effects: it writes the [difference](sync::diff) between plan and mirror.
//!
//! Nothing flows back against the arrows. A *capability* is one room, as [`sync`] is. [`hub`] knows no kind
//! of objects: [`sync::kinds`] is the registry. [`reconcile`] is what any capability needs to have its keys carried out: a
//! queue, workers, leadership, requests and Events. [`rego`] reads, checks and asks policies in Rego,
//! and [loads](rego::loading) them from the hub, which is a capability as well.
//! [`report`] is what people see of a hub, and [`web`] makes pages of that. [`flow`] starts all of it, and [`api`] holds the wire types that all of them share.

mod announce;
pub mod api;
mod aside;
pub mod certificates;
pub mod cli;
pub mod clock;
pub mod flow;
pub mod gatekeeper;
pub mod health;
pub mod hub;
mod in_turn;
mod interned;
pub mod json_client;
pub mod placement;
pub mod re2;
pub mod reconcile;
pub mod registration;
pub mod rego;
pub mod report;
pub mod server;
mod shrink;
pub mod sync;
pub mod tasks;
pub mod telemetry;
pub mod topology;
pub mod version;
pub mod web;
