//! Placement: what policies in Rego say of where an object goes.
//!
//! ```text
//! object as written ──▶ wish: without what policies have set ──▶ question ──▶ answer ──▶ object as stored
//!                        ▲                                                               │
//!                        └────── kuadrant.io/placed-by-policy: what was set, and what was there before
//! ```
//!
//! A policy is asked of what the developer wrote, never of its own last answer: else it would take that for a wish, and could
//! not move anything. So what is stored is what the policy says of the wish alone, whatever came before.

pub mod answer;
pub mod place;
pub mod placed;
pub(crate) mod refusals;
pub mod review;
