//! Rewrites `x = s[x]`, which finds the elements of a set, or the entries of a collection that equal their keys. The
//! embedded engine cannot bind a variable that is on both sides of `=`. With `==`, the index binds the variable.

use regorus::unstable::{AssignOp, Expr, Literal, LiteralStmt};

use super::closed;
use crate::edit::Edit;
use crate::module::{Module, name_of};
use crate::tree;

/// Whether one side of the unification `expr` is a variable, and the other side is a reference with that variable as an
/// index.
pub(crate) fn is_membership(expr: &Expr) -> bool {
    let Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } = expr else { return false };
    let is_index = |variable: &Expr, reference: &Expr| {
        name_of(variable)
            .filter(|name| *name != "_")
            .is_some_and(|name| tree::indexes(reference).any(|index| name_of(index) == Some(name)))
    };
    is_index(lhs, rhs) || is_index(rhs, lhs)
}

/// The edit that turns the `=` of `statement` into `==`, if the statement [is such a unification](is_membership).
pub(super) fn edit(module: &Module, statement: &LiteralStmt) -> Option<Edit> {
    let Literal::Expr { expr, .. } = &statement.literal else { return None };
    let Expr::AssignExpr { lhs, .. } = expr.as_ref() else { return None };
    if !is_membership(expr) {
        return None;
    }
    let end = closed(module, lhs.span().end);
    let operator = super::after(&module.text[end as usize..], "=")?;
    Some(Edit::insert(end + operator, "=".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::{assert_bodies, of_text};

    #[test]
    fn a_variable_on_both_sides_is_bound_by_the_index() {
        assert_bodies(&[
            ("x = s[x]", "x == s[x]"),
            ("s[x]=x", "s[x]==x"),
            ("x = data.a[\"k\"][x].y", "x == data.a[\"k\"][x].y"),
            ("y := [x | x = s[x]]", "y := [x | x == s[x]]"),
            ("x # =\n\t= s[x]", "x # =\n\t== s[x]"),
            ("x = s[y]", "x = s[y]"),
            ("_ = s[_]", "policysync_any_32 := s[_]"),
            ("x := s[_]", "x := s[_]"),
        ]);
        let head = "package a\nimport rego.v1\np := count([x | x = s[x]]) if input.a\n";
        let expected = "package a\nimport rego.v1\np := policysync_given_0 if { input.a; policysync_given_0 := count([x | x == s[x]]) }\n";
        assert_eq!(of_text(head), expected);
    }
}
