//! Upper bounds for the memory that builtins allocate, derived from the arguments before the call.
//!
//! The bounds include copies of a result while it grows, and arguments of the wrong type, which the engine quotes in
//! its error. For some builtins, such as matches of a regular expression, a bound for the whole result would be far
//! above what most calls allocate. For such builtins, the engine compares the memory with the limit at each element, so
//! the bound covers only one element.
//!
//! Most functions here and in the submodules return the bound for one kind of builtin, in bytes. Their comments list
//! the values that the bound covers.

mod documents;
mod texts;

use regorus::Value;

use documents::{
    copied_paths, graphql, json, patch, pretty_json, read_yaml, schemas, union, walk, written_yaml,
};
use texts::{
    FORMATTED, cased, certificates, concat, constrained_token, digest, encoded, encoded_object, glob,
    intersection, lossy, networks, parameters, pattern, replaced, replaced_matches, replacements, split,
    sprintf, text, texts, time, token, token_and_keys, uri, uuid,
};

use crate::memory::LIMIT;
use crate::memory::size::{ELEMENT, copied, digits, elements, written};

/// The bytes to allocate for each byte of a text or vector that grows. During a copy, the old allocation exists
/// together with a new one of twice the size.
const GROWTH: usize = 3;
/// The number of copies of an argument that exist while the engine formats an error about it.
const ERROR: usize = 4;

/// The number of bytes that a builtin allocates for these arguments; `None` above the limit.
type MemoryBound = fn(&[Value]) -> Option<usize>;

/// The name, the argument types and the memory bound of a builtin.
///
/// The types have one letter for each argument: `s` text, `n` number, `a` array, `t` set, `c` array or set, `x` text,
/// array or set, `o` object. `*` is a value of any type, so the bound includes no error about its type.
type BoundRule = (&'static str, &'static str, MemoryBound);

#[rustfmt::skip]
const RULES: &[BoundRule] = &[
    ("__builtin_sets.intersection", "tt", both_collections),
    ("__builtin_sets.union", "tt", both_collections),
    ("abs", "n", number),
    ("all", "*", nothing),
    ("any", "*", nothing),
    ("array.concat", "aa", both_collections),
    ("array.flatten", "*", flattened),
    ("array.reverse", "a", collection),
    ("array.slice", "ann", collection),
    ("base64.decode", "*", lossy),
    ("base64.encode", "s", text),
    ("base64.is_valid", "s", lossy),
    ("base64url.decode", "s", lossy),
    ("base64url.encode", "s", text),
    ("base64url.encode_no_pad", "s", text),
    ("bits.and", "nn", number),
    ("bits.lsh", "nn", shifted),
    ("bits.negate", "n", number),
    ("bits.or", "nn", number),
    ("bits.rsh", "nn", number),
    ("bits.xor", "nn", number),
    ("cast_array", "*", collection),
    ("cast_boolean", "*", nothing),
    ("cast_null", "*", nothing),
    ("cast_object", "*", nothing),
    ("cast_set", "*", collection),
    ("cast_string", "*", nothing),
    ("ceil", "n", number),
    ("concat", "sc", concat),
    ("contains", "ss", nothing),
    ("count", "*", nothing),
    ("crypto.hmac.equal", "**", nothing),
    ("crypto.hmac.md5", "**", digest),
    ("crypto.hmac.sha1", "**", digest),
    ("crypto.hmac.sha256", "**", digest),
    ("crypto.hmac.sha512", "**", digest),
    ("crypto.md5", "*", digest),
    ("crypto.parse_private_keys", "*", certificates),
    ("crypto.sha1", "*", digest),
    ("crypto.sha256", "*", digest),
    ("crypto.x509.parse_and_verify_certificates", "*", certificates),
    ("crypto.x509.parse_and_verify_certificates_with_options", "**", certificates),
    ("crypto.x509.parse_certificate_request", "*", certificates),
    ("crypto.x509.parse_certificates", "*", certificates),
    ("crypto.x509.parse_keypair", "**", certificates),
    ("crypto.x509.parse_rsa_private_key", "*", certificates),
    ("endswith", "ss", nothing),
    ("floor", "n", number),
    ("format_int", "nn", formatted_number),
    ("glob.match", "***", glob),
    ("glob.quote_meta", "s", pattern),
    ("graph.reachable", "o*", collections),
    ("graph.reachable_paths", "o*", copies),
    ("graphql.is_valid", "**", graphql),
    ("graphql.parse", "**", graphql),
    ("graphql.parse_and_verify", "**", graphql),
    ("graphql.parse_query", "*", graphql),
    ("graphql.parse_schema", "*", graphql),
    ("graphql.schema_is_valid", "*", graphql),
    ("hex.decode", "s", lossy),
    ("hex.encode", "s", text),
    ("indexof", "ss", nothing),
    ("indexof_n", "ss", nothing),
    ("internal.template_string", "*", copies),
    ("intersection", "t", collections_of_first),
    ("io.jwt.decode", "*", token),
    ("io.jwt.decode_verify", "**", constrained_token),
    ("io.jwt.verify_eddsa", "**", token_and_keys),
    ("io.jwt.verify_es256", "**", token_and_keys),
    ("io.jwt.verify_es384", "**", token_and_keys),
    ("io.jwt.verify_es512", "**", token_and_keys),
    ("io.jwt.verify_hs256", "**", token),
    ("io.jwt.verify_hs384", "**", token),
    ("io.jwt.verify_hs512", "**", token),
    ("io.jwt.verify_ps256", "**", token_and_keys),
    ("io.jwt.verify_ps384", "**", token_and_keys),
    ("io.jwt.verify_ps512", "**", token_and_keys),
    ("io.jwt.verify_rs256", "**", token_and_keys),
    ("io.jwt.verify_rs384", "**", token_and_keys),
    ("io.jwt.verify_rs512", "**", token_and_keys),
    ("is_array", "*", nothing),
    ("is_boolean", "*", nothing),
    ("is_null", "*", nothing),
    ("is_number", "*", nothing),
    ("is_object", "*", nothing),
    ("is_set", "*", nothing),
    ("is_string", "*", nothing),
    ("json.filter", "o*", copied_paths),
    ("json.is_valid", "*", text),
    ("json.marshal", "*", json),
    ("json.marshal_with_options", "*o", pretty_json),
    ("json.match_schema", "**", schemas),
    ("json.patch", "*a", patch),
    ("json.remove", "o*", copied_paths),
    ("json.unmarshal", "s", text),
    ("json.verify_schema", "*", schemas),
    ("lower", "s", cased),
    ("max", "c", nothing),
    ("min", "c", nothing),
    ("net.cidr_contains", "**", nothing),
    ("net.cidr_contains_matches", "**", both_collections),
    ("net.cidr_expand", "*", nothing),
    ("net.cidr_intersects", "**", nothing),
    ("net.cidr_is_valid", "*", nothing),
    ("net.cidr_merge", "*", networks),
    ("net.cidr_overlap", "**", nothing),
    ("numbers.range", "nn", number),
    ("numbers.range_step", "nnn", number),
    ("object.filter", "o*", collections),
    ("object.get", "o**", nothing),
    ("object.keys", "o", collection),
    ("object.remove", "o*", collections),
    ("object.subset", "**", collections),
    ("object.union", "oo", union),
    ("object.union_n", "a", collection),
    ("policysync_constant", "*", nothing),
    ("policysync_divisor", "*", nothing),
    ("policysync_member", "**", nothing),
    ("policysync_member_3", "***", nothing),
    ("policysync_walk", "*", walk),
    ("product", "c", numbers),
    ("re_match", "ss", pattern),
    ("regex.find_all_string_submatch_n", "ssn", pattern),
    ("regex.find_n", "ssn", pattern),
    ("regex.globs_match", "**", intersection),
    ("regex.is_valid", "s", pattern),
    ("regex.match", "ss", pattern),
    ("regex.replace", "sss", replaced_matches),
    ("regex.split", "ss", pattern),
    ("regex.template_match", "ssss", pattern),
    ("replace", "sss", replaced),
    ("round", "n", number),
    ("semver.compare", "ss", texts),
    ("semver.is_valid", "*", texts),
    ("set_diff", "tt", both_collections),
    ("sort", "c", collection),
    ("split", "ss", split),
    ("sprintf", "sa", sprintf),
    ("startswith", "ss", nothing),
    ("strings.any_prefix_match", "xx", both_collections),
    ("strings.any_suffix_match", "xx", both_collections),
    ("strings.count", "ss", nothing),
    ("strings.replace_n", "**", replacements),
    ("strings.reverse", "s", text),
    ("strings.split_n", "***", split),
    ("substring", "snn", text),
    ("sum", "c", numbers),
    ("time.add_date", "nnnn", nothing),
    ("time.clock", "*", time),
    ("time.date", "*", time),
    ("time.diff", "**", time),
    ("time.format", "*", time),
    ("time.now_ns", "", nothing),
    ("time.parse_duration_ns", "s", texts),
    ("time.parse_ns", "ss", texts),
    ("time.parse_rfc3339_ns", "s", texts),
    ("time.weekday", "*", time),
    ("to_number", "*", texts),
    ("trace", "s", nothing),
    ("trim", "ss", text),
    ("trim_left", "ss", text),
    ("trim_prefix", "ss", text),
    ("trim_right", "ss", text),
    ("trim_space", "s", text),
    ("trim_suffix", "ss", text),
    ("type_name", "*", nothing),
    ("union", "t", collections_of_first),
    ("units.parse", "s", text),
    ("units.parse_bytes", "s", text),
    ("upper", "s", cased),
    ("uri.is_valid", "*", uri),
    ("uri.parse", "*", uri),
    ("urlquery.decode", "*", lossy),
    ("urlquery.decode_object", "*", parameters),
    ("urlquery.encode", "*", encoded),
    ("urlquery.encode_object", "*", encoded_object),
    ("uuid.parse", "*", uuid),
    ("walk", "*", walk),
    ("yaml.is_valid", "*", read_yaml),
    ("yaml.marshal", "*", written_yaml),
    ("yaml.unmarshal", "*", read_yaml),
];

/// The maximum number of bytes that this builtin allocates; `None` above the limit.
///
/// For a builtin without a rule, for example from a later version of the engine, the bound assumes several copies of
/// all arguments as text.
pub(super) fn of(name: &str) -> impl Fn(&[Value]) -> Option<usize> + Copy + Send + Sync + 'static {
    let rule = rule(name);
    move |values| {
        let Some((_, takes, need)) = rule else { return copies(values) };
        let of_other_types = values.iter().zip(takes.chars()).filter(|(value, takes)| !is(value, *takes));
        let mut errors = 0_usize;
        for (value, _) in of_other_types {
            errors = errors.saturating_add(written(value, LIMIT)?.saturating_mul(ERROR));
        }
        Some(need(values)?.saturating_add(errors))
    }
}

fn rule(name: &str) -> Option<&'static BoundRule> {
    RULES.binary_search_by_key(&name, |(name, ..)| *name).ok().map(|at| &RULES[at])
}

fn is(value: &Value, takes: char) -> bool {
    match value {
        Value::String(_) => "sx*".contains(takes),
        Value::Number(_) => "n*".contains(takes),
        Value::Array(_) => "acx*".contains(takes),
        Value::Set(_) => "tcx*".contains(takes),
        Value::Object(_) => "o*".contains(takes),
        Value::Null | Value::Bool(_) | Value::Undefined => true,
    }
}

fn nothing(_: &[Value]) -> Option<usize> {
    Some(0)
}

/// The bytes for copies of all arguments, and for their texts in an error.
fn copies(values: &[Value]) -> Option<usize> {
    let copies = values.iter().map(|value| copied(value, LIMIT)).sum::<Option<usize>>()?;
    Some(copies.saturating_mul(FORMATTED))
}

fn length(value: Option<&Value>) -> usize {
    match value {
        Some(Value::String(text)) => text.len(),
        _ => 0,
    }
}

/// The bytes to allocate for a text that grows to this length.
fn grown(bytes: usize) -> Option<usize> {
    Some(bytes.saturating_mul(GROWTH))
}

/// The bytes to allocate for collections with this total number of elements.
fn listed(elements: usize) -> Option<usize> {
    Some(elements.saturating_mul(ELEMENT).saturating_mul(2))
}

fn number(values: &[Value]) -> Option<usize> {
    grown(values.iter().map(digits).sum())
}

/// The bytes for a shifted number. `super::SHIFT` limits the shift.
fn shifted(values: &[Value]) -> Option<usize> {
    Some(number(values)?.saturating_add(super::SHIFT as usize))
}

/// The bytes for a number in any base. In base two, each decimal digit becomes up to four digits.
fn formatted_number(values: &[Value]) -> Option<usize> {
    Some(number(values)?.saturating_mul(4))
}

/// The bytes for the sum or the product of a collection.
fn numbers(values: &[Value]) -> Option<usize> {
    let sum = match values.first() {
        Some(Value::Array(items)) => items.iter().map(digits).fold(0, usize::saturating_add),
        Some(Value::Set(items)) => items.iter().map(digits).fold(0, usize::saturating_add),
        _ => 0,
    };
    // The first element that is not a number ends the call with an error, which quotes the element.
    let odd = match values.first() {
        Some(Value::Array(items)) => items.iter().find(|item| !is(item, 'n')),
        Some(Value::Set(items)) => items.iter().find(|item| !is(item, 'n')),
        _ => None,
    };
    let error = odd.map_or(Some(0), |odd| written(odd, LIMIT))?.saturating_mul(ERROR);
    Some(grown(sum)?.saturating_add(error))
}

fn collection(values: &[Value]) -> Option<usize> {
    listed(values.first().map_or(0, elements))
}

/// The bytes for a flattened array: the elements of the nested arrays, and the other elements.
fn flattened(values: &[Value]) -> Option<usize> {
    let Some(Value::Array(items)) = values.first() else { return Some(0) };
    let nested = items.iter().filter_map(|item| item.as_array().ok()).map(|items| items.len());
    listed(items.len().saturating_add(nested.fold(0, usize::saturating_add)))
}

fn both_collections(values: &[Value]) -> Option<usize> {
    listed(values.iter().map(elements).sum())
}

/// The bytes for the first collection, and for the other arguments, which an error may quote.
fn collections(values: &[Value]) -> Option<usize> {
    let others = values.iter().skip(1).map(|value| copied(value, LIMIT)).sum::<Option<usize>>()?;
    Some(collection(values)?.saturating_add(others.saturating_mul(ERROR)))
}

/// The bytes for the union of the collections in a set. If an element of that set is not a collection, the call ends
/// with an error that contains all elements.
fn collections_of_first(values: &[Value]) -> Option<usize> {
    let Some(Value::Set(sets)) = values.first() else { return Some(0) };
    let error = if sets.iter().all(|set| set.as_set().is_ok()) { 0 } else { written(&values[0], LIMIT)? };
    let all = sets.iter().map(elements).fold(0, usize::saturating_add);
    Some(listed(all)?.saturating_add(error.saturating_mul(ERROR)))
}

#[cfg(test)]
mod tests;
