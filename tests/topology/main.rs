//! Tests of the topology without an API server: tables of cases, and properties of random objects.

#![allow(clippy::unwrap_used)]

mod affected;
mod cases;
mod conditions;
mod costs;
mod hierarchy;
mod in_force;
mod known;
mod merging;
mod order;
mod picture;
mod requests;
mod shorthand;
mod stored;

mod worlds;
