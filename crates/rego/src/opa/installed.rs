//! Ensures that a query is evaluated only if OPA has all of this project's modules.
//!
//! Each module gets a function, which is not part of its package's value. The *proof module* [`ID`] calls the function
//! of each module, and every query calls a function of [`ID`]. OPA compiles its modules together and rejects calls of
//! undefined functions. So OPA rejects the deletion of a module while [`ID`] calls its function, and rejects every
//! query while [`ID`] is absent.

use std::collections::BTreeSet;
use std::fmt::Write;

use regorus::Value;

use crate::module::ModuleId;
use policy_sync_api::json::Hash;

/// The id of the proof module in OPA, after the prefix of this project's modules. Ids of other modules have a `/`.
pub(super) const ID: &str = "installed";
/// The expressions that every query contains: the marker, and a call of [`ID`]. The cost is one call: the calls of the
/// functions of other modules are compiled and never evaluated.
pub(super) const MARKED: &str = "revision = data.policysync.revision; data.policysync.installed.complete(0)";
/// The prefix of OPA's error if [`ID`] is absent.
pub(super) const UNDEFINED: &str = "undefined function data.policysync.installed.";

/// The name of the function of module `id`.
fn function(id: &ModuleId) -> String {
    format!("policysync_module_{}", Hash::of_text(id.as_str()))
}

/// Adds the function of module `id` to its text. No place in `text` changes.
pub(super) fn with_function(id: &ModuleId, text: &str) -> String {
    // Both syntaxes parse the function in the same way.
    format!("{text}\n{}(_) = true\n", function(id))
}

/// The function of module `id` of the package `path` (without `data`), as other modules call it.
pub(super) fn call(id: &ModuleId, path: &[String]) -> String {
    let mut call = "data".to_owned();
    for part in path {
        // Writing to a String cannot fail.
        let _ = write!(call, "[{}]", Value::from(part.as_str()));
    }
    format!("{call}.{}(0)", function(id))
}

/// The text of the proof module with these calls.
pub(super) fn module<'c>(calls: impl IntoIterator<Item = &'c String>) -> String {
    let mut text = "package policysync.installed\n\nimport rego.v1\n\ncomplete(_) := true\n".to_owned();
    for call in calls {
        let _ = write!(text, "\ncalls(_) if {call}\n");
    }
    text
}

/// The calls that both sets contain.
pub(super) fn common(one: &BTreeSet<String>, other: &BTreeSet<String>) -> BTreeSet<String> {
    one.intersection(other).cloned().collect()
}
