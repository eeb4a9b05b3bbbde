//! Rewrites `walk(x)` and `walk(x, pattern)`. OPA evaluates `walk(x)` once for each path in `x`; the embedded engine
//! returns an array of all paths and values. The statement `walk(x, pattern)` becomes `walk(x) = pattern`. If the
//! engine itself evaluated `walk(x, pattern)`, assignments could not use the variables of the pattern.

use regorus::unstable::{Expr, Literal, LiteralStmt, Ref};

use super::closed;
use super::outputs::last_argument_moved;
use crate::edit::Edit;
use crate::module::{Module, name_of};
use crate::tree;

/// The name of the embedded engine's function with one argument. The engine treats every call of a function named
/// `walk` as a call with two arguments.
pub(crate) const WALK: &str = "policysync_walk";

/// The arguments of `expr` if it is a call of `walk`.
pub(crate) fn walked(expr: &Expr) -> Option<&[Ref<Expr>]> {
    let Expr::Call { fcn, params, .. } = expr else { return None };
    (name_of(fcn) == Some("walk")).then_some(params.as_slice())
}

/// Whether `expr` is a call of `walk` that has several values.
pub(crate) fn is_generator(expr: &Expr) -> bool {
    walked(expr).is_some_and(|arguments| arguments.len() == 1)
}

/// The edits that turn the call `expr` into `policysync_walk(x)[_]`.
pub(super) fn edits(module: &Module, expr: &Expr) -> Vec<Edit> {
    if !is_generator(expr) {
        return Vec::new();
    }
    vec![renamed(expr), Edit::insert(closed(module, expr.span().end), "[_]".to_owned())]
}

/// The edit of the name in the call `expr`.
fn renamed(expr: &Expr) -> Edit {
    let name = tree::start(expr);
    Edit { start: name.start, end: name.end, text: WALK.to_owned() }
}

/// The call and its two arguments, if `statement` is a call of `walk` with a pattern.
pub(super) fn with_pattern(statement: &LiteralStmt) -> Option<(&Expr, &Expr, &Expr)> {
    let Literal::Expr { expr, .. } = &statement.literal else { return None };
    let [value, pattern] = walked(expr)? else { return None };
    Some((expr, value, pattern))
}

/// The edits that turn the statement `walk(x, pattern)` into `policysync_walk(x)[_] = pattern`.
pub(super) fn edits_of_statement(module: &Module, statement: &LiteralStmt) -> Vec<Edit> {
    let Some((call, value, pattern)) = with_pattern(statement) else { return Vec::new() };
    let moved = last_argument_moved(module, call, value, pattern, ")[_] =");
    if moved.is_empty() { moved } else { [renamed(call)].into_iter().chain(moved).collect() }
}

#[cfg(test)]
mod tests {
    use super::super::assert_bodies;

    #[test]
    fn a_walk_with_one_argument_is_evaluated_for_each_path() {
        assert_bodies(&[
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
        ]);
    }
}
