//! What lies beside the code says what the code does: dependencies, parameters, samples, rights.

#![allow(clippy::unwrap_used)]

mod dependencies;
mod parameters;
mod samples;
