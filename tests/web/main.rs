//! `policy-sync web` from outside: what it answers to whom, and what a browser makes of it.

#![allow(clippy::unwrap_used)]

mod attached;
mod away;
mod files;
mod fleet;
mod guard;
mod looking;
mod pictures;
mod rights;
mod site;
mod whole;
