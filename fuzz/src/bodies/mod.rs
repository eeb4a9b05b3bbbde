//! The code of the fuzz targets: properties that must hold for any input. Each function takes the bytes of an
//! input and panics if a property is violated.

mod ancestors;
mod builtins;
mod decisions;
mod feedback;
mod hub;
mod parameters;
mod policies;
mod request;
mod secrets;
mod selectors;
mod topology;

/// Checks one input.
pub type Body = fn(&[u8]);

/// All bodies, by the names of their targets and of the directories of their corpora.
pub const ALL: [(&str, Body); 8] = [
    ("builtins", builtins::body),
    ("decisions", decisions::body),
    ("feedback", feedback::body),
    ("parameters", parameters::body),
    ("policies", policies::body),
    ("request", request::body),
    ("selectors", selectors::body),
    ("topology", topology::body),
];

/// Runs the body `name` on one input.
///
/// # Panics
///
/// If a property is violated, or no body has this name.
pub fn run(name: &str, data: &[u8]) {
    let (_, body) = ALL.iter().find(|(known, _)| *known == name).expect("a body has this name");
    body(data);
}
