//! Gates: what is written, what users ask, and what stands.
//!
//! ```text
//! admitted (G1), review (G2)           what is written
//! authorized (G3)                      what users ask
//! standing, growth, reports (G4 to G6) what stands, by corpus and auditing
//! traffic (G7)                         all of it, while policies change
//! ```

pub(super) mod admitted;
mod asked;
mod auditing;
pub(super) mod authorized;
mod corpus;
pub(super) mod growth;
mod pods;
pub(super) mod reports;
pub(super) mod review;
pub(super) mod standing;
pub(super) mod traffic;
