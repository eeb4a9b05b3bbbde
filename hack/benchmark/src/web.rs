//! Rows of `policy-sync web`: response times and memory of its pages.

pub(crate) mod gateway;
pub(crate) mod matrix;
mod paint;
pub(crate) mod start;
mod world;
