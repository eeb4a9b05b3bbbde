//! Compares all keys in statements such as `{"a": x} = y`, in which one side is an object that contains variables. The
//! embedded engine ignores keys of `y` that this object does not have. The statement `{"a": x} == y` is added, in which
//! both sides are bound.

use regorus::unstable::{AssignOp, Expr, Literal, LiteralStmt, Rule};

use super::render::Renderer;
use super::{Changes, Defined, closed, opened, replaced, wildcards};
use crate::edit::Edit;
use crate::module::name_of;
use crate::tree::{self, ExprPart};

/// The prefix of variables that have the value of an object pattern.
const OBJECT: &str = "policysync_object";

/// The sides of the unification or the assignment `statement`, if one of them is an object pattern.
pub(super) fn sides(statement: &LiteralStmt) -> Option<(&Expr, &Expr)> {
    let Literal::Expr { expr, .. } = &statement.literal else { return None };
    let Expr::AssignExpr { op, lhs, rhs, .. } = expr.as_ref() else { return None };
    // Without variables, the engine compares the whole values.
    let is_pattern = |side| has_object(side) && !tree::variables(side).is_empty();
    let has_pattern = match op {
        AssignOp::ColEq => is_pattern(lhs),
        AssignOp::Eq => is_pattern(lhs) || is_pattern(rhs),
    };
    let has_wildcard = name_of(lhs) == Some("_") || name_of(rhs) == Some("_");
    (has_pattern && !has_wildcard).then_some((lhs, rhs))
}

/// Whether the pattern `expr` has an object whose keys the embedded engine does not compare.
pub(crate) fn has_object(expr: &Expr) -> bool {
    match expr {
        Expr::Object { .. } => true,
        Expr::Array { items, .. } => items.iter().any(|item| has_object(item)),
        _ => false,
    }
}

/// Adds the comparison after `statement`.
pub(super) fn rewrite<'t>(text: &mut Changes<'_>, statement: &'t LiteralStmt, defined: &Defined<'t>) {
    let Some((lhs, rhs)) = sides(statement) else { return };
    for side in [lhs, rhs] {
        each_wildcard(side, &mut |wildcard| {
            let span = wildcard.span();
            text.edits.push(Edit { start: span.start, end: span.end, text: wildcards::named(wildcard) });
        });
    }
    let comparison = Renderer::new(defined, &text.meanings).comparison(statement, lhs, rhs);
    text.edits.push(Edit::insert(closed(text.module, statement.span.end), format!("; {comparison}")));
}

/// The object patterns in a `statement` that declares variables, for example `some {"a": x} in xs`.
fn declaring(statement: &LiteralStmt) -> impl Iterator<Item = &Expr> {
    let (key, value) = match &statement.literal {
        Literal::SomeIn { key, value, .. } => (key.as_ref(), Some(value)),
        _ => (None, None),
    };
    key.into_iter().chain(value).map(AsRef::as_ref).filter(|pattern| has_object(pattern))
}

/// The declaration of the variables in the object patterns of `statement`.
pub(super) fn declaration(statement: &LiteralStmt) -> Option<String> {
    let mut names = Defined::new();
    declaring(statement).for_each(|pattern| tree::pattern(pattern, &mut names));
    names.remove("_");
    (!names.is_empty()).then(|| format!("some {}", names.into_iter().collect::<Vec<_>>().join(", ")))
}

/// The variable for the value of `pattern`.
pub(super) fn value(pattern: &Expr) -> String {
    format!("{OBJECT}_{}", tree::start(pattern).start)
}

/// The statements that compare the object patterns of `statement` with their values.
pub(super) fn comparisons(renderer: &Renderer<'_>, statement: &LiteralStmt) -> String {
    declaring(statement).map(|pattern| format!("; {}", renderer.matched(pattern))).collect()
}

/// Replaces the object patterns of `statement` by variables, and adds the comparisons after `statement`.
pub(super) fn rewrite_declaring<'t>(
    text: &mut Changes<'_>,
    statement: &'t LiteralStmt,
    defined: &Defined<'t>,
) {
    for pattern in declaring(statement) {
        text.edits.push(replaced(text.module, pattern, &value(pattern)));
    }
    let comparisons = comparisons(&Renderer::new(defined, &text.meanings), statement);
    text.edits.push(Edit::insert(closed(text.module, statement.span.end), comparisons));
}

/// Whether `rule` has bodies in which its parameters can be compared.
pub(crate) fn can_compare(rule: &Rule) -> bool {
    let Rule::Spec { bodies, .. } = rule else { return false };
    !bodies.is_empty() && bodies.iter().all(|body| !body.query.stmts.is_empty())
}

/// Replaces the object patterns among the parameters of `rule` by variables. The bodies then compare the arguments with
/// the patterns.
pub(super) fn rewrite_parameters(text: &mut Changes<'_>, rule: &Rule) {
    let Rule::Spec { bodies, .. } = rule else { return };
    if !can_compare(rule) {
        return;
    }
    let mut comparisons = String::new();
    for pattern in tree::arguments(rule).iter().filter(|argument| has_object(argument)) {
        text.edits.push(replaced(text.module, pattern, &value(pattern)));
        comparisons.push_str(&(Renderer::new(&Defined::new(), &text.meanings).matched(pattern) + "; "));
    }
    if comparisons.is_empty() {
        return;
    }
    for query in bodies.iter().map(|body| &body.query) {
        let Some(first) = query.stmts.first() else { continue };
        text.edits.push(Edit::insert(opened(text.module, first.span.start), comparisons.clone()));
        text.brace(query);
    }
}

/// Visits each `_` in `expr`, except in comprehensions.
fn each_wildcard<'t>(expr: &'t Expr, visit: &mut dyn FnMut(&'t Expr)) {
    if name_of(expr) == Some("_") {
        visit(expr);
    }
    for part in tree::parts(expr) {
        if let ExprPart::Expr(part) = part {
            each_wildcard(part, visit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{assert_bodies, of_text};

    #[test]
    fn all_keys_of_an_object_are_compared() {
        assert_bodies(&[
            ("{\"a\": x} = input.o; x > 1", "{\"a\": x} = input.o; {\"a\": x} == input.o; x > 1"),
            ("x = {\"a\": `b`}", "x = {\"a\": `b`}"),
            ("x = {\"a\": y}", "x = {\"a\": y}; x == {\"a\": y}"),
            ("[x, {\"a\": 1}] = y", "[x, {\"a\": 1}] = y; [x, {\"a\": 1}] == y"),
            ("x := {\"a\": 1}", "x := {\"a\": 1}"),
            (
                "{\"a\": x} := y with input as 1",
                "{\"a\": x} := y with input as 1; {\"a\": x} == y with input as 1",
            ),
            (
                "[_, {\"a\": _}] = input.list[_]",
                "[policysync_any_33, {\"a\": policysync_any_42}] = input.list[policysync_any_59]; [policysync_any_33, {\"a\": policysync_any_42}] == input.list[policysync_any_59]",
            ),
            (
                "x := [y | {\"a\": y} = input.list[i]]",
                "x := [y | {\"a\": y} = input.list[i]; {\"a\": y} == input.list[i]]",
            ),
            (
                "some {\"a\": x, \"b\": _} in input.l; x",
                "some x; some policysync_object_47 in input.l; {\"a\": x, \"b\": policysync_any_51} = [policysync_object_47][0]; {\"a\": x, \"b\": policysync_any_51} == policysync_object_47; x",
            ),
            (
                "x := [y | some {\"a\": y}, {\"b\": 1} in input.l]",
                "x := [y | some y; some policysync_object_47, policysync_object_57 in input.l; {\"a\": y} = [policysync_object_47][0]; {\"a\": y} == policysync_object_47; {\"b\": 1} = [policysync_object_57][0]; {\"b\": 1} == policysync_object_57]",
            ),
            ("not {\"a\": 1} = input.o", "not {\"a\": 1} = input.o"),
            ("{\"a\": 1} == input.o", "{\"a\": 1} == input.o"),
            ("[x, y] = input.o", "[x, y] = input.o"),
        ]);
        assert_eq!(
            of_text("package a\nimport rego.v1\nq contains x if {\"a\": x} = input.o # all\n"),
            "package a\nimport rego.v1\nq contains x if { {\"a\": x} = input.o; {\"a\": x} == input.o } # all\n"
        );
        assert_eq!(
            of_text("package a\nimport rego.v1\nq contains x if some {\"a\": x} in input.l"),
            "package a\nimport rego.v1\nq contains x if { some x; some policysync_object_46 in input.l; {\"a\": x} = [policysync_object_46][0]; {\"a\": x} == policysync_object_46 }"
        );
        assert_eq!(
            of_text("package a\nf({\"a\": x}, y) = x { y } else = 2 { x }\ng({\"a\": 1}) = 1"),
            "package a\nf(policysync_object_12, y) = x { {\"a\": x} = [policysync_object_12][0]; {\"a\": x} == policysync_object_12; y } else = 2 { {\"a\": x} = [policysync_object_12][0]; {\"a\": x} == policysync_object_12; x }\ng({\"a\": 1}) = 1"
        );
    }
}
