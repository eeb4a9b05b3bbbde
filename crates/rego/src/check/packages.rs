//! Packages at reserved paths of `data`. OPA rejects rules there, and the embedded engine would ignore them.

use crate::fault::Fault;
use crate::module::Module;

/// The fault of a module with a reserved package.
pub(super) fn faults(module: &Module) -> Option<Fault> {
    let words = match module.path().iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["system", ..] => "that is OPA's own",
        ["policysync", ..] => "only the controller writes there",
        ["kubernetes"] => "the objects of the hub are there",
        _ => return None,
    };
    Some(module.fault_of_package(words))
}
