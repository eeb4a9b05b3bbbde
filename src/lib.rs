//! Policy Sync: write a Gateway API policy once, on the hub, and have every spoke of the fleet enforce it.
//!
//! A *policy* is any namespaced custom resource with `spec.targetRef` or `spec.targetRefs`. If it targets a Gateway of
//! a class that this controller manages, it is copied to the spokes that the Gateway's Placement selects. Each copy is
//! wrapped in a ManifestWork of Open Cluster Management. The status from the spokes is aggregated into annotations of
//! the hub policy.
//!
//! This crate is the program: [`cli`] has its commands. The documentation of [`policy_sync_controller`] begins with an
//! overview of the flow of data. [`policy_sync_report`] reads the data of commands and web pages, and
//! [`policy_sync_web`] renders the pages.

pub mod cli;
pub mod version;
