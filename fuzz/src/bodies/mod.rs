//! The bodies of the fuzz targets: what has to hold for any input. Each takes the bytes of one input and panics where it
//! does not hold.

pub mod ancestors;
mod decisions;
pub mod feedback;
mod hub;
pub mod parameters;
pub mod policies;
mod secrets;
pub mod selectors;

/// A body.
pub type Body = fn(&[u8]);

/// All bodies, by the names of their targets and of the folders of their corpora.
pub const ALL: [(&str, Body); 5] = [
    ("decisions", decisions::body),
    ("feedback", feedback::body),
    ("parameters", parameters::body),
    ("policies", policies::body),
    ("selectors", selectors::body),
];
