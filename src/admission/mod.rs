//! Gates: what policies in Rego let be written, and asked.
//!
//! ```text
//! AdmissionRequest ──▶ question ──▶ denials ──▶ allowed, mended by one patch, or denied in their words
//!                        ▲
//!                        └ the object at its place among all others, so that a quota counts it once
//! ```
//!
//! It is asked twice: first by a webhook that may change what is written, and last by one that sees what is stored. No patch, ours or
//! another webhook's, brings in what a policy denies.
//!
//! ```text
//! SubjectAccessReview ──▶ access ──▶ denials ──▶ denied in their words, or no opinion
//! ```

pub mod access;
pub mod audit;
pub mod auditing;
pub mod auditor;
pub mod denial;
pub(crate) mod events;
#[cfg(test)]
mod in_force;
mod operation;
pub mod patches;
mod question;
pub mod review;
pub mod sample;
mod secrets;
