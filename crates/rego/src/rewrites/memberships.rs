//! Rewrites `x in xs` as a function call. If `x` or `xs` is undefined, `x in xs` is undefined in OPA, and `false` in
//! the embedded engine.

use anyhow::Result;
use regorus::Value;
use regorus::unstable::Expr;

use super::{after, closed, opened};
use crate::edit::Edit;
use crate::module::Module;

/// The functions of the embedded engine for `value in collection` and for `key, value in collection`.
pub(crate) const MEMBER: &str = "policysync_member";
pub(crate) const MEMBER_WITH_KEY: &str = "policysync_member_3";

/// Whether a collection contains a value.
pub(crate) fn has(values: Vec<Value>) -> Result<Value> {
    let [value, collection] = &values[..] else { return Ok(Value::Undefined) };
    Ok(match collection {
        Value::Array(items) => items.contains(value),
        Value::Set(items) => items.contains(value),
        Value::Object(fields) => fields.iter().any(|(_, found)| found == value),
        _ => false,
    }
    .into())
}

/// Whether a collection has a value at a key. The key of an element of a set is the element.
pub(crate) fn has_at(values: Vec<Value>) -> Result<Value> {
    let [key, value, collection] = &values[..] else { return Ok(Value::Undefined) };
    Ok(match collection {
        Value::Array(_) | Value::Object(_) => collection[key] == *value,
        Value::Set(items) => key == value && items.contains(value),
        _ => false,
    }
    .into())
}

/// The edits that turn `expr` into a call; none if it is not a membership test.
pub(super) fn edits(module: &Module, expr: &Expr) -> Vec<Edit> {
    let Expr::Membership { span, key, value, .. } = expr else { return Vec::new() };
    let function = if key.is_some() { MEMBER_WITH_KEY } else { MEMBER };
    let after_value = closed(module, value.span().end);
    let Some(keyword) = after(&module.text[after_value as usize..], "in") else { return Vec::new() };
    let keyword = after_value + keyword;
    vec![
        Edit::insert(opened(module, span.start), format!("{function}(")),
        Edit { start: keyword, end: keyword + 2, text: ",".to_owned() },
        Edit::insert(closed(module, span.end), ")".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::assert_bodies;

    #[test]
    fn in_expressions_become_calls() {
        assert_bodies(&[
            ("\"a\" in input.x", "policysync_member(\"a\" , input.x)"),
            ("x := (1, 2 in input.x)", "x := (policysync_member_3(1, 2 , input.x))"),
            ("x := [(y) in z]", "x := [policysync_member((y) , z)]"),
            ("x in y in z", "policysync_member(policysync_member(x , y) , z)"),
            ("x # in\n\tin # in\n\ty", "policysync_member(x # in\n\t, # in\n\ty)"),
            ("{\"a\": 1, \"b\": 2} in y", "policysync_member({\"a\": 1, \"b\": 2} , y)"),
            ("some x in y", "some x in y"),
        ]);
    }
}
