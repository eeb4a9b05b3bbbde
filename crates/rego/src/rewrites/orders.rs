//! Moves negations and `every` after the statements that bind their variables, for example in `not input.xs[i]; i = 1`.
//! OPA evaluates negations and `every` last. The embedded engine evaluates them for each value that the variable may
//! have, or for no value.

use std::collections::BTreeMap;

use regorus::unstable::{AssignOp, Expr, Literal, LiteralStmt, Query};

use super::{Defined, closed};
use crate::edit::Edit;
use crate::module::Module;
use crate::tree::{self, ExprPart, pattern, used};

/// The index of the last statement of a query that uses each name.
type Uses<'t> = BTreeMap<&'t str, usize>;

/// The statements of `query` to move to its end. The `outer` names are bound.
pub(super) fn late<'q>(query: &'q Query, outer: &Defined<'_>) -> Vec<&'q LiteralStmt> {
    let is_last = |statement: &LiteralStmt| {
        matches!(statement.literal, Literal::NotExpr { .. } | Literal::Every { .. })
    };
    if !query.stmts.iter().any(is_last) {
        return Vec::new();
    }
    let mut uses = Uses::new();
    let mut declared = Defined::new();
    for (nth, statement) in query.stmts.iter().enumerate().filter(|(_, statement)| !is_last(statement)) {
        let mut names = Defined::new();
        tree::expressions(statement).into_iter().for_each(|expr| used(expr, &mut names));
        uses.extend(names.into_iter().map(|name| (name, nth)));
        if !matches!(statement.literal, Literal::SomeVars { .. }) {
            tree::declared(statement, &mut declared);
        }
    }
    let last = query.stmts.iter().rposition(|statement| !is_last(statement));
    let (mut bound, mut late) = (outer.iter().copied().collect::<Defined<'_>>(), Vec::new());
    for (nth, statement) in query.stmts.iter().enumerate() {
        if !is_last(statement) {
            bind(statement, nth, &uses, &mut bound);
            continue;
        }
        if last.is_none_or(|last| last < nth) {
            break;
        }
        let mut is_late = false;
        tree::each_root_of_statement(statement, &mut |root| {
            let name = root.text();
            // OPA rejects a use of a name before its declaration.
            let is_free =
                !matches!(name, "data" | "input" | "_") && !bound.contains(name) && !declared.contains(name);
            is_late |= is_free && uses.contains_key(name);
        });
        if is_late {
            late.push(statement);
        }
    }
    late
}

/// The edit that removes `statement` from its place.
pub(super) fn removed(module: &Module, statement: &LiteralStmt) -> Edit {
    let (start, end) = (statement.span.start, closed(module, statement.span.end));
    let lines = module.text[start as usize..end as usize].matches('\n').count();
    Edit { start, end, text: "\n".repeat(lines) + "true" }
}

/// Adds the names that are certainly bound after the `nth` statement of a query.
fn bind<'t>(statement: &'t LiteralStmt, nth: usize, uses: &Uses<'_>, bound: &mut Defined<'t>) {
    tree::expressions(statement).into_iter().for_each(|expr| indexes(expr, bound));
    if !matches!(statement.literal, Literal::SomeVars { .. }) {
        tree::declared(statement, bound);
    }
    let Literal::Expr { expr, .. } = &statement.literal else { return };
    if let Expr::Call { params, .. } = expr.as_ref()
        && let Some(output) = params.last()
    {
        pattern(output, bound);
    }
    let Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } = expr.as_ref() else { return };
    for (side, other) in [(lhs, rhs), (rhs, lhs)] {
        let mut names = Defined::new();
        used(other, &mut names);
        // If a later statement uses a name, that statement may be the one that binds the name.
        let has_value = |name: &&str| {
            matches!(*name, "data" | "input")
                || bound.contains(name)
                || uses.get(name).is_none_or(|last| *last <= nth)
        };
        if names.iter().all(has_value) {
            pattern(side, bound);
        }
    }
}

/// Adds the variables that are indexes in `expr`.
fn indexes<'t>(expr: &'t Expr, bound: &mut Defined<'t>) {
    tree::indexes(expr).for_each(|index| pattern(index, bound));
    for part in tree::parts(expr) {
        if let ExprPart::Expr(expr) = part {
            indexes(expr, bound);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{assert_bodies, of_text};

    #[test]
    fn negations_and_every_come_after_the_values_of_their_variables() {
        assert_bodies(&[
            ("not input.xs[i] == 10; i = 1", "true; i = 1; not input.xs[[i][0]] == 10"),
            ("not input.xs[i]; input.ys[i]; not i", "true; input.ys[i]; not i; not input.xs[[i][0]]"),
            (
                "every x in [0] { input.xs[i] == x }; some i; i = 0",
                "some i; true; true; i = 0; every x in [0] { input.xs[i] == x }",
            ),
            ("x = y; not input.xs[x]; y = 1", "x = y; true; y = 1; not input.xs[[x][0]]"),
            ("x := [1 | not input.xs[j]; j = \"a\"]", "x := [1 | true; j = \"a\"; not input.xs[[j][0]]]"),
            (
                "not count([1 | not input.xs[j]; input.ys[j]]) == i; i = 1",
                "true; i = 1; policysync_defined_36 := count([1 | input.ys[j]; not input.xs[[j][0]]]); not policysync_defined_36 == i",
            ),
        ]);
    }

    #[test]
    fn bodies_with_bound_variables_are_unchanged() {
        for body in [
            "i = 1; not input.xs[0] == 10; i > 0",
            "input.xs[i]; not i == 1; input.zs[i]",
            "some i in input.is; not i == 2; i > 1",
            "x := input.x; not x == 1; x == 2",
            "not input.xs; input.ys",
            "x = input.x; not x == 1; x == 2",
            "x = data.b.c; not x == 1; input.y",
            "f(1, x); not x == 1; x > 0",
        ] {
            let text = format!("package a\nimport rego.v1\np if {{ {body} }}\n");
            assert_eq!(of_text(&text), text);
        }
        let argument = "package a\nimport rego.v1\np(x) if { not x == 1; x == 2 }\n";
        assert_eq!(of_text(argument), argument);
    }

    #[test]
    fn reordering_keeps_the_number_of_each_line() {
        let text = "package a\nimport rego.v1\np if {\n\tnot input.xs[\n\t\ti\n\t] # no\n\ti = 1 # one\n}\n";
        let expected =
            "package a\nimport rego.v1\np if {\n\t\n\ntrue # no\n\ti = 1; not input.xs[[i][0]] # one\n}\n";
        assert_eq!(of_text(text), expected);
    }
}
