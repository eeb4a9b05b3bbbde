//! The rules of Gateway API that decide which object attaches to which.

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
