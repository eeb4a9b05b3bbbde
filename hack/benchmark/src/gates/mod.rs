//! Rows of admission, authorization and audit.
//!
//! ```text
//! admitted (G1), review (G2)           admission
//! authorized (G3)                      authorization
//! standing, growth, reports (G4 to G6) audit, with corpus and auditing
//! traffic (G7)                         admission and authorization, while Rego policies change
//! ```

pub(super) mod admitted;
mod auditing;
pub(super) mod authorized;
mod authorizer;
mod corpus;
pub(super) mod growth;
mod pods;
pub(super) mod reports;
pub(super) mod review;
pub(super) mod standing;
pub(super) mod traffic;
