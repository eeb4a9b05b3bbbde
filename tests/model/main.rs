//! The controller as a state machine, explored: small worlds in which users, watches, requests, agents, time, crashes
//! and faults take turns in every order.
//!
//! What decides is the product's own: the mirror with the keys that a change affects, the plan, the difference, what
//! waits for the watch, the requests to the byte, and what their refusals mean. What is the model's is the hub that
//! carries requests out, the watches that lag each on its own, and what the worker does between deciding and being
//! done, which is little: send, read the cause, send the deletes, note what was written. `tests/faults` runs the whole
//! controller, in fewer orders of events; here a state is data, so that one costs microseconds and none is met twice.
//!
//! Left out: the status of GatewayClasses, leadership, and the length of backoffs.
//!
//! `topology` has worlds of its own, for the capability that keeps the topology on a hub.
//!
//! Rules are in `rules.rs`, one function each. Most worlds are followed until there are no more states. The others are
//! followed breadth first, and from where that ends what goes on by itself is followed to its end; with
//! `POLICY_SYNC_MODEL_STATES` that is later. Each test prints how many states it has met.

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
