//! Admission and authorization by Rego policies.
//!
//! ```text
//! AdmissionRequest ──▶ query ──▶ denials ──▶ allowed, allowed with a patch, or denied with a message
//!                        ▲
//!                        └ the object replaces its stored version in `data`, so that a quota counts it once
//! ```
//!
//! The API server calls two webhooks for each write. The mutating webhook can patch the object, and the validating
//! webhook sees the final object. So another webhook cannot bypass a Rego policy by its patch.
//!
//! ```text
//! SubjectAccessReview ──▶ query ──▶ denials ──▶ denied with a message, or no opinion
//! ```

pub mod access;
pub mod audit;
pub mod auditing;
pub mod auditor;
pub mod denial;
mod operation;
pub mod patches;
pub mod review;
mod review_query;
mod secrets;
#[cfg(test)]
mod test_snapshot;
