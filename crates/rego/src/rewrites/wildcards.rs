//! Replaces `_` as a side of `=`. There, `_` matches any value in OPA, but the embedded engine does not bind it. In the
//! new text, the other side is assigned to a variable.

use regorus::unstable::{AssignOp, Expr, Literal, LiteralStmt};

use super::{after, closed, start};
use crate::edit::Edit;
use crate::module::{Module, name_of};

/// The prefix of variables that replace `_`.
const ANY: &str = "policysync_any";

/// A variable for the `_` at the place of `expr`. The offset of `expr` makes the name unique in a module.
pub(super) fn named(expr: &Expr) -> String {
    format!("{ANY}_{}", expr.span().start)
}

/// The variable for `expr`, a side of `=`, if it is `_`.
fn name(expr: &Expr) -> Option<String> {
    (name_of(expr) == Some("_")).then(|| named(expr))
}

/// The variable for the `_` in the unification `expr`, and the other side.
pub(super) fn assigned(expr: &Expr) -> Option<(String, &Expr)> {
    let Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } = expr else { return None };
    name(lhs).map(|name| (name, rhs.as_ref())).or_else(|| Some((name(rhs)?, lhs.as_ref())))
}

/// The edits of a `statement` that is a unification with `_`.
pub(super) fn edits(module: &Module, statement: &LiteralStmt) -> Vec<Edit> {
    let Literal::Expr { expr, .. } = &statement.literal else { return Vec::new() };
    let (Some((name, _)), Expr::AssignExpr { lhs, rhs, .. }) = (assigned(expr), expr.as_ref()) else {
        return Vec::new();
    };
    let end = closed(module, lhs.span().end);
    let Some(operator) = after(&module.text[end as usize..], "=") else { return Vec::new() };
    let operator = end + operator;
    if name_of(lhs) == Some("_") {
        let lhs = lhs.span();
        return vec![
            Edit { start: lhs.start, end: lhs.end, text: name },
            Edit { start: operator, end: operator + 1, text: ":=".to_owned() },
        ];
    }
    vec![
        Edit::insert(start(module, lhs), format!("{name} := ")),
        Edit { start: operator, end: operator + 1, text: String::new() },
        Edit { start: rhs.span().start, end: rhs.span().end, text: String::new() },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::assert_bodies;

    #[test]
    fn wildcard_beside_an_equals_sign_gets_a_name() {
        assert_bodies(&[
            ("input.a[_] = _", "policysync_any_45 := input.a[_]  "),
            ("_ = input.a", "policysync_any_32 := input.a"),
            ("x := [y | y = input.a[i]; i = _]", "x := [y | y = input.a[i]; policysync_any_62 := i  ]"),
            ("{\"a\": input.x, \"b\": 1} = _", "policysync_any_57 := {\"a\": input.x, \"b\": 1}  "),
            ("\"a\" = _", "policysync_any_38 := \"a\"  "),
            ("[_, x] = input.a", "[_, x] = input.a"),
            ("_ := input.a", "_ := input.a"),
        ]);
    }
}
