//! The rows of the loader's mirror.

mod carrier;
mod document;

pub(super) use carrier::{Carrier, CarrierStatus, STATUS};
pub(super) use document::Document;
pub use document::document;
