//! Builtins for [JSON Schema](https://json-schema.org), with the results of OPA.
//!
//! OPA validates with its fork of [gojsonschema](https://github.com/xeipuuv/gojsonschema), which supports the drafts 4,
//! 6 and 7. Without a known `$schema`, a schema may use the keywords of all three. The modules here follow that
//! library, because the reported errors and their order are part of the result. Where OPA's order is random, because it
//! iterates over a Go map, this crate uses the order of the keys.
//!
//! Existing crates for JSON Schema do not fit: their error messages differ, and they do not limit the steps of a
//! validation. The number of steps grows exponentially with references.

mod decimal;
mod formats;
mod json;
mod parse;
mod references;
mod validate;

use std::collections::BTreeMap;

use anyhow::{Result as Evaluated, anyhow, ensure};
use regorus::Value;

use self::json::Json;
use self::parse::Schema;
use super::{parsed_json, text};
use crate::memory::OverLimit;

/// The maximum nesting of a schema, a document and a validation.
const LEVELS: usize = 128;
/// The maximum number of schemas in a schema. A schema counts for each reference to it, or to an enclosing schema.
const SCHEMAS: usize = 10_000;
/// The maximum number of steps of a validation. A step compares a value with a schema, or scans some bytes of text.
const STEPS: usize = 200_000;

/// Why a schema cannot be parsed, or a document cannot be validated.
#[derive(Debug)]
enum SchemaError {
    /// OPA reports this error.
    Schema(String),
    /// The evaluation ends with this error.
    Evaluation(anyhow::Error),
}

type Result<T> = std::result::Result<T, SchemaError>;

impl SchemaError {
    fn schema(text: impl Into<String>) -> Self {
        Self::Schema(text.into())
    }

    fn unsupported(what: &str) -> Self {
        Self::Evaluation(anyhow!("{what} is not supported in a schema"))
    }
}

impl From<anyhow::Error> for SchemaError {
    fn from(error: anyhow::Error) -> Self {
        Self::Evaluation(error)
    }
}

impl From<OverLimit> for SchemaError {
    fn from(over: OverLimit) -> Self {
        Self::Evaluation(over.into())
    }
}

/// Messages for an argument that is neither a schema nor a document.
const INVALID_TEXT: &str = "invalid JSON string";
const WRONG_TYPE: &str = "wrong type, expected string or object";

/// The schema or the document of an argument: an object, an array, or a JSON text.
fn loaded(builtin: &str, value: &Value) -> Result<Json> {
    let value = match value {
        Value::String(json) => {
            let value = parsed_json(builtin, value)?;
            if value == Value::Undefined {
                return Err(SchemaError::schema(INVALID_TEXT));
            }
            if json::has_odd_number(json) {
                let text = "a number with more than 15 digits, or an integer with a fraction or an exponent, is not supported";
                return Err(anyhow!("{builtin}: {text}").into());
            }
            value
        }
        Value::Array(_) | Value::Object(_) => value.clone(),
        _ => return Err(SchemaError::schema(WRONG_TYPE)),
    };
    Ok(Json::of(builtin, &value, 0)?)
}

/// Names the builtin in an error that ends the evaluation.
fn with_builtin_name(builtin: &str, error: anyhow::Error) -> anyhow::Error {
    let is_named = error.to_string().starts_with(builtin) || error.is::<OverLimit>();
    if is_named { error } else { anyhow!("{builtin}: {error}") }
}

pub(super) fn verify(values: Vec<Value>) -> Evaluated<Value> {
    const NAME: &str = "json.verify_schema";
    match loaded(NAME, &values[0]).and_then(Schema::parse) {
        Ok(_) => Ok(vec![true.into(), Value::Null].into()),
        Err(SchemaError::Schema(error)) => {
            Ok(vec![false.into(), format!("jsonschema: {error}").into()].into())
        }
        Err(SchemaError::Evaluation(error)) => Err(with_builtin_name(NAME, error)),
    }
}

pub(super) fn matches(values: Vec<Value>) -> Evaluated<Value> {
    const NAME: &str = "json.match_schema";
    let validated = || {
        let document = loaded(NAME, &values[0])?;
        let schema = loaded(NAME, &values[1]).and_then(Schema::parse)?;
        schema.validate(&document)
    };
    match validated() {
        Ok(errors) => {
            let is_valid = errors.is_empty();
            let object = |error: validate::ValidationError| -> Value {
                let fields = [
                    ("error", format!("{}: {}", error.field, error.text)),
                    ("type", error.kind.to_owned()),
                    ("field", error.field),
                    ("desc", error.text),
                ];
                fields
                    .into_iter()
                    .map(|(name, text)| (name.into(), text.into()))
                    .collect::<BTreeMap<Value, Value>>()
                    .into()
            };
            let errors: Vec<Value> = errors.into_iter().map(object).collect();
            Ok(vec![is_valid.into(), errors.into()].into())
        }
        Err(SchemaError::Schema(_)) => Ok(Value::Undefined),
        Err(SchemaError::Evaluation(error)) => Err(with_builtin_name(NAME, error)),
    }
}

/// Checks the text of a constant schema when a module is loaded.
///
/// # Errors
///
/// If a call with this schema would end the evaluation.
pub(crate) fn check_constant(builtin: &str, schema: &Value) -> Evaluated<()> {
    ensure!(
        text(schema).is_none_or(|text| text.len() <= 1 << 20),
        "{builtin}: the schema has more than 1 MiB"
    );
    match loaded(builtin, schema).and_then(Schema::parse) {
        Err(SchemaError::Evaluation(error)) => Err(with_builtin_name(builtin, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ends, is, is_undefined};

    #[test]
    fn documents_are_compared_with_schemas() {
        is(
            r#"json.match_schema({"id": "foo"}, {"properties": {"id": {"type": "integer"}}})"#,
            r#"[false, [{"desc": "Invalid type. Expected: integer, given: string", "error": "id: Invalid type. Expected: integer, given: string", "field": "id", "type": "invalid_type"}]]"#,
        );
        is(r#"json.match_schema(`{"id": 5}`, `{"required": ["id"]}`)"#, "[true, []]");
        is(r#"json.verify_schema({"type": "boolean"})"#, "[true, null]");
        is("json.verify_schema(`{`)", r#"[false, "jsonschema: invalid JSON string"]"#);
        is("json.verify_schema(1)", r#"[false, "jsonschema: wrong type, expected string or object"]"#);
        is_undefined("json.match_schema({}, {\"type\": 1})");
        is_undefined("json.match_schema(1, {})");
        is_undefined("json.match_schema(`{`, {})");
    }

    #[test]
    fn constructs_that_are_not_supported_end_the_evaluation() {
        for (schema, error) in [
            (
                r#"{"$ref": "http://json-schema.org/draft-07/schema#"}"#,
                "a reference to the other document http://json-schema.org/draft-07/schema is not supported",
            ),
            (r#"{"$ref": "file:///etc/passwd"}"#, "the reference \"file:///etc/passwd\" is not supported"),
            (r##"{"$ref": "#/a%20b"}"##, "the reference \"#/a%20b\" is not supported"),
            (r#"{"$id": "../a"}"#, "the reference \"../a\" is not supported"),
            (
                r#"`{"minimum": 2.0}`"#,
                "json.verify_schema: a number with more than 15 digits, or an integer with a fraction or an exponent, is not supported",
            ),
            (r#"{"pattern": "(?P<a>x)(?P<a>y)"}"#, "is not supported"),
        ] {
            ends(&format!("json.verify_schema({schema})"), error);
        }
        ends(
            r#"json.match_schema({"a": "a <b@c>"}, {"properties": {"a": {"format": "email"}}})"#,
            "json.match_schema: an email address with one of",
        );
        ends(
            r##"json.match_schema({}, {"$ref": "#"})"##,
            "json.match_schema: a reference to itself is not supported",
        );
    }

    #[test]
    fn schemas_and_validations_have_limits() {
        let doubled = |last: usize| {
            format!(
                "object.union({{\"x{last}\": {{}}}}, {{sprintf(\"x%d\", [i]): {{\"allOf\": [{{\"$ref\": r}}, {{\"$ref\": r}}]}} | some i in numbers.range(0, {}); r := sprintf(\"#/d/x%d\", [i + 1])}})",
                last - 1
            )
        };
        let schema = |last: usize| format!("{{\"$ref\": \"#/d/x0\", \"d\": {}}}", doubled(last));
        is(&format!("json.match_schema({{}}, {})", schema(10)), "[true, []]");
        ends(
            &format!("json.match_schema({{}}, {})", schema(30)),
            "the validation takes more than 200000 steps",
        );
        ends(
            &format!("json.match_schema({{}}, {})", schema(200)),
            "a chain of more than 128 schemas and references",
        );
        let list = |count: usize| format!("[{{}} | some i in numbers.range(1, {count})]");
        is(&format!("json.verify_schema({{\"allOf\": {}}})", list(9_000)), "[true, null]");
        ends(
            &format!("json.verify_schema({{\"allOf\": {}}})", list(10_000)),
            "more than 10000 schemas and references",
        );
        let nested = |depth: usize| format!("`{}{}`", "[".repeat(depth), "]".repeat(depth));
        let itself = "{\"items\": {\"$ref\": \"#\"}}";
        is(&format!("json.match_schema({}, {itself})", nested(100)), "[true, []]");
        ends(&format!("json.match_schema({}, {itself})", nested(200)), "the value is too deep");
    }
}
