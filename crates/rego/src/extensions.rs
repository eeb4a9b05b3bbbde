//! The builtins that policies can call: those of the engine, those that the engine lacks, and replacements. Each call
//! respects the memory limit.

mod bounded;
mod certificates;
pub(super) mod clock;
mod corrections;
mod digests;
mod durations;
mod globs;
mod graphql;
mod intersections;
mod memory_bounds;
mod networks;
pub(super) mod patterns;
mod replacements;
pub(super) mod schemas;
mod sprintf;
mod tokens;
mod uris;
mod uuids;
pub(super) mod yaml;

pub(super) use sprintf::write as written;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use anyhow::{Result, bail, ensure};
use regorus::unstable::{BUILTINS, Expr, Ref, Source, Span};
use regorus::{Engine, LimitError, Value};
use serde::de::IgnoredAny;

use super::memory::OverLimit;
use super::metadata::CONSTANT;
use super::rewrites::{self, DIVISOR, MEMBER, MEMBER_WITH_KEY, WALK};
use super::template_strings;
use policy_sync_api::text::truncate_bytes;

/// The maximum number of elements that a builtin generates from numbers.
const ELEMENTS: u64 = 100_000;
/// The maximum number of nodes in a graph for the search of all paths.
const MAX_NODES: usize = 1_000;
/// The maximum shift of a number in bits.
const SHIFT: f64 = 65_536.0;
/// The maximum length of a quantity in bytes, and of its exponent in digits.
const QUANTITY: usize = 100;
const EXPONENT: usize = 3;

/// The name, number of arguments and implementation of a builtin.
type Function = (&'static str, usize, fn(Vec<Value>) -> Result<Value>);

/// The builtins that the engine lacks. An error of these functions ends the evaluation. For errors that OPA treats as
/// undefined, the functions return [`Value::Undefined`].
const FUNCTIONS: [Function; 78] = [
    ("all", 1, |values| Ok(truths(&values[0]).map_or(Value::Undefined, |mut all| all.all(is_true).into()))),
    ("any", 1, |values| Ok(truths(&values[0]).map_or(Value::Undefined, |mut all| all.any(is_true).into()))),
    ("array.flatten", 1, flatten),
    ("bits.lsh", 2, shift),
    ("cast_array", 1, cast_array),
    ("cast_boolean", 1, |values| cast(values, |value| matches!(value, Value::Bool(_)))),
    ("cast_null", 1, |values| cast(values, |value| matches!(value, Value::Null))),
    ("cast_object", 1, |values| cast(values, |value| matches!(value, Value::Object(_)))),
    ("cast_set", 1, cast_set),
    ("cast_string", 1, |values| cast(values, |value| matches!(value, Value::String(_)))),
    ("crypto.hmac.equal", 2, digests::hmac_equal),
    ("crypto.hmac.md5", 2, digests::hmac_md5),
    ("crypto.hmac.sha1", 2, digests::hmac_sha1),
    ("crypto.hmac.sha256", 2, digests::hmac_sha256),
    ("crypto.hmac.sha512", 2, digests::hmac_sha512),
    ("crypto.md5", 1, digests::md5),
    ("crypto.parse_private_keys", 1, certificates::parse_private_keys),
    ("crypto.sha1", 1, digests::sha1),
    ("crypto.sha256", 1, digests::sha256),
    ("crypto.x509.parse_and_verify_certificates", 1, certificates::parse_and_verify_certificates),
    (
        "crypto.x509.parse_and_verify_certificates_with_options",
        2,
        certificates::parse_and_verify_certificates_with_options,
    ),
    ("crypto.x509.parse_certificate_request", 1, certificates::parse_certificate_request),
    ("crypto.x509.parse_certificates", 1, certificates::parse_certificates),
    ("crypto.x509.parse_keypair", 2, certificates::parse_keypair),
    ("crypto.x509.parse_rsa_private_key", 1, certificates::parse_rsa_private_key),
    ("graphql.is_valid", 2, graphql::is_valid),
    ("graphql.parse", 2, graphql::parse),
    ("graphql.parse_and_verify", 2, graphql::parse_and_verify),
    ("graphql.parse_query", 1, graphql::parse_query),
    ("graphql.parse_schema", 1, graphql::parse_schema),
    ("graphql.schema_is_valid", 1, graphql::schema_is_valid),
    ("io.jwt.decode", 1, tokens::decode),
    ("io.jwt.decode_verify", 2, tokens::decode_verify),
    ("io.jwt.verify_eddsa", 2, |values| tokens::verify("io.jwt.verify_eddsa", "EdDSA", &values)),
    ("io.jwt.verify_es256", 2, |values| tokens::verify("io.jwt.verify_es256", "ES256", &values)),
    ("io.jwt.verify_es384", 2, |values| tokens::verify("io.jwt.verify_es384", "ES384", &values)),
    ("io.jwt.verify_es512", 2, |values| tokens::verify("io.jwt.verify_es512", "ES512", &values)),
    ("io.jwt.verify_hs256", 2, |values| tokens::verify("io.jwt.verify_hs256", "HS256", &values)),
    ("io.jwt.verify_hs384", 2, |values| tokens::verify("io.jwt.verify_hs384", "HS384", &values)),
    ("io.jwt.verify_hs512", 2, |values| tokens::verify("io.jwt.verify_hs512", "HS512", &values)),
    ("io.jwt.verify_ps256", 2, |values| tokens::verify("io.jwt.verify_ps256", "PS256", &values)),
    ("io.jwt.verify_ps384", 2, |values| tokens::verify("io.jwt.verify_ps384", "PS384", &values)),
    ("io.jwt.verify_ps512", 2, |values| tokens::verify("io.jwt.verify_ps512", "PS512", &values)),
    ("io.jwt.verify_rs256", 2, |values| tokens::verify("io.jwt.verify_rs256", "RS256", &values)),
    ("io.jwt.verify_rs384", 2, |values| tokens::verify("io.jwt.verify_rs384", "RS384", &values)),
    ("io.jwt.verify_rs512", 2, |values| tokens::verify("io.jwt.verify_rs512", "RS512", &values)),
    ("json.match_schema", 2, schemas::matches),
    ("json.verify_schema", 1, schemas::verify),
    (template_strings::FUNCTION, 1, template_strings::template_string),
    ("net.cidr_contains_matches", 2, networks::contains_matches),
    ("net.cidr_intersects", 2, networks::intersects),
    ("net.cidr_merge", 1, networks::merge),
    ("net.cidr_overlap", 2, networks::contains),
    ("numbers.range", 2, |values| range("numbers.range", values)),
    ("numbers.range_step", 3, |values| range("numbers.range_step", values)),
    (CONSTANT, 1, |values| Ok(values.into_iter().next().unwrap_or(Value::Undefined))),
    (DIVISOR, 1, rewrites::unless_zero),
    (MEMBER, 2, rewrites::has),
    (MEMBER_WITH_KEY, 3, rewrites::has_at),
    (WALK, 1, |values| engine("walk", &values)),
    ("re_match", 2, |values| patterns::is_match("re_match", &values)),
    ("regex.globs_match", 2, intersections::globs_match),
    ("set_diff", 2, difference),
    ("sprintf", 2, sprintf::sprintf),
    ("strings.count", 2, count),
    ("strings.split_n", 3, split_n),
    ("units.parse", 1, |values| quantity("units.parse", values)),
    ("units.parse_bytes", 1, |values| quantity("units.parse_bytes", values)),
    ("uri.is_valid", 1, uris::is_valid),
    ("uri.parse", 1, uris::parse),
    ("urlquery.decode", 1, uris::decode),
    ("urlquery.decode_object", 1, uris::decode_object),
    ("urlquery.encode", 1, uris::encode),
    ("urlquery.encode_object", 1, uris::encode_object),
    ("uuid.parse", 1, uuids::parse),
    ("yaml.is_valid", 1, yaml::is_valid),
    ("yaml.marshal", 1, yaml::marshal),
    ("yaml.unmarshal", 1, yaml::unmarshal),
];

/// Builtins that replace those of the engine. Their errors have the same effects as errors of [`FUNCTIONS`].
const REPLACED: [Function; 29] = [
    ("base64.decode", 1, corrections::base64_decode),
    ("count", 1, corrections::count),
    ("glob.match", 3, globs::is_match),
    ("graph.reachable_paths", 2, reachable_paths),
    ("json.filter", 2, corrections::json_filter),
    ("json.is_valid", 1, is_json),
    ("json.marshal", 1, corrections::json_marshal),
    ("json.marshal_with_options", 2, corrections::json_marshal_with_options),
    ("json.remove", 2, corrections::json_remove),
    ("json.unmarshal", 1, from_json),
    ("net.cidr_contains", 2, networks::contains),
    ("net.cidr_expand", 1, networks::expand),
    ("net.cidr_is_valid", 1, networks::is_valid),
    ("object.union_n", 1, union_n),
    ("regex.find_all_string_submatch_n", 3, patterns::find_all_string_submatch_n),
    ("regex.find_n", 3, patterns::find_n),
    ("regex.is_valid", 1, patterns::is_valid),
    ("regex.match", 2, |values| patterns::is_match("regex.match", &values)),
    ("regex.replace", 3, patterns::replace),
    ("regex.split", 2, patterns::split),
    ("regex.template_match", 4, patterns::template_match),
    ("semver.compare", 2, corrections::semver_compare),
    ("semver.is_valid", 1, corrections::semver_is_valid),
    ("strings.replace_n", 2, replacements::replace_n),
    ("time.now_ns", 0, clock::now_ns),
    ("time.parse_duration_ns", 1, durations::parse),
    ("time.parse_rfc3339_ns", 1, corrections::parse_rfc3339_ns),
    ("to_number", 1, corrections::to_number),
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

/// The place and the arguments that the engine's builtins require for their errors. The errors are dropped.
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

/// The text of `value`, if it is a string.
fn text(value: &Value) -> Option<&str> {
    value.as_string().ok().map(AsRef::as_ref)
}

fn or_undefined<T: Into<Value>>(value: Option<T>) -> Value {
    value.map_or(Value::Undefined, Into::into)
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

/// Flattens nested arrays by one level.
fn flatten(values: Vec<Value>) -> Result<Value> {
    let Value::Array(items) = &values[0] else { return Ok(Value::Undefined) };
    let flat = items.iter().flat_map(|item| match item {
        Value::Array(inner) => inner.as_slice(),
        item => std::slice::from_ref(item),
    });
    Ok(flat.cloned().collect::<Vec<_>>().into())
}

/// Splits a text and returns the first parts or, for a negative number, the last parts.
fn split_n(values: Vec<Value>) -> Result<Value> {
    let [Value::String(text), Value::String(delimiter), Value::Number(number)] = values.as_slice() else {
        return Ok(Value::Undefined);
    };
    let Ok(number) = number.format_decimal().parse::<i64>() else { return Ok(Value::Undefined) };
    let count = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
    let (parts, all): (Box<dyn Iterator<Item = &str>>, usize) = if delimiter.is_empty() {
        let chars = text.char_indices().map(|(start, c)| &text[start..start + c.len_utf8()]);
        (Box::new(chars), text.chars().count())
    } else {
        (Box::new(text.split(&**delimiter)), text.matches(&**delimiter).count() + 1)
    };
    let skipped = if number < 0 { all.saturating_sub(count) } else { 0 };
    Ok(parts.skip(skipped).take(count).map(Value::from).collect::<Vec<_>>().into())
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

/// Limits the length and the exponent of a quantity. The engine computes the number digit by digit, which takes minutes
/// for an exponent of a thousand million.
fn quantity(name: &str, values: Vec<Value>) -> Result<Value> {
    if let Ok(text) = values[0].as_string() {
        // An `E` begins an exponent, or is a unit. So the digits after each `E` are counted.
        let digits =
            text.split(['e', 'E']).skip(1).map(|part| part.bytes().filter(u8::is_ascii_digit).count());
        ensure!(
            text.len() <= QUANTITY && digits.max().unwrap_or(0) <= EXPONENT,
            "{name}: {} is too long",
            truncate_bytes(text, QUANTITY)
        );
    }
    engine(name, &values)
}

/// The integers from the first argument to the second, with a step of at least 1.
fn range(name: &str, values: Vec<Value>) -> Result<Value> {
    let integer = |value: &Value| match value {
        Value::Number(number) if number.is_integer() => number.format_decimal().parse::<i128>().ok(),
        _ => None,
    };
    let integers: Option<Vec<i128>> = values.iter().map(integer).collect();
    let Some(integers) = integers else { return Ok(Value::Undefined) };
    let (first, last, step) = (integers[0], integers[1], integers.get(2).copied().unwrap_or(1));
    if step < 1 {
        return Ok(Value::Undefined);
    }
    let distance = last.abs_diff(first);
    let steps = distance / step.unsigned_abs();
    ensure!(steps < u128::from(ELEMENTS), "{name}: more than {ELEMENTS} elements");
    let step = if last < first { -step } else { step };
    let numbers = (0..=steps).scan(first, |next, _| {
        let number = *next;
        // After the last element, the sum may saturate, but it is not used any more.
        *next = next.saturating_add(step);
        Some(number)
    });
    let number = |number: i128| match i64::try_from(number) {
        Ok(number) => Ok(number.into()),
        Err(_) => Value::from_json_str(&number.to_string()),
    };
    Ok(numbers.map(number).collect::<Result<Vec<_>>>()?.into())
}

/// Limits the number of nodes, because the search is recursive and could overflow the stack.
fn reachable_paths(values: Vec<Value>) -> Result<Value> {
    let nodes = super::memory::size::elements(&values[0]);
    ensure!(nodes <= MAX_NODES, "graph.reachable_paths: more than {MAX_NODES} nodes");
    engine("graph.reachable_paths", &values)
}

/// Merges the objects one at a time, so that the memory limit applies to actual intermediate results instead of a bound
/// for all objects together.
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

fn is_json(values: Vec<Value>) -> Result<Value> {
    Ok(text(&values[0]).is_some_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok()).into())
}

fn from_json(values: Vec<Value>) -> Result<Value> {
    parsed_json("json.unmarshal", &values[0])
}

/// The value of the JSON in `text`; undefined if the JSON is invalid. The engine supports neither numbers beyond 64
/// bits nor lone surrogates, and limits the depth. For valid JSON beyond these limits, the evaluation ends with an
/// error.
fn parsed_json(builtin: &str, text: &Value) -> Result<Value> {
    let texts = [text.clone()];
    let value = engine("json.unmarshal", &texts)?;
    let is_lost = value == Value::Undefined && is_json(texts.into())? == Value::Bool(true);
    ensure!(!is_lost, "{builtin}: a number is too large, a surrogate is alone, or the value is too deep");
    Ok(value)
}

#[cfg(test)]
mod tests;
