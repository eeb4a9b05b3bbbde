//! The builtins that policies call: those of the engine, those that the engine lacks, and replacements. Each call respects the memory
//! limit.

mod bounded;
mod needs;
pub(super) mod patterns;
mod sprintf;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use anyhow::{Result, bail, ensure};
use regorus::unstable::{BUILTINS, Expr, Ref, Source, Span};
use regorus::{Engine, LimitError, Value};

use super::memory::OverLimit;
use super::rewrites::{self, MEMBER, MEMBER_WITH_KEY, WALK};
use crate::api::text::capped;

/// The maximum number of elements that a builtin generates from numbers.
const ELEMENTS: u64 = 100_000;
/// The maximum number of nodes in a graph for the search of all paths.
const NODES: usize = 1_000;
/// The maximum shift of a number in bits.
const SHIFT: f64 = 65_536.0;
/// The maximum length of a quantity in bytes, and of its exponent in digits.
const QUANTITY: usize = 100;
const EXPONENT: usize = 3;

/// Name, number of arguments and implementation of a builtin.
type Function = (&'static str, usize, fn(Vec<Value>) -> Result<Value>);

/// An error of these functions ends the evaluation. For errors that OPA treats as undefined, they return [`Value::Undefined`].
const FUNCTIONS: [Function; 22] = [
    ("all", 1, |values| Ok(truths(&values[0]).map_or(Value::Undefined, |mut all| all.all(is_true).into()))),
    ("any", 1, |values| Ok(truths(&values[0]).map_or(Value::Undefined, |mut all| all.any(is_true).into()))),
    ("bits.lsh", 2, shift),
    ("cast_array", 1, cast_array),
    ("cast_boolean", 1, |values| cast(values, |value| matches!(value, Value::Bool(_)))),
    ("cast_null", 1, |values| cast(values, |value| matches!(value, Value::Null))),
    ("cast_object", 1, |values| cast(values, |value| matches!(value, Value::Object(_)))),
    ("cast_set", 1, cast_set),
    ("cast_string", 1, |values| cast(values, |value| matches!(value, Value::String(_)))),
    ("net.cidr_expand", 1, expand),
    ("net.cidr_overlap", 2, |values| engine("net.cidr_contains", &values)),
    ("numbers.range", 2, |values| range("numbers.range", values)),
    ("numbers.range_step", 3, |values| range("numbers.range_step", values)),
    (MEMBER, 2, rewrites::has),
    (MEMBER_WITH_KEY, 3, rewrites::has_at),
    (WALK, 1, |values| engine("walk", &values)),
    ("re_match", 2, |values| patterns::is_match("re_match", &values)),
    ("set_diff", 2, difference),
    ("sprintf", 2, sprintf::sprintf),
    ("strings.count", 2, count),
    ("units.parse", 1, |values| quantity("units.parse", values)),
    ("units.parse_bytes", 1, |values| quantity("units.parse_bytes", values)),
];

/// Replacements of the engine's builtins, called in the same way.
const REPLACED: [Function; 11] = [
    ("graph.reachable_paths", 2, reachable_paths),
    ("object.union_n", 1, union_n),
    ("regex.find_all_string_submatch_n", 3, patterns::find_all_string_submatch_n),
    ("regex.find_n", 3, patterns::find_n),
    ("regex.is_valid", 1, patterns::is_valid),
    ("regex.match", 2, |values| patterns::is_match("regex.match", &values)),
    ("regex.replace", 3, patterns::replace),
    ("regex.split", 2, patterns::split),
    ("regex.template_match", 4, patterns::template_match),
    ("strings.replace_n", 2, replace_n),
    // Evaluations are not traced.
    ("trace", 1, |values| Ok(if values[0].as_string().is_ok() { true.into() } else { Value::Undefined })),
];

/// The number of arguments of this function, if it is one of [`FUNCTIONS`].
pub(super) fn arity(name: &str) -> Option<usize> {
    FUNCTIONS.iter().find(|(function, ..)| *function == name).map(|(_, arity, _)| *arity)
}

/// `name` as a static string, if it is one of [`FUNCTIONS`].
pub(super) fn name(name: &str) -> Option<&'static str> {
    FUNCTIONS.iter().find(|(function, ..)| *function == name).map(|(function, ..)| *function)
}

/// Registers all builtins with `engine`.
///
/// # Errors
///
/// When a builtin is registered already.
pub(super) fn add_to(engine: &mut Engine) -> Result<()> {
    for (name, arity, function) in bounded::all() {
        engine.add_extension(name.to_owned(), arity, function)?;
    }
    Ok(())
}

/// Registers only the builtins that `engine` lacks, without limits, for comparisons of speed.
#[cfg(test)]
pub(super) fn add_without_limits(engine: &mut Engine) -> Result<()> {
    for (name, arity, function) in FUNCTIONS {
        engine.add_extension(name.to_owned(), u8::try_from(arity)?, Box::new(function))?;
    }
    Ok(())
}

/// The place and arguments for errors of the engine's builtins. These errors are dropped.
static PLACE: LazyLock<Option<(Span, [Ref<Expr>; 4])>> = LazyLock::new(|| {
    let source = Source::from_contents(String::new(), String::new()).ok()?;
    let span = Span { source, line: 1, col: 1, start: 0, end: 0 };
    let argument = Ref::new(Expr::Null { span: span.clone(), value: Value::Null, eidx: 0 });
    Some((span, std::array::from_fn(|_| argument.clone())))
});

/// Calls the engine's builtin. Errors become undefined, except those about an exceeded limit.
fn engine(name: &str, values: &[Value]) -> Result<Value> {
    let (Some((function, _)), Some((span, arguments))) = (BUILTINS.get(name), &*PLACE) else {
        bail!("{name} is missing")
    };
    match function(span, &arguments[..values.len().min(arguments.len())], values, false) {
        Ok(value) => Ok(value),
        Err(error) => match error.downcast_ref::<LimitError>() {
            Some(LimitError::MemoryLimitExceeded { .. }) => Err(OverLimit.into()),
            Some(_) => Err(error),
            None => Ok(Value::Undefined),
        },
    }
}

fn is_true(value: &Value) -> bool {
    *value == Value::Bool(true)
}

fn truths(value: &Value) -> Option<Box<dyn Iterator<Item = &Value> + '_>> {
    match value {
        Value::Array(items) => Some(Box::new(items.iter())),
        Value::Set(items) => Some(Box::new(items.iter())),
        _ => None,
    }
}

fn cast(values: Vec<Value>, is: fn(&Value) -> bool) -> Result<Value> {
    Ok(values.into_iter().next().filter(is).unwrap_or(Value::Undefined))
}

fn cast_array(values: Vec<Value>) -> Result<Value> {
    match &values[0] {
        Value::Set(items) => Ok(items.iter().cloned().collect::<Vec<_>>().into()),
        _ => cast(values, |value| matches!(value, Value::Array(_))),
    }
}

fn cast_set(values: Vec<Value>) -> Result<Value> {
    match &values[0] {
        Value::Array(items) => Ok(items.iter().cloned().collect::<BTreeSet<_>>().into()),
        _ => cast(values, |value| matches!(value, Value::Set(_))),
    }
}

fn difference(values: Vec<Value>) -> Result<Value> {
    let [Value::Set(all), Value::Set(without)] = values.as_slice() else { return Ok(Value::Undefined) };
    Ok(all.iter().filter(|item| !without.contains(item)).cloned().collect::<BTreeSet<_>>().into())
}

fn shift(values: Vec<Value>) -> Result<Value> {
    if let Ok(bits) = values[1].as_f64() {
        ensure!(bits <= SHIFT, "bits.lsh: {bits} bits are more than {SHIFT}");
    }
    engine("bits.lsh", &values)
}

fn count(values: Vec<Value>) -> Result<Value> {
    let (Ok(text), Ok(part)) = (values[0].as_string(), values[1].as_string()) else {
        return Ok(Value::Undefined);
    };
    let count = if part.is_empty() { text.chars().count() + 1 } else { text.matches(&**part).count() };
    Ok(count.into())
}

/// A number is made digit by digit: one of a thousand million takes minutes.
fn quantity(name: &str, values: Vec<Value>) -> Result<Value> {
    if let Ok(text) = values[0].as_string() {
        let exponent = text.rsplit_once(['e', 'E']).map_or("", |(_, exponent)| exponent);
        let digits = exponent.chars().filter(char::is_ascii_digit).count();
        ensure!(
            text.len() <= QUANTITY && digits <= EXPONENT,
            "{name}: {} is too long",
            capped(text, QUANTITY)
        );
    }
    engine(name, &values)
}

fn range(name: &str, values: Vec<Value>) -> Result<Value> {
    if values.get(2).and_then(|step| step.as_f64().ok()).is_some_and(|step| step < 1.0) {
        return Ok(Value::Undefined);
    }
    if let (Ok(first), Ok(last)) = (values[0].as_f64(), values[1].as_f64()) {
        let step = values.get(2).and_then(|step| step.as_f64().ok()).unwrap_or(1.0);
        let elements = (last - first).abs() / step.max(1.0);
        ensure!(elements < ELEMENTS as f64, "{name}: more than {ELEMENTS} elements");
    }
    engine(name, &values)
}

/// Each path is found by one call in another: more nodes may not fit on a stack.
fn reachable_paths(values: Vec<Value>) -> Result<Value> {
    let nodes = super::memory::size::elements(&values[0]);
    ensure!(nodes <= NODES, "graph.reachable_paths: more than {NODES} nodes");
    engine("graph.reachable_paths", &values)
}

/// Object by object: each union is as large as it is, and not as all of them could make it.
fn union_n(values: Vec<Value>) -> Result<Value> {
    let Value::Array(objects) = &values[0] else { return Ok(Value::Undefined) };
    if objects.iter().any(|object| object.as_object().is_err()) {
        return Ok(Value::Undefined);
    }
    objects.iter().try_fold(Value::new_object(), |union, object| {
        let both = [union, object.clone()];
        bounded::check("object.union", &both)?;
        engine("object.union", &both)
    })
}

/// Text by text, in their order.
fn replace_n(values: Vec<Value>) -> Result<Value> {
    let (Value::Object(texts), Value::String(_)) = (&values[0], &values[1]) else {
        return Ok(Value::Undefined);
    };
    if texts.iter().any(|(old, new)| old.as_string().is_err() || new.as_string().is_err()) {
        return Ok(Value::Undefined);
    }
    texts.iter_sorted().try_fold(values[1].clone(), |text, (old, new)| {
        let values = [text, old.clone(), new.clone()];
        bounded::check("replace", &values)?;
        engine("replace", &values)
    })
}

fn expand(values: Vec<Value>) -> Result<Value> {
    if let Value::String(network) = &values[0]
        && let Some((address, length)) = network.rsplit_once('/')
        && let Ok(length) = length.parse::<u32>()
    {
        let bits = if address.contains(':') { 128_u32 } else { 32 };
        let addresses = 1_u64.checked_shl(bits.saturating_sub(length)).unwrap_or(u64::MAX);
        ensure!(addresses <= ELEMENTS, "net.cidr_expand: {network} has more than {ELEMENTS} addresses");
    }
    engine("net.cidr_expand", &values)
}

#[cfg(test)]
mod tests;
