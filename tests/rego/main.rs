//! Rego policies on a real API server: loading, placement, admission, authorization and audit.

mod admit;
mod answers;
mod audit;
mod authorize;
mod by_hand;
mod carriers;
mod conformance;
mod differential;
mod documents;
mod external;
mod fairness;
mod faults;
mod filling;
mod gates;
mod generated;
mod many;
mod memory;
mod opa;
mod registration;
mod rego_policies;
mod remediation;
mod secrets;
mod sent;
mod served;
mod shares;
mod stand_in;
mod strangers;
mod switch;
mod terminating;
mod webhooks;
mod world;

/// The allocator of the program: the memory limit of an evaluation reads its counters.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
