//! `walk(x)` and `walk(x, pattern)`. OPA evaluates `walk(x)` once for each path in `x`; the embedded engine returns an array of them. The
//! statement `walk(x, pattern)` becomes `walk(x) = pattern`, because the engine's own form binds no variables for assignments.

use regorus::unstable::{Expr, Literal, LiteralStmt};

use super::{after, closed};
use crate::rego::edit::Edit;
use crate::rego::module::{Module, name_of};

/// The name of the embedded engine's function of one argument. The engine treats every call of a function `walk` as one with two.
pub(in crate::rego) const WALK: &str = "policysync_walk";

/// Whether `expr` is a call of `walk` that has several values.
pub(in crate::rego) fn is_generator(expr: &Expr) -> bool {
    matches!(expr, Expr::Call { fcn, params, .. } if name_of(fcn) == Some("walk") && params.len() == 1)
}

/// The edits that turn the call `expr` into `policysync_walk(x)[_]`.
pub(super) fn edits(module: &Module, expr: &Expr) -> Vec<Edit> {
    let Expr::Call { fcn, span, .. } = expr else { return Vec::new() };
    if !is_generator(expr) {
        return Vec::new();
    }
    let name = fcn.span();
    vec![
        Edit { start: name.start, end: name.end, text: WALK.to_owned() },
        Edit::insert(closed(module, span.end), "[_]".to_owned()),
    ]
}

/// The arguments of a `statement` that is a call of `walk` with a pattern.
pub(super) fn with_pattern(statement: &LiteralStmt) -> Option<(&Expr, &Expr)> {
    let Literal::Expr { expr, .. } = &statement.literal else { return None };
    let Expr::Call { fcn, params, .. } = expr.as_ref() else { return None };
    let [value, pattern] = params.as_slice() else { return None };
    (name_of(fcn) == Some("walk")).then_some((value, pattern))
}

/// The edits that turn such a statement into `policysync_walk(x)[_] = pattern`.
pub(super) fn edits_of_statement(module: &Module, statement: &LiteralStmt) -> Vec<Edit> {
    let Some((value, _)) = with_pattern(statement) else { return Vec::new() };
    let Literal::Expr { expr, .. } = &statement.literal else { return Vec::new() };
    let Expr::Call { fcn, span, .. } = expr.as_ref() else { return Vec::new() };
    let after_value = closed(module, value.span().end);
    let Some(comma) = after(&module.text[after_value as usize..], ",") else { return Vec::new() };
    let comma = after_value + comma;
    vec![
        Edit { start: fcn.span().start, end: fcn.span().end, text: WALK.to_owned() },
        Edit { start: comma, end: comma + 1, text: ")[_] =".to_owned() },
        Edit { start: span.end - 1, end: span.end, text: String::new() },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::of_text;

    #[test]
    fn a_walk_with_one_argument_is_evaluated_for_each_path() {
        for (body, expected) in [
            ("[path, value] := walk(input.a)", "[path, value] := policysync_walk(input.a)[_]"),
            ("walk(input.a)[1] == 1", "policysync_walk(input.a)[_][1] == 1"),
            ("some x in walk(f(\n\"a\"\n)); x", "some x in policysync_walk(f(\n\"a\"\n))[_]; x"),
            (
                "x := [v | [_, v] := walk(walk(input)[1])]",
                "x := [v | [_, v] := policysync_walk(policysync_walk(input)[_][1])[_]]",
            ),
            ("walk(input, [path, value])", "policysync_walk(input)[_] = [path, value]"),
            (
                "walk(\n\tinput.a, # ,\n\t[p, \"v\"]\n) with input as {}",
                "policysync_walk(\n\tinput.a)[_] = # ,\n\t[p, \"v\"]\n with input as {}",
            ),
            ("x := [p | walk(input, [p, _])]", "x := [p | policysync_walk(input)[_] = [p, _]]"),
            ("lib.walk(input)", "lib.walk(input)"),
        ] {
            let module = |body: &str| format!("package a\nimport rego.v1\np if {{ {body} }}\n");
            assert_eq!(of_text(&module(body)), module(expected));
        }
    }
}
