//! What is kept of the hub for Rego.

mod carrier;
mod document;
mod served;

pub(super) use carrier::{Carrier, STATUS, Told};
pub(super) use document::Document;
pub(super) use served::Served;
