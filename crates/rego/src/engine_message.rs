//! Translates the embedded engine's messages about modules: each translation names the construct and a remedy. Unknown
//! messages are dropped, because they may describe internals of the engine.

use std::borrow::Cow;

use super::builtins;
use super::evaluation_error::EvaluationError;
use super::module::{LONG_LINE, NO_VALUE};

/// The fault of a rule that adds elements to a set and has `else` or a second body.
pub(super) const ELSE_OF_SET: &str = "a rule that adds to a set cannot have else: write another rule";

/// The replacement of unknown messages.
const OTHER: &str =
    "the embedded engine does not support this: write it in another way, or evaluate with OPA (--opa-url)";

/// Prefixes of messages and their replacements. The first match is used.
const MESSAGES: &[(&str, &str)] = &[
    ("expecting `package`", "a module must begin with its package: write package NAME first"),
    ("expecting identifier", "expected a name"),
    ("expecting expression", "expected an expression"),
    ("expecting EOF", "expected the end of the text"),
    (
        "invalid character in string",
        "a control character in a string: write \\t or \\n, or put the string into backquotes",
    ),
    ("invalid character", "a character that is not allowed in Rego"),
    ("invalid whitespace", "unexpected whitespace: remove it"),
    (
        "invalid escape sequence",
        "invalid escape in a string: double the backslash, or put the string into backquotes",
    ),
    ("invalid hex escape sequence", "invalid escape in a string: write four hexadecimal digits after \\u"),
    ("invalid number. serde_json cannot parse number: out of range", "a number beyond 64-bit floating point"),
    ("invalid number", "invalid number"),
    ("could not parse number", "invalid number"),
    ("unmatched", "the string does not end"),
    (
        "`if` keyword is required",
        "Rego version 1 requires if before a body: write if, or the whole module in version 0",
    ),
    (
        "`contains` keyword is required",
        "Rego version 1 requires contains before the element of a set: write contains, or the whole module in version 0",
    ),
    ("rule must have a body or assignment", NO_VALUE),
    ("else cannot be used with set rules", ELSE_OF_SET),
    ("repeating parameter name", "two parameters have the same name"),
    ("input cannot be shadowed", "a variable cannot have the name input"),
    ("data cannot be shadowed", "a variable cannot have the name data"),
    ("line exceeds maximum column width", LONG_LINE),
    ("data must be object", "data must be an object"),
    ("expression nesting too deep", "more than 32 nested expressions: assign some to variables"),
    ("import path must begin", "only data, input, rego.v1 and future.keywords can be imported"),
    ("previous value is not", "conflicting values of a rule or a function"),
    ("invalid future keyword", "future.keywords has no such keyword"),
    ("invalid import", "only data, input, rego.v1 and future.keywords can be imported"),
    ("invalid ref in import", "only data, input, rego.v1 and future.keywords can be imported"),
    ("invalid some-decl", "some has names, or names and a collection after in"),
    (
        "duplicated definition of local variable",
        "a variable is declared twice: give one of them another name",
    ),
    (
        "statements not scheduled",
        "the statements of this body have no order in which each variable has a value: assign parts of patterns first",
    ),
    ("could not find function", "unknown function"),
    ("mismatch in number of arguments", "wrong number of arguments"),
    ("not a valid target for with modifier", "with can only replace input, data or a function"),
    ("invalid `", "a default value cannot have variables, references or calls"),
    ("multiple default rules", "a rule can have only one default value"),
];

/// The `message` of the engine, without its place.
pub(super) fn explained(message: &str) -> Cow<'_, str> {
    if message.split_once(": ").is_some_and(|(name, _)| builtins::name(name).is_some()) {
        // The message comes from a builtin of `extensions` and stays unchanged.
        return message.into();
    }
    if message.starts_with("rule conflicts with rule at ") {
        // The message has a place and quotes no values.
        return message.into();
    }
    if let Some(name) = variable(message) {
        let what = if message.ends_with(" is unsafe") || message.contains(" is unsafe (") {
            "is unsafe: no statement gives it a value"
        } else {
            "is used before its definition"
        };
        return format!("variable {name} {what}").into();
    }
    let kind = EvaluationError::of_engine(message);
    if kind != EvaluationError::Other {
        return kind.to_string().into();
    }
    if let Some((_, text)) = MESSAGES.iter().find(|(beginning, _)| message.starts_with(beginning)) {
        return (*text).into();
    }
    if let Some(token) = token(message, "expecting ") {
        let text = format!("expected {token}: a construct is not closed, or two statements are on one line");
        return text.into();
    }
    if let Some(keyword) = token(message, "unexpected keyword ") {
        return format!("unexpected keyword {keyword}: a name cannot be a keyword").into();
    }
    OTHER.into()
}

/// The variable that a message names: ``var `x` used before definition below.``, ``use of undefined variable `x` is
/// unsafe`` or `var x is unsafe (path …)`.
fn variable(message: &str) -> Option<&str> {
    let name = message.strip_prefix("use of undefined variable ").or_else(|| message.strip_prefix("var "))?;
    let name = name.split(' ').next()?.trim_matches('`');
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && !name.is_empty()).then_some(name)
}

/// The token after `beginning`, which may be in backquotes.
fn token<'m>(message: &'m str, beginning: &str) -> Option<&'m str> {
    let rest = message.strip_prefix(beginning)?;
    let token = match rest.strip_prefix('`') {
        Some(quoted) => quoted.split('`').next()?,
        None => rest.split(' ').next()?,
    };
    (!token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_construct_and_a_remedy() {
        for (message, expected) in [
            (
                "expecting `}` while parsing query",
                "expected }: a construct is not closed, or two statements are on one line",
            ),
            ("expecting }", "expected }: a construct is not closed, or two statements are on one line"),
            ("expecting identifier. Failed to parse rule-ref.", "expected a name"),
            ("unexpected keyword `some`", "unexpected keyword some: a name cannot be a keyword"),
            ("var `x` used before definition below.", "variable x is used before its definition"),
            (
                "use of undefined variable `x` is unsafe",
                "variable x is unsafe: no statement gives it a value",
            ),
            (
                "var x is unsafe (path [\"a\", \"x\"], scopes [{\"k\": String(\"hunter2\")}])",
                "variable x is unsafe: no statement gives it a value",
            ),
            ("rules must not produce multiple outputs", "conflicting values of a rule or a function"),
            ("numbers.range: more than 100000 elements", "numbers.range: more than 100000 elements"),
            ("hunter2: more than 100000 elements", OTHER),
            ("internal error: make: not an object hunter2", OTHER),
            ("", OTHER),
        ] {
            assert_eq!(explained(message), expected, "{message}");
        }
    }
}
