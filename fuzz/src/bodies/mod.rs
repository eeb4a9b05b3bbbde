//! The bodies of the fuzz targets: what has to hold for any input. Each takes the bytes of one input and panics where it
//! does not hold.

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

/// A body.
pub type Body = fn(&[u8]);

/// All bodies, by the names of their targets and of the folders of their corpora.
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
/// Where it does not hold, or there is no such body.
pub fn run(name: &str, data: &[u8]) {
    let (_, body) = ALL.iter().find(|(known, _)| *known == name).expect("a body of that name");
    body(data);
}
