//! Packages at a place of `data` where something else is: OPA takes no rule there, and the embedded engine would not read it.

use crate::fault::Fault;
use crate::module::Module;

/// What is wrong with the place of `module`'s rules.
pub(super) fn faults(module: &Module) -> Option<Fault> {
    let words = match module.path().iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["system", ..] => "that is OPA's own",
        ["policysync", ..] => "only the controller writes there",
        ["kubernetes"] => "the objects of the hub are there",
        _ => return None,
    };
    Some(module.fault_of_package(words))
}
