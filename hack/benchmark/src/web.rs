//! The pages of `policy-sync web`: how soon they come, and what they take.

pub(crate) mod gateway;
pub(crate) mod matrix;
mod paint;
pub(crate) mod start;
mod world;
