//! What lies beside the code says what the code does: dependencies, documentation, parameters, samples, rights.

#![allow(clippy::unwrap_used)]

mod dependencies;
mod documentation;
mod logging;
mod parameters;
mod samples;
