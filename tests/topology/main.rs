//! Topology without a server: tables of cases, and what holds for any objects.

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
