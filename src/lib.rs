//! Policy Sync: write a Gateway API policy once, on the hub, and have every spoke of the fleet enforce it.
//!
//! A *policy* is any namespaced custom resource with `spec.targetRef` or `spec.targetRefs`. If it targets a
//! Gateway of a class managed by this controller, it is copied to the spokes selected by the Gateway's
//! Placement, wrapped in an Open Cluster Management ManifestWork. The status reported by the spokes is
//! aggregated into one annotation on the hub policy.
//!
//! This crate is the program: [`cli`] has its commands. [`policy_sync_controller`] begins with the flow of data on one page.
//! [`policy_sync_report`] is the data of commands and web pages, and [`policy_sync_web`] renders the pages.

pub mod cli;
pub mod version;
