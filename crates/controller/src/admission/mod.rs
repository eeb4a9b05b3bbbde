//! Admission and authorization by Rego policies.
//!
//! ```text
//! AdmissionRequest ──▶ question ──▶ denials ──▶ allowed, allowed with a patch, or denied with a message
//!                        ▲
//!                        └ the object replaces its stored version in `data`, so that a quota counts it once
//! ```
//!
//! The API server calls two webhooks for each write: a mutating one, which can patch the object, and a
//! validating one, which sees the final object. So a patch of another webhook cannot bypass a policy.
//!
//! ```text
//! SubjectAccessReview ──▶ access ──▶ denials ──▶ denied with a message, or no opinion
//! ```

pub mod access;
pub mod audit;
pub mod auditing;
pub mod auditor;
pub mod denial;
pub mod events;
mod operation;
pub mod patches;
pub mod review;
mod review_query;
pub mod sample;
mod secrets;
#[cfg(test)]
mod test_snapshot;
