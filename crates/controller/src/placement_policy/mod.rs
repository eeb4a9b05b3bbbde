//! Placement policies: Rego policies that set the labels and annotations of an object by which its clusters are
//! selected.
//!
//! ```text
//! object as written ──▶ original: without values set by placement policies ──▶ query ──▶ result ──▶ object as stored
//!                        ▲                                                                               │
//!                        └── kuadrant.io/placed-by-policy: the values that placement policies set, and the originals
//! ```
//!
//! The input of placement policies is always the original object as its developer wrote it, without the values that
//! placement policies set earlier. Otherwise placement policies would treat these values as the developer's choice, and
//! could never move an object. So the stored object depends only on the original and the current placement policies.
//!
//! [`review`] evaluates placement policies when an object is written, and [`remediation`] for existing objects.
//! [`compliance_check`] lists the objects that a user has to remediate.

pub mod compliance;
pub mod compliance_check;
pub mod evaluation;
pub mod place;
mod placed_kinds;
pub mod placement_result;
pub mod remediation;
pub mod review;
