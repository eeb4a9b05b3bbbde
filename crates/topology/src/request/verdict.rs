//! Matches a request against regular expressions at a bounded cost.

use std::collections::{BTreeMap, HashMap};

use regex::{Error, Regex, RegexBuilder};

use crate::rows::expressions::is_valid_expression;

/// The maximum size of a compiled expression in bytes.
const SIZE_LIMIT: usize = 1 << 20;
/// The maximum size of the lazy DFA's cache for one expression in bytes.
const STATES_LIMIT: usize = 1 << 18;
/// The maximum number of distinct expressions of one route that are compiled for one request.
const ROUTE_LIMIT: usize = 64;
/// The maximum number of distinct expressions of all routes of one namespace that are compiled for one request.
const NAMESPACE_LIMIT: usize = 512;

/// Whether a match applies to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchResult {
    Yes,
    No,
    Unknown(NotEvaluated),
}

/// The reason why a regular expression was not evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotEvaluated {
    /// The compiled expression takes more than 1 MiB.
    TooLarge,
    /// The expression uses a feature that the engine lacks.
    Unsupported,
    /// 64 other expressions of the same route, or 512 of the same namespace, were evaluated for the request.
    TooMany,
}

impl NotEvaluated {
    /// The reason as text.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::TooLarge => "a regular expression takes more than 1 MiB when compiled",
            Self::Unsupported => "a regular expression uses syntax that policy-sync does not support",
            Self::TooMany => {
                "a request can use at most 64 regular expressions of a route and 512 of a namespace"
            }
        }
    }
}

/// The number of expressions compiled for each namespace.
#[derive(Debug, Default)]
pub(super) struct Budget<'r>(BTreeMap<&'r str, usize>);

/// The expressions of one route.
#[derive(Debug)]
pub(super) struct Expressions<'b> {
    compiled: HashMap<String, Result<Regex, CompileError>>,
    /// The number of expressions compiled for the namespace.
    used: &'b mut usize,
}

/// The reason why an expression has no compiled form.
#[derive(Clone, Copy, Debug)]
enum CompileError {
    /// The expression is invalid: it matches nothing, and the route reports a fault.
    Invalid,
    NotEvaluated(NotEvaluated),
}

/// A regular expression, and values of the request. At least one of the values must match.
pub(super) type ExpressionValues<'c> = (&'c str, Vec<&'c str>);

impl<'r> Budget<'r> {
    /// The expressions of one route of `namespace`.
    pub(super) fn of_route(&mut self, namespace: &'r str) -> Expressions<'_> {
        Expressions { compiled: HashMap::new(), used: self.0.entry(namespace).or_default() }
    }
}

impl Expressions<'_> {
    /// Whether each expression matches one of its values. If one expression does not match, the result is a mismatch,
    /// even if other expressions were not evaluated.
    pub(super) fn match_all(&mut self, comparisons: &[ExpressionValues<'_>]) -> MatchResult {
        let mut verdict = MatchResult::Yes;
        for (expression, values) in comparisons {
            match self.compiled(expression) {
                Ok(regex) if values.iter().any(|value| regex.is_match(value)) => {}
                Ok(_) | Err(CompileError::Invalid) => return MatchResult::No,
                Err(CompileError::NotEvaluated(why)) => verdict = MatchResult::Unknown(why),
            }
        }
        verdict
    }

    fn compiled(&mut self, expression: &str) -> Result<&Regex, CompileError> {
        if !self.compiled.contains_key(expression) {
            if self.compiled.len() >= ROUTE_LIMIT || *self.used >= NAMESPACE_LIMIT {
                return Err(CompileError::NotEvaluated(NotEvaluated::TooMany));
            }
            *self.used += 1;
            self.compiled.insert(expression.to_owned(), compile(expression));
        }
        match self.compiled.get(expression) {
            Some(Ok(regex)) => Ok(regex),
            Some(Err(failed)) => Err(*failed),
            None => Err(CompileError::Invalid),
        }
    }
}

/// Compiles `expression` to match an entire text.
fn compile(expression: &str) -> Result<Regex, CompileError> {
    // Parse the expression alone first: `a)|(b` is invalid, but becomes valid between the anchors.
    if !is_valid_expression(expression) {
        return Err(CompileError::Invalid);
    }
    let whole = format!(r"\A(?:{expression})\z");
    let built = RegexBuilder::new(&whole).size_limit(SIZE_LIMIT).dfa_size_limit(STATES_LIMIT).build();
    built.map_err(|error| {
        CompileError::NotEvaluated(match error {
            Error::CompiledTooBig(_) => NotEvaluated::TooLarge,
            _ => NotEvaluated::Unsupported,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(expressions: &mut Expressions<'_>, expression: &str) -> MatchResult {
        expressions.match_all(&[(expression, vec!["/a"])])
    }

    #[test]
    fn expressions_match_all_of_a_value() {
        let mut budget = Budget::default();
        let mut expressions = budget.of_route("shop");
        assert_eq!(verdict(&mut expressions, "/."), MatchResult::Yes);
        assert_eq!(
            verdict(&mut expressions, "/"),
            MatchResult::No,
            "the expression must match the whole value"
        );
        assert_eq!(
            verdict(&mut expressions, "a)|(/a"),
            MatchResult::No,
            "is not a valid expression on its own"
        );
        assert_eq!(verdict(&mut expressions, "(?!x)"), MatchResult::No, "is reported as a fault");
    }

    #[test]
    fn expression_that_is_too_large_is_not_evaluated() {
        let mut budget = Budget::default();
        let mut expressions = budget.of_route("shop");
        let too_large = MatchResult::Unknown(NotEvaluated::TooLarge);
        assert_eq!(verdict(&mut expressions, r"(\w{10}){20}"), too_large);
        let unsupported = MatchResult::Unknown(NotEvaluated::Unsupported);
        assert_eq!(verdict(&mut expressions, r"\p{NoSuchClass}"), unsupported);
        let comparisons = [(r"(\w{10}){20}", vec!["/a"]), ("/b", vec!["/a"])];
        assert_eq!(
            expressions.match_all(&comparisons),
            MatchResult::No,
            "the other expression does not match"
        );
    }

    #[test]
    fn route_has_64_distinct_expressions_and_a_namespace_512() {
        let mut budget = Budget::default();
        let too_many = MatchResult::Unknown(NotEvaluated::TooMany);
        for route in 0..8 {
            let mut expressions = budget.of_route("shop");
            for number in 0..64 {
                let expression = format!("/[a]{{1,{}}}", number + 1);
                assert_eq!(verdict(&mut expressions, &expression), MatchResult::Yes, "{route}, {number}");
            }
            assert_eq!(verdict(&mut expressions, "/a?"), too_many, "{route}");
            assert_eq!(verdict(&mut expressions, "/[a]{1,1}"), MatchResult::Yes, "one of the 64");
        }
        assert_eq!(verdict(&mut budget.of_route("shop"), "/a"), too_many);
        assert_eq!(verdict(&mut budget.of_route("other"), "/a"), MatchResult::Yes);
    }
}
