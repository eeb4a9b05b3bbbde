//! Rewrites two kinds of statements about a variable `x`, which the embedded engine may evaluate in the wrong order:
//!
//! - `x := y`, if another statement could bind `x`, for example `xs[x]`. The engine treats the assignment of a variable
//!   as bidirectional, and evaluates the other statement first. The new text is `x := [y][0]`: its right side is not a
//!   variable, so the engine assigns only `x`.
//! - `x = [… | … x …]`. The comprehension uses `x`, so another statement must bind `x`. The engine may evaluate the
//!   comprehension first to bind `x`. The new text is `x == [… | … x …]`, which only compares.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{AssignOp, Expr, Literal, LiteralStmt, Query, Span};

use super::{Changes, Module, closed, offset, start};
use crate::edit::Edit;
use crate::tree::{self, ExprPart};

/// The expressions `y` in `query` that must become `[y][0]`.
pub(super) fn sources<'t>(query: &'t Query) -> Vec<&'t Expr> {
    let declared = tree::declared_in(query);
    let bound_by = |statement: &'t LiteralStmt| {
        let mut names = BTreeSet::new();
        tree::expressions(statement).into_iter().for_each(|expr| bindable(expr, &mut names));
        // The engine may evaluate an `every` before the assignment of a variable that the body of the `every` uses.
        if let Literal::Every { query, .. } = &statement.literal {
            let mut visit = |span: &'t Span| {
                names.insert(span.text());
            };
            query.stmts.iter().for_each(|inner| tree::each_root_of_statement(inner, &mut visit));
        }
        names
    };
    // The number of statements that could bind each variable.
    let mut counts = BTreeMap::<&str, usize>::new();
    for name in query.stmts.iter().flat_map(bound_by) {
        *counts.entry(name).or_default() += 1;
    }
    let source = |statement| {
        let (targets, source) = assignment(statement, &declared)?;
        let own = bound_by(statement);
        let is_bound_elsewhere =
            |name: &&str| counts.get(name).is_some_and(|count| *count > usize::from(own.contains(name)));
        targets.iter().any(is_bound_elsewhere).then_some(source)
    };
    query.stmts.iter().filter_map(source).collect()
}

/// The variables that `statement` assigns, and the expression that it assigns to them. `None` if the assigned
/// expression is neither a variable nor an array or object with variables, or if it contains `_`.
fn assignment<'t>(
    statement: &'t LiteralStmt,
    declared: &BTreeSet<&str>,
) -> Option<(BTreeSet<&'t str>, &'t Expr)> {
    let Literal::Expr { expr, .. } = &statement.literal else { return None };
    let Expr::AssignExpr { op, lhs, rhs, .. } = expr.as_ref() else { return None };
    let (left, right) = (tree::variables(lhs), tree::variables(rhs));
    let is_given = |names: &BTreeSet<&str>| names.iter().all(|name| declared.contains(name));
    let (targets, source_names, source) = match op {
        AssignOp::ColEq => (left, right, rhs),
        AssignOp::Eq if is_given(&right) && !is_given(&left) => (left, right, rhs),
        AssignOp::Eq if is_given(&left) && !is_given(&right) => (right, left, lhs),
        AssignOp::Eq => return None,
    };
    (!source_names.is_empty() && !source_names.contains("_")).then_some((targets, source))
}

/// Adds the variables that `expr` could bind: those in indexes, in unifications and in the last arguments of calls.
fn bindable<'t>(expr: &'t Expr, names: &mut BTreeSet<&'t str>) {
    match expr {
        Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } => {
            [lhs, rhs].into_iter().for_each(|side| tree::pattern(side, names));
        }
        Expr::Call { params, .. } => {
            params.iter().last().into_iter().for_each(|last| tree::pattern(last, names))
        }
        Expr::RefDot { .. } | Expr::RefBrack { .. } => {
            tree::indexes(expr).for_each(|index| tree::pattern(index, names));
        }
        _ => {}
    }
    for part in tree::parts(expr) {
        if let ExprPart::Expr(part) = part {
            bindable(part, names);
        }
    }
}

/// Changes the assignments of `query`.
pub(super) fn rewrite(text: &mut Changes<'_>, query: &Query) {
    for source in sources(query) {
        text.edits.push(Edit::insert(start(text.module, source), "[".to_owned()));
        text.edits.push(Edit::insert(closed(text.module, source.span().end), "][0]".to_owned()));
    }
    for place in query.stmts.iter().filter_map(|statement| unification(text.module, statement)) {
        text.edits.push(Edit::insert(place, "=".to_owned()));
    }
}

/// The end of the `=` between a variable and a comprehension that uses the variable.
fn unification(module: &Module, statement: &LiteralStmt) -> Option<u32> {
    let Literal::Expr { expr, .. } = &statement.literal else { return None };
    let Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } = expr.as_ref() else { return None };
    let is_used = |variable: &Expr, other: &Expr| match variable {
        Expr::Var { span, .. } => span.text() != "_" && uses(other, span.text()),
        _ => false,
    };
    if !is_used(lhs, rhs) && !is_used(rhs, lhs) {
        return None;
    }
    let (from, to) = (closed(module, lhs.span().end), start(module, rhs));
    let sign = module.text.get(from as usize..to as usize)?.find('=')?;
    Some(from + offset(sign) + 1)
}

/// Whether a comprehension in `expr` uses the variable `name` of the rule.
fn uses(expr: &Expr, name: &str) -> bool {
    tree::parts(expr).into_iter().any(|part| match part {
        ExprPart::Expr(part) => uses(part, name),
        ExprPart::Comprehension(query, terms) => is_free(query, &terms, name),
    })
}

/// Whether a query with these terms uses the variable `name` and does not declare it.
fn is_free(query: &Query, terms: &[&Expr], name: &str) -> bool {
    let is_free_in = |statement: &LiteralStmt| {
        tree::expressions(statement).into_iter().any(|expr| has(expr, name))
            || tree::query_of(statement).is_some_and(|query| is_free(query, &[], name))
    };
    !tree::declared_in(query).contains(name)
        && (terms.iter().any(|term| has(term, name)) || query.stmts.iter().any(is_free_in))
}

/// Whether `expr` uses the variable `name`, apart from comprehensions that declare it.
fn has(expr: &Expr, name: &str) -> bool {
    matches!(tree::steps(expr).0, Expr::Var { span, .. } if span.text() == name)
        || tree::parts(expr).into_iter().any(|part| match part {
            ExprPart::Expr(part) => has(part, name),
            ExprPart::Comprehension(query, terms) => is_free(query, &terms, name),
        })
}

#[cfg(test)]
mod tests {
    use super::super::assert_bodies;

    #[test]
    fn assignments_of_variables_get_one_direction() {
        assert_bodies(&[
            ("y := 1; x := y; not input.a[x]", "y := 1; x := [y][0]; not input.a[[x][0]]"),
            ("y := 1; x := y; every z in [1] { z < x }", "y := 1; x := [y][0]; every z in [1] { z < x }"),
            ("some y in input.a; x = y; input.b[x]", "some y in input.a; x = [y][0]; input.b[x]"),
            ("some y in input.a; y = x; input.b[x]", "some y in input.a; [y][0] = x; input.b[x]"),
            ("y := 1; [x, z] := [y, `a`]; input.b[z]", "y := 1; [x, z] := [[y, `a`]][0]; input.b[z]"),
            ("y := 1; x := y; x = 1", "y := 1; x := [y][0]; x = 1"),
            ("z := [1 | y := 2; x := y; input.a[x]]", "z := [1 | y := 2; x := [y][0]; input.a[x]]"),
            ("y := 1; x := y; x == 1", "y := 1; x := y; x == 1"),
            ("y := 1; x := y + 1; input.a[x]", "y := 1; x := y + 1; input.a[x]"),
            ("x = y; input.a[x]; input.b[y]", "x = y; input.a[x]; input.b[y]"),
            ("y := 1; x = y; x = [1 | [z] := [x]]", "y := 1; x = [y][0]; x == [1 | [z] := [x]]"),
            ("y := 1; x = y; {x | true} = x", "y := 1; x = [y][0]; {x | true} == x"),
            ("x = 1; x = [[y | y := x][0]]", "x = 1; x == [[y | y := x][0]]"),
            ("x = [x | x := 1]", "x = [x | x := 1]"),
            ("x = [y | y := 1]", "x = [y | y := 1]"),
            ("x = [y | y := [x | x := 1]]", "x = [y | y := [x | x := 1]]"),
            ("x = {y | every z in [1] { z == x }; y := 1}", "x == {y | every z in [1] { z == x }; y := 1}"),
            ("_ = [y | y := input.a[_]]", "policysync_any_32 := [y | y := input.a[_]]"),
        ]);
    }
}
