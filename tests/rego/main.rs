//! Policies in Rego on a real API server: what is loaded of them, and what their owners are told.

mod admit;
mod answers;
mod audit;
mod authorize;
mod by_hand;
mod carriers;
mod differential;
mod documents;
mod external;
mod faults;
mod filling;
mod gates;
mod many;
mod opa;
mod registration;
mod rego_policies;
mod remediation;
mod sent;
mod served;
mod stand_in;
mod switch;
mod webhooks;
mod world;
