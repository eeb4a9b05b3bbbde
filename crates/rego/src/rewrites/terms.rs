//! Moves a lookup in the term of a comprehension, `[x[_] | …]`, into the body. OPA evaluates the terms in the body. The
//! embedded engine fails if such a lookup is undefined. The term becomes a variable that the body assigns.

use regorus::unstable::{Expr, Query};

use super::render::Renderer;
use super::{Changes, Defined, replaced};
use crate::module::name_of;
use crate::tree;

/// The prefix of the variables for terms. The offset of the term makes the name unique in a module.
const TERM: &str = "policysync_term";

/// The variable for `term`, if it is a lookup with `_` as an index.
pub(super) fn variable(term: &Expr) -> Option<String> {
    has_wildcard(term).then(|| format!("{TERM}_{}", term.span().start))
}

/// Whether an index in `expr` is `_`.
fn has_wildcard(expr: &Expr) -> bool {
    tree::indexes(expr).any(|index| name_of(index) == Some("_")) || tree::any_part(expr, has_wildcard)
}

/// Moves `term` to the end of `query` if it is a lookup. Returns whether it was moved.
pub(super) fn rewrite(text: &mut Changes<'_>, query: &Query, term: &Expr, defined: &Defined<'_>) -> bool {
    let Some(name) = variable(term) else { return false };
    let value = Renderer::new(defined, &text.meanings).expr(term);
    text.edits.push(replaced(text.module, term, &name));
    text.append(query, &format!("; {name} := {value}"));
    true
}

#[cfg(test)]
mod tests {
    use super::super::assert_bodies;

    #[test]
    fn a_lookup_in_a_term_is_assigned_in_the_body() {
        assert_bodies(&[
            (
                "x := [y.a[_] | y := input.b[_]]",
                "x := [policysync_term_38 | y := input.b[_]; policysync_term_38 := y.a[_]]",
            ),
            (
                "x := {y[_] + 1: {z[_] | z := y} | some y in input.b}",
                "x := {policysync_term_38: {policysync_term_49 | z := y; policysync_term_49 := z[_]} | some y in input.b; policysync_term_38 := y[_] + 1}",
            ),
            (
                "not f([y[_] | y := input.b])",
                "not f([policysync_term_39 | y := input.b; policysync_term_39 := y[_]])",
            ),
            ("x := [y | y := input.b[_]]", "x := [y | y := input.b[_]]"),
            ("x := [y[0] | y := input.b[_]]", "x := [y[0] | y := input.b[_]]"),
        ]);
    }
}
