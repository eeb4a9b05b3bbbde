//! Applies the memory limit to builtins.

use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Result, bail};
use regorus::Value;
use regorus::unstable::BUILTINS;

use super::{FUNCTIONS, REPLACED, engine, memory_bounds};
use crate::builtins::is_forbidden;
use crate::memory;
use crate::memory::size::ELEMENT;

/// A builtin as the engine calls it: name, number of arguments and function.
type BoundedBuiltin = (&'static str, u8, Box<dyn regorus::Extension>);

/// All builtins that a policy can call. Each call respects the memory limit.
pub(super) fn all() -> impl Iterator<Item = BoundedBuiltin> {
    let added = || FUNCTIONS.iter().chain(&REPLACED);
    let is_added = move |name: &str| added().any(|(added, ..)| *added == name);
    let own = BUILTINS.iter().filter(move |(name, _)| !is_added(name) && !is_forbidden(name));
    let own = own.map(|(name, (_, arity))| {
        let name = *name;
        bounded(name, usize::from(*arity), move |values| engine(name, &values))
    });
    added().map(|(name, arity, function)| bounded(name, *arity, *function)).chain(own)
}

fn bounded(
    name: &'static str,
    arity: usize,
    function: impl Fn(Vec<Value>) -> Result<Value> + Clone + Send + Sync + 'static,
) -> BoundedBuiltin {
    let need = memory_bounds::of(name);
    let function = move |values: Vec<Value>| {
        memory::check(need(&values).unwrap_or(usize::MAX))?;
        // Some builtins of the engine panic, such as `object.subset([1], [])`.
        match catch_unwind(AssertUnwindSafe(|| function(values))) {
            Ok(result) => result,
            Err(_) => bail!("{name} cannot be evaluated with these arguments"),
        }
    };
    (name, u8::try_from(arity).unwrap_or(u8::MAX), Box::new(function))
}

/// Checks whether the limit allows another list of this number of elements.
///
/// # Errors
///
/// When the list would exceed the limit.
pub(super) fn check_list(elements: usize) -> Result<()> {
    Ok(memory::check(ELEMENT.saturating_mul(elements + 1))?)
}

/// Checks whether the limit allows a call of this builtin with these arguments.
///
/// # Errors
///
/// When the call would exceed the limit.
pub(super) fn check(name: &str, values: &[Value]) -> Result<()> {
    Ok(memory::check(memory_bounds::of(name)(values).unwrap_or(usize::MAX))?)
}
