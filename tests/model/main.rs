//! Model checking: explores the controller as a state machine in small worlds, where users, watches,
//! requests, agents, time, crashes and faults interleave in every order.
//!
//! The product's code makes all decisions. This code includes the mirror, the keys that a change affects, the plan, the
//! diff, the wait for the watch, the exact requests, and the handling of rejections. The model replaces the hub that
//! executes requests, and the watches, which lag independently. The model also replaces the loop of the worker, which
//! sends writes, verifies the causes of deletes, sends the deletes, and records its writes. `tests/faults` runs the
//! whole controller with fewer orders of events. Here, a state is plain data, so that a step takes microseconds and no
//! state is explored twice.
//!
//! Not modeled: the status of GatewayClasses, leadership, and backoff times.
//!
//! `topology` explores the stored topology in separate worlds.
//!
//! The rules are in `rules.rs`, one function for each rule. Most worlds are explored completely. The other worlds are
//! explored breadth first up to a limit, which `POLICY_SYNC_MODEL_STATES` raises. Each remaining state then takes steps
//! without users and faults until it settles. Each test prints the number of states.

#![allow(clippy::unwrap_used)]

mod agent;
mod controller;
mod effect;
mod explore;
mod facts;
mod fingerprint;
mod hostile;
mod hub;
mod rules;
mod state;
mod step;
mod take;
mod topology;
mod world;
mod worlds;
