//! What attaches to what: each rule of Gateway API that decides it.

mod backends;
mod gateways;
mod implementations;
mod leaves;
mod listeners;
mod policies;
mod references;
mod routes;
mod same_hosts;
mod selectors;

pub(super) use leaves::leaves;
pub(super) use routes::hosts;
