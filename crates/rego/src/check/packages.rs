//! Packages at reserved paths of `data`. OPA rejects rules there, and the embedded engine would ignore them.

use crate::fault::Fault;
use crate::module::Module;

/// The fault of a module with a reserved package.
pub(super) fn faults(module: &Module) -> Option<Fault> {
    let words = match module.path().iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["system", ..] => "this path is reserved for OPA",
        ["policysync", ..] => "this path is reserved for the controller",
        ["kubernetes"] => "objects of the hub have this path",
        _ => return None,
    };
    Some(module.fault_of_package(words))
}
