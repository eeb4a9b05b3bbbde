//! What lies beside the code says what the code does: dependencies, documentation, parameters.

#![allow(clippy::unwrap_used)]

mod command_line;
mod crds;
mod dependencies;
mod documentation;
mod logging;
mod memory;
mod metadata;
mod parameters;
