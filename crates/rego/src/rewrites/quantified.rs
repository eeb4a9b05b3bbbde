//! Rewrites the index `k` in `not xs[k]`, and in `xs[k]` within `every k, v in ys`. The embedded engine assumes that
//! the statement may bind `k`. So it may evaluate the statement before another statement binds `k`. Then `not xs[k]` is
//! false even if `xs` lacks `k`. The new index `[k][0]` is an expression, which binds nothing.

use std::collections::{BTreeSet, HashSet};

use regorus::unstable::{Expr, Literal, Query};

use crate::module::{Module, Negation, name_of};
use crate::tree::{self, ExprPart};

/// The kind of negation in a module, and the indexes to rewrite.
#[derive(Debug)]
pub(super) struct Meanings {
    /// The kind of negation in the module.
    pub(super) negation: Negation,
    /// The indexes that are variables of an enclosing `every`, or variables in a negation.
    indexes: HashSet<*const Expr>,
}

impl Meanings {
    pub(super) fn of(module: &Module) -> Self {
        let mut indexes = HashSet::new();
        for rule in &module.tree.policy {
            tree::each_statement(rule, &mut |statement| match &statement.literal {
                Literal::Every { key, value, query, .. } => {
                    let names = key.iter().chain([value]).map(|name| name.text()).collect();
                    add(query, &names, &mut indexes);
                }
                Literal::NotExpr { expr, .. } => add_negated(expr, &mut indexes),
                _ => {}
            });
        }
        Self { negation: module.negation, indexes }
    }

    /// Negations of expressions, and no indexes to rewrite.
    pub(super) fn plain() -> Self {
        Self { negation: Negation::OfExpressions, indexes: HashSet::new() }
    }

    /// Whether `index` is a variable `k` that must become `[k][0]`.
    pub(super) fn is_quantified(&self, index: &Expr) -> bool {
        self.indexes.contains(&std::ptr::from_ref(index))
    }
}

/// The indexes of the reference `expr` that are variables with these names.
fn variables_of(expr: &Expr, is_it: impl Fn(&str) -> bool) -> impl Iterator<Item = *const Expr> {
    tree::indexes(expr).filter(move |index| name_of(index).is_some_and(&is_it)).map(std::ptr::from_ref)
}

/// Adds the indexes in the negated `expr` that are variables. A negation binds no variable, except in its
/// comprehensions.
fn add_negated(expr: &Expr, indexes: &mut HashSet<*const Expr>) {
    indexes.extend(variables_of(expr, |name| name != "_"));
    for part in tree::parts(expr) {
        if let ExprPart::Expr(part) = part {
            add_negated(part, indexes);
        }
    }
}

/// Adds the indexes in `query` that are variables with these `names`. The statements of nested `every` are visited
/// separately.
fn add(query: &Query, names: &BTreeSet<&str>, indexes: &mut HashSet<*const Expr>) {
    let mut names = names.clone();
    for name in tree::declared_in(query) {
        names.remove(name);
    }
    for statement in &query.stmts {
        tree::expressions(statement).into_iter().for_each(|expr| add_of(expr, &names, indexes));
        if let Literal::Every { key, value, query, .. } = &statement.literal {
            let mut inner = names.clone();
            for name in key.iter().chain([value]) {
                inner.remove(name.text());
            }
            add(query, &inner, indexes);
        }
    }
}

fn add_of(expr: &Expr, names: &BTreeSet<&str>, indexes: &mut HashSet<*const Expr>) {
    indexes.extend(variables_of(expr, |name| names.contains(name)));
    for part in tree::parts(expr) {
        match part {
            ExprPart::Expr(part) => add_of(part, names, indexes),
            ExprPart::Comprehension(query, terms) => {
                let declared = tree::declared_in(query);
                let inner: BTreeSet<&str> = names.difference(&declared).copied().collect();
                terms.into_iter().for_each(|term| add_of(term, &inner, indexes));
                add(query, &inner, indexes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::assert_bodies;

    #[test]
    fn variables_in_negations_have_a_value() {
        assert_bodies(&[
            ("input.o[k]; c = k; not input.l[c]", "input.o[k]; c = k; not input.l[[c][0]]"),
            (
                "k := 1; not input.o[k].a[input.l[k]]",
                "k := 1; policysync_defined_57 := input.l[[k][0]]; not input.o[[k][0]].a[policysync_defined_57]",
            ),
            (
                "not count([1 | input.o[k]]) == 1",
                "policysync_defined_36 := count([1 | input.o[k]]); not policysync_defined_36 == 1",
            ),
        ]);
    }

    #[test]
    fn variables_of_every_are_indexes_with_a_value() {
        assert_bodies(&[
            ("every x in [1] { not input.l[x] }", "every x in [1] { not input.l[[x][0]] }"),
            (
                "every k, v in {} { input.l[k][v].a == x; y := [z | z := input.m[k]] }",
                "every k, v in {} { input.l[[k][0]][[v][0]].a == x; y := [z | z := input.m[[k][0]]] }",
            ),
            (
                "every x in [1] { every x in [2] { input.l[x] }; input.l[y] }",
                "every x in [1] { every x in [2] { input.l[[x][0]] }; input.l[y] }",
            ),
            (
                "every x in [1] { [1 | some x in [2]; input.l[x]] == [] }",
                "every x in [1] { [1 | some x in [2]; input.l[x]] == [] }",
            ),
            (
                "every x in [1] { not input.l[x] == y; y = 1 }",
                "every x in [1] { true; y = 1; not input.l[[x][0]] == y }",
            ),
        ]);
    }
}
