//! Parses parameters. Accepted parameters mean the same after serialization. A rejection is one short line with the
//! place of the error.

use policy_sync_api::params::path::StatusPath;
use policy_sync_api::params::{MAX_KINDS, Params, ParamsError};

/// The maximum size in bytes of a fault with its place. A condition then has room for ten faults.
const LIMIT: usize = 1024;

pub fn body(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let checked = Params::check(text);
    for fault in checked.faults.iter().chain(&checked.warnings) {
        check_report(fault);
    }
    match Params::parse(text) {
        Ok(params) => {
            assert!(checked.faults.is_empty());
            assert_eq!(params, checked.params);
            is_usable(&params);
            let written = serde_json::to_string(&params).expect("parameters are JSON");
            assert_eq!(Params::parse(&written).as_ref(), Ok(&params), "{written}");
        }
        Err(fault) => assert_eq!(Some(&fault), checked.faults.first()),
    }
    // The error for a rejected path has a position.
    if let Err(error) = StatusPath::parse(text) {
        assert!((1..=text.chars().count() + 1).contains(&error.position), "{error}");
    }
}

fn check_report(fault: &ParamsError) {
    let text = fault.to_string();
    assert!(!text.chars().any(char::is_control), "more than one line: {text:?}");
    assert!(text.len() <= LIMIT, "{} bytes: {text:?}", text.len());
    let of_the_whole =
        fault.fault.starts_with("not JSON: ") || fault.fault.starts_with("expected an object, ");
    assert!(of_the_whole || !fault.place.is_empty(), "the place is missing: {text:?}");
}

fn is_usable(params: &Params) {
    assert!(!params.downstream_class.is_empty());
    assert!(params.policies_to_sync.len() <= MAX_KINDS);
    for policy in &params.policies_to_sync {
        for name in [&policy.group, &policy.version, &policy.resource] {
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            assert!(!name.is_empty() && name.chars().all(fits), "{name:?}");
        }
        for field in &policy.status_fields {
            assert!(!field.name.starts_with('_') && !field.name.is_empty());
            StatusPath::parse(&field.path).expect("accepted paths are valid");
        }
    }
}
