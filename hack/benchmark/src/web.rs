//! The measurements of `policy-sync web`, W1 to W6: response times and memory of its pages.

pub(crate) mod gateway;
pub(crate) mod matrix;
mod paint;
pub(crate) mod start;
mod world;
