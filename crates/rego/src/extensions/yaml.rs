//! Builtins for YAML, with the results of OPA, which uses [go-yaml](https://pkg.go.dev/go.yaml.in/yaml/v3).

mod plain;
mod read;
mod write;

use anyhow::{Result, bail};
use regorus::Value;

pub(crate) use self::plain::{Plain, is_time, resolve};
pub(crate) use self::read::{Content, Error, Node, single};
use super::corrections::json_marshal;
use super::text;

/// Parses `text`; `None` if it is invalid.
fn read(builtin: &str, text: &str) -> Result<Option<Value>> {
    match read::document(text) {
        Ok(value) => Ok(Some(value)),
        Err(Error::Invalid) => Ok(None),
        Err(Error::Unsupported(what)) => bail!("{builtin}: YAML with {what} is not supported"),
        Err(Error::Memory(over)) => Err(over.into()),
    }
}

pub(super) fn unmarshal(values: Vec<Value>) -> Result<Value> {
    let Some(text) = text(&values[0]) else { return Ok(Value::Undefined) };
    Ok(read("yaml.unmarshal", text)?.unwrap_or(Value::Undefined))
}

pub(super) fn is_valid(values: Vec<Value>) -> Result<Value> {
    let Some(text) = text(&values[0]) else { return Ok(false.into()) };
    Ok(read("yaml.is_valid", text)?.is_some().into())
}

pub(super) fn marshal(values: Vec<Value>) -> Result<Value> {
    let json = json_marshal(values)?;
    let Some(json) = text(&json) else { return Ok(Value::Undefined) };
    let Ok(value) = serde_json::from_str(json) else {
        bail!("yaml.marshal: YAML with more than 100 levels is not supported")
    };
    match write::document(&value) {
        Ok(text) => Ok(text.into()),
        Err(write::Error::Invalid) => Ok(Value::Undefined),
        Err(write::Error::Unsupported) => {
            bail!("yaml.marshal: YAML with line breaks of Unicode is not supported")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ends, is, is_undefined};

    #[test]
    fn documents_are_read_as_in_opa() {
        is(
            r#"yaml.unmarshal("a: [1, 0x1f, 1.5, yes, true, ~, 2001-01-01]\nb: |\n  c\n")"#,
            r#"{"a": [1, 31, 1.5, "yes", true, null, "2001-01-01"], "b": "c\n"}"#,
        );
        is(r#"yaml.unmarshal("a: &x {b: 1}\nc: *x\n")"#, r#"{"a": {"b": 1}, "c": {"b": 1}}"#);
        is(r#"yaml.unmarshal("1: a\n1.5: b\ntrue: c\n")"#, r#"{"1": "a", "1.5": "b", "true": "c"}"#);
        is(r#"yaml.unmarshal("a: 1\na: 2\n")"#, r#"{"a": 2}"#);
        is(r#"yaml.unmarshal("a: 1\n---\nb: 2\n")"#, r#"{"a": 1}"#);
        is(r#"yaml.unmarshal("")"#, "null");
        for invalid in ["a: [", "~: a", "a: .nan", "&a [*a]", "a: b: c", "\\tb: 2"] {
            is_undefined(&format!("yaml.unmarshal(\"{invalid}\")"));
            is(&format!("yaml.is_valid(\"{invalid}\")"), "false");
        }
        is_undefined("yaml.unmarshal(1)");
        is("yaml.is_valid(1)", "false");
    }

    #[test]
    fn constructs_that_are_not_supported_end_the_evaluation() {
        for (text, what) in [
            ("!!str 1", "tags"),
            ("a: {<<: {b: 1}}", "merge keys"),
            ("&a [*b]", "anchors and aliases"),
            ("%YAML 1.1\\n---\\na: 1", "directives"),
            ("|\\n a", "block scalars at the root"),
            ("a:\\tb", "tabs"),
            ("a: b\\u0085", "line breaks of Unicode"),
        ] {
            ends(
                &format!("yaml.unmarshal(\"{text}\")"),
                &format!("yaml.unmarshal: YAML with {what} is not supported"),
            );
        }
    }

    #[test]
    fn nesting_and_aliases_have_limits() {
        is("yaml.is_valid(concat(\"\", [\"[\" | some i in numbers.range(1, 100)]))", "false");
        ends(
            "yaml.is_valid(concat(\"\", array.concat([\"[\" | some i in numbers.range(1, 150)], [\"]\" | some i in numbers.range(1, 150)])))",
            "yaml.is_valid: YAML with more than 100 levels is not supported",
        );
        // As in OPA, aliases may account only for a part of a large document.
        let lists = (1..9)
            .map(|i| format!("x{i}: &x{i} [*x{0}, *x{0}, *x{0}, *x{0}, *x{0}, *x{0}, *x{0}, *x{0}]", i - 1));
        let bomb = format!("x0: &x0 a\\n{}", lists.collect::<Vec<_>>().join("\\n"));
        is(&format!("yaml.is_valid(\"{bomb}\")"), "false");
    }

    #[test]
    fn documents_are_written_as_in_opa() {
        is(
            r#"yaml.marshal({"b": [1, {"c": [], "d": {}}], "a10": "yes", "a9": "a: b", "x": "1\n2"})"#,
            r#""a9: 'a: b'\na10: \"yes\"\nb:\n  - 1\n  - c: []\n    d: {}\nx: |-\n  1\n  2\n""#,
        );
        is("yaml.marshal(1)", r#""1\n""#);
        is_undefined("yaml.marshal(\"\\u007f\")");
        ends("yaml.marshal(\"\\u2028\")", "yaml.marshal: YAML with line breaks of Unicode is not supported");
    }
}
