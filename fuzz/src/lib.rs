//! Shared code of the fuzz targets: the bodies, which the product's `tests/fuzz` also runs, and the mutator.

pub mod bodies;
pub mod mutator;
