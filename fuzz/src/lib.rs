//! What the fuzz targets share: the bodies, which `tests/fuzz` of the product replays as well, and the mutator.

pub mod bodies;
pub mod mutator;
