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
//!
//! [`review`] is for objects that are written, [`remediation`] for those that stand, and [`by_hand`] for whoever brings these where
//! policies say by themselves.

pub mod answer;
pub mod by_hand;
pub mod compliance;
pub mod place;
mod placed_kinds;
pub mod question;
pub(crate) mod refusals;
pub mod remediation;
pub mod review;
