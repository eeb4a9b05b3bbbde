//! `walk(x)` with one argument. OPA evaluates it once for each path in `x`; the embedded engine returns an array of them.

use regorus::unstable::Expr;

use super::closed;
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
            ("walk(input, [path, value])", "walk(input, [path, value])"),
            ("lib.walk(input)", "lib.walk(input)"),
        ] {
            let module = |body: &str| format!("package a\nimport rego.v1\np if {{ {body} }}\n");
            assert_eq!(of_text(&module(body)), module(expected));
        }
    }
}
