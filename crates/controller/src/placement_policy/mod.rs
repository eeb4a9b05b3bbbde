//! Placement by Rego policies: they set labels and annotations of objects, which decide the clusters of
//! these.
//!
//! ```text
//! object as written ──▶ original: without values set by policies ──▶ query ──▶ result ──▶ object as stored
//!                        ▲                                                                │
//!                        └── kuadrant.io/placed-by-policy: values set by policies, and the original ones
//! ```
//!
//! Policies always see the original object, as its developer wrote it, not their own last result. Otherwise
//! they would take that result for the developer's choice and could never move an object. So the stored
//! object depends only on the original and the current policies.
//!
//! [`review`] handles writes of objects, [`remediation`] existing objects, and [`compliance_check`] lists the objects
//! that a user has to remediate.

pub mod compliance;
pub mod compliance_check;
pub mod evaluation;
pub mod place;
mod placed_kinds;
pub mod placement_result;
pub mod rejection_events;
pub mod remediation;
pub mod review;
