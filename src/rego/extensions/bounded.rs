//! Builtins within the limit of memory.

use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Result, bail};
use regorus::Value;
use regorus::unstable::BUILTINS;

use super::{FUNCTIONS, REPLACED, engine, needs};
use crate::rego::builtins::is_forbidden;
use crate::rego::memory;

/// A builtin as the engine calls it: its name, the number of its arguments, and what it does.
type Bounded = (&'static str, u8, Box<dyn regorus::Extension>);

/// What the engine gives the same value for within one evaluation, by its name; it takes no argument and allocates nothing.
const CACHED: &str = "time.now_ns";

/// All builtins that a policy can call, those of the engine and those that are added, within the limit.
pub(super) fn all() -> impl Iterator<Item = Bounded> {
    let added = || FUNCTIONS.iter().chain(&REPLACED);
    let is_added = move |name: &str| added().any(|(added, ..)| *added == name);
    let own =
        BUILTINS.iter().filter(move |(name, _)| !is_added(name) && !is_forbidden(name) && **name != CACHED);
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
) -> Bounded {
    let need = needs::of(name);
    let function = move |values: Vec<Value>| {
        memory::check(need(&values).unwrap_or(usize::MAX))?;
        // Some of the engine's own panic, such as `object.subset([1], [])`.
        match catch_unwind(AssertUnwindSafe(|| function(values))) {
            Ok(result) => result,
            Err(_) => bail!("{name} cannot be evaluated with these arguments"),
        }
    };
    (name, u8::try_from(arity).unwrap_or(u8::MAX), Box::new(function))
}

/// Whether the builtin of this name may be called with these arguments.
///
/// # Errors
///
/// Where it would need more memory than there is.
pub(super) fn check(name: &str, values: &[Value]) -> Result<()> {
    Ok(memory::check(needs::of(name)(values).unwrap_or(usize::MAX))?)
}
