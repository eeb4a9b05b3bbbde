//! End-to-end tests of `policy-sync web`: its HTTP responses, and its pages in a browser.

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
