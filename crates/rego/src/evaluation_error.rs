//! Kinds of evaluation errors.
//!
//! Messages of an engine quote values of the object under review and of objects in `data`. Readers of Events, reports,
//! statuses, logs and webhook responses may lack the rights to read these objects. So the message only selects a kind
//! from a fixed list, and readers see this kind instead of the message. Messages about modules are
//! [explained](super::engine_message).

use super::builtins;
use super::fault::{Fault, Position};
use super::module::ModuleId;

/// The kind of an evaluation error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EvaluationError {
    /// A rule or a function has two values.
    #[error("conflicting values of a rule or a function")]
    Conflict,
    /// An object would have a key twice, with different values.
    #[error("more than one value for a key of an object")]
    DuplicateKey,
    /// An operand of an operator has the wrong type.
    #[error("operand of the wrong type for {0}")]
    Operand(&'static str),
    /// An argument of a builtin function has the wrong type.
    #[error("argument of the wrong type for {0}")]
    Argument(&'static str),
    /// A builtin function rejected an argument.
    #[error("a builtin function failed")]
    Builtin,
    /// The result of a builtin function would exceed its limit.
    #[error("{0}: the result is above its limit")]
    Limit(&'static str),
    /// A key of a token is too large or not supported.
    #[error("{0}: a key is too large or not supported")]
    Key(&'static str),
    /// A document has a construct of YAML that is not supported.
    #[error("{0}: the document has YAML that is not supported")]
    Yaml(&'static str),
    /// A document of GraphQL exceeds a limit, or has a construct that is not supported.
    #[error("{0}: the document is above a limit, or has GraphQL that is not supported")]
    GraphQl(&'static str),
    /// A regular expression exceeds a limit or is not supported, or the searched text is too long for it.
    #[error("{0}: the pattern is too large or not supported, or the text is too long for it")]
    Pattern(&'static str),
    /// `some … in` over a scalar.
    #[error("some … in needs an array, a set or an object")]
    Collection,
    /// An unbound variable.
    #[error("a variable has no value")]
    Unsafe,
    /// Arithmetic without a result.
    #[error("arithmetic without a result")]
    Arithmetic,
    /// A rule depends on itself.
    #[error("a rule is recursive")]
    Recursion,
    /// The evaluation took too long.
    #[error("the evaluation took too long")]
    Time,
    /// The evaluation took too much memory.
    #[error("the evaluation took too much memory")]
    Memory,
    /// An error of any other kind.
    #[error("the evaluation failed")]
    Other,
}

/// Prefixes of the engine's messages, with the kinds of their errors.
const BEGINNINGS: [(&str, EvaluationError); 16] = [
    ("rules must not produce multiple outputs", EvaluationError::Conflict),
    ("rules should not produce multiple outputs", EvaluationError::Conflict),
    ("complete rules should not produce multiple outputs", EvaluationError::Conflict),
    ("functions must not produce multiple outputs", EvaluationError::Conflict),
    ("function produced multiple outputs", EvaluationError::Conflict),
    ("rule conflicts with rule", EvaluationError::Conflict),
    ("previous value is not", EvaluationError::Conflict),
    ("value for key", EvaluationError::DuplicateKey),
    ("`some .. in collection` expects", EvaluationError::Collection),
    ("var ", EvaluationError::Unsafe),
    ("undefined var", EvaluationError::Unsafe),
    ("division by zero", EvaluationError::Arithmetic),
    ("modulo ", EvaluationError::Arithmetic),
    ("recursion detected", EvaluationError::Recursion),
    ("execution exceeded time limit", EvaluationError::Time),
    ("execution exceeded memory limit", EvaluationError::Memory),
];

/// Names of operators in the engine's messages.
const OPERATORS: [(&str, &str); 8] = [
    ("intersection", "&"),
    ("union", "|"),
    ("difference", "-"),
    ("Add", "+"),
    ("Sub", "-"),
    ("Mul", "*"),
    ("Div", "/"),
    ("Mod", "%"),
];

impl EvaluationError {
    /// The kind of an error of the embedded engine with this message.
    pub(super) fn of_engine(text: &str) -> Self {
        if let Some((name, rest)) = text.strip_prefix('`').and_then(|text| text.split_once('`'))
            && rest.starts_with(" expects ")
        {
            if let Some((_, operator)) = OPERATORS.iter().find(|(word, _)| word.eq_ignore_ascii_case(name)) {
                return Self::Operand(operator);
            }
            if let Some(name) = builtins::name(name) {
                return Self::Argument(name);
            }
        }
        if let Some((_, kind)) = BEGINNINGS.into_iter().find(|(words, _)| text.starts_with(words)) {
            return kind;
        }
        let limited = text.split_once(": ").and_then(|(name, rest)| Some((builtins::name(name)?, rest)));
        match limited {
            Some((name, rest))
                if rest.starts_with("the pattern ") || rest.starts_with("the text has more") =>
            {
                Self::Pattern(name)
            }
            Some((name, rest)) if rest.starts_with("a key ") && !rest.starts_with("a key set ") => {
                Self::Key(name)
            }
            Some((name, rest)) if rest.starts_with("YAML with ") => Self::Yaml(name),
            Some((name, rest)) if rest.starts_with("GraphQL with ") => Self::GraphQl(name),
            Some((name, _)) => Self::Limit(name),
            None => Self::Other,
        }
    }

    /// The kind of an error of OPA with this [code](https://www.openpolicyagent.org/docs/rest-api#errors).
    pub(super) fn of_opa(code: &str) -> Self {
        match code {
            "eval_conflict_error" => Self::Conflict,
            "eval_type_error" | "eval_builtin_error" => Self::Builtin,
            "eval_cancel_error" => Self::Time,
            "rego_unsafe_var_error" => Self::Unsafe,
            "rego_recursion_error" => Self::Recursion,
            _ => Self::Other,
        }
    }

    /// The fault for this error at `place` in `module`.
    pub(super) fn at(self, module: &ModuleId, place: Option<Position>) -> Fault {
        Fault::new(module, place, self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_engine_become_kinds_without_their_values() {
        for (text, expected) in [
            ("rules must not produce multiple outputs", "conflicting values of a rule or a function"),
            (
                "function produced multiple outputs {\"hunter2\"}",
                "conflicting values of a rule or a function",
            ),
            ("rule conflicts with rule at a.rego:1:2", "conflicting values of a rule or a function"),
            (
                "value for key `\"k\"` generated multiple times: `\"hunter2\"` and `\"x\"`",
                "more than one value for a key of an object",
            ),
            (
                "`intersection` expects set argument. Got `\"hunter2\"` instead",
                "operand of the wrong type for &",
            ),
            (
                "`count` expects string argument. Got `hunter2` instead",
                "argument of the wrong type for count",
            ),
            ("`hunter2` expects string argument", "the evaluation failed"),
            ("var t is unsafe (path \"\", scopes [{\"p\": \"hunter2\"}])", "a variable has no value"),
            (
                "`some .. in collection` expects array/set/object. Got `\"hunter2\"`",
                "some … in needs an array, a set or an object",
            ),
            ("units.parse: hunter2 is too long", "units.parse: the result is above its limit"),
            (
                "io.jwt.verify_rs256: a key of RSA has more than 8192 bits",
                "io.jwt.verify_rs256: a key is too large or not supported",
            ),
            (
                "yaml.unmarshal: YAML with tags is not supported",
                "yaml.unmarshal: the document has YAML that is not supported",
            ),
            (
                "graphql.parse: GraphQL with more than 65536 bytes is not supported",
                "graphql.parse: the document is above a limit, or has GraphQL that is not supported",
            ),
            ("io.jwt.decode: a number is too large", "io.jwt.decode: the result is above its limit"),
            ("hunter2: unknown", "the evaluation failed"),
            ("internal error: unexpected ctx.value: hunter2", "the evaluation failed"),
            ("", "the evaluation failed"),
        ] {
            let found = EvaluationError::of_engine(text).to_string();
            assert_eq!(found, expected, "{text}");
            assert!(!found.contains("hunter2"), "{found}");
        }
    }

    #[test]
    fn codes_of_opa_become_kinds() {
        assert_eq!(EvaluationError::of_opa("eval_conflict_error"), EvaluationError::Conflict);
        assert_eq!(EvaluationError::of_opa("eval_builtin_error"), EvaluationError::Builtin);
        assert_eq!(EvaluationError::of_opa("hunter2"), EvaluationError::Other);
    }
}
