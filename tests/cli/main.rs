//! The commands as a user runs them: their output and their exit codes.

#![allow(clippy::unwrap_used)]

mod asking;
mod audit;
mod completion;
mod diff;
mod documents;
mod examples;
mod explain;
mod help;
mod params;
mod plan;
mod printing;
mod refusals;
mod rego;
mod rego_memory;
mod run;
mod secrets;
mod status;
mod terminal;
mod topology;
mod webhook_flags;
