//! Finds names that several variables of a rule share. The embedded engine treats variables of one name in nested
//! scopes as one variable. If two parameters have the same name, or the key and the value in `some k, v in xs`, the
//! engine does not compare their values.

use std::collections::BTreeSet;

use regorus::unstable::{Expr, Literal, LiteralStmt, Query, Rule, Span};

use crate::fault::Fault;
use crate::module::Module;
use crate::tree::{self, ExprPart, used};

type Names<'t> = BTreeSet<&'t str>;

pub(super) fn faults(module: &Module) -> Vec<Fault> {
    let mut scopes = Scopes { module, faults: Vec::new() };
    module.tree.policy.iter().for_each(|rule| scopes.rule(rule));
    scopes.faults
}

struct Scopes<'m> {
    module: &'m Module,
    faults: Vec<Fault>,
}

impl<'m> Scopes<'m> {
    fn rule(&mut self, rule: &'m Rule) {
        let parameters = self.parameters(rule);
        let Rule::Spec { bodies, .. } = rule else { return };
        for body in bodies {
            self.query(&body.query, &parameters);
            let mut names = parameters.clone();
            of_query(&body.query, &mut names);
            let values = body.assign.iter().map(|assign| assign.value.as_ref()).chain(tree::head_value(rule));
            values.for_each(|value| self.expr(value, &names));
        }
        if bodies.is_empty() {
            tree::head_value(rule).into_iter().for_each(|value| self.expr(value, &parameters));
        }
    }

    /// Returns the names of the parameters of `rule`. Reports a name that several parameters have, because the engine
    /// does not compare their values.
    fn parameters(&mut self, rule: &'m Rule) -> Names<'m> {
        let mut all = Names::new();
        for argument in tree::arguments(rule) {
            let mut names = tree::variables(argument);
            names.remove("_");
            if let Some(name) = names.intersection(&all).next() {
                let text = format!(
                    "several parameters have the name {name}: give each a name and compare them with =="
                );
                self.faults.push(self.module.fault(tree::start(argument), text));
            }
            all.extend(names);
        }
        all
    }

    /// Checks `query`. The enclosing queries use the names `outer`.
    fn query(&mut self, query: &'m Query, outer: &Names<'m>) {
        let mut names = outer.clone();
        of_query(query, &mut names);
        // The names of local variables of comprehensions in earlier statements.
        let mut earlier = Names::new();
        for statement in &query.stmts {
            self.pair(statement);
            self.late(statement, &earlier);
            tree::expressions(statement).into_iter().for_each(|expr| within(expr, &mut earlier));
            tree::expressions(statement).into_iter().for_each(|expr| self.expr(expr, &names));
            if let Literal::Every { key, value, query, .. } = &statement.literal {
                let mut names = names.clone();
                names.extend(key.iter().chain([value]).map(|name| name.text()));
                self.inner(query, &names);
            }
        }
    }

    /// Checks the comprehensions in `expr`.
    fn expr(&mut self, expr: &'m Expr, names: &Names<'m>) {
        for part in tree::parts(expr) {
            match part {
                ExprPart::Expr(part) => self.expr(part, names),
                ExprPart::Comprehension(query, terms) => {
                    self.inner(query, names);
                    let mut inner = names.clone();
                    of_query(query, &mut inner);
                    terms.into_iter().for_each(|term| self.expr(term, &inner));
                }
            }
        }
    }

    /// Checks a nested query: `some` must not declare a name that the outer query uses.
    fn inner(&mut self, query: &'m Query, outer: &Names<'m>) {
        for (name, place) in query.stmts.iter().flat_map(declared) {
            if outer.contains(name) {
                let text = format!(
                    "variable {name} is declared within the scope of another {name}: rename one of them"
                );
                self.faults.push(self.module.fault(place, text));
            }
        }
        self.query(query, outer);
    }

    /// Checks `some x, x in xs`: the engine does not compare the key and the value.
    fn pair(&mut self, statement: &'m LiteralStmt) {
        let Literal::SomeIn { key: Some(key), value, .. } = &statement.literal else { return };
        let (mut keys, values) = (tree::variables(key), tree::variables(value));
        keys.remove("_");
        if let Some(name) = keys.intersection(&values).next() {
            let text =
                format!("key and value have the same name {name}: give each a name and compare them with ==");
            self.faults.push(self.module.fault(tree::start(key), text));
        }
    }

    /// Finds declarations in `statement` of names that earlier comprehensions use for local variables.
    fn late(&mut self, statement: &'m LiteralStmt, earlier: &Names<'m>) {
        for (name, place) in declared(statement) {
            if earlier.contains(name) {
                let text = format!(
                    "variable {name} is declared after a comprehension with another {name}: rename one of them"
                );
                self.faults.push(self.module.fault(place, text));
            }
        }
    }
}

/// The names that `some` declares in `statement`, with their places.
fn declared(statement: &LiteralStmt) -> Vec<(&str, &Span)> {
    let mut found = Vec::new();
    match &statement.literal {
        Literal::SomeVars { vars, .. } => found.extend(vars.iter().map(|span| (span.text(), span))),
        Literal::SomeIn { key, value, .. } => {
            for pattern in key.iter().chain([value]) {
                found.extend(tree::variables(pattern).into_iter().map(|name| (name, tree::start(pattern))));
            }
        }
        _ => {}
    }
    found.retain(|(name, _)| *name != "_");
    found
}

/// Adds the names that `query` uses, except those in its comprehensions and in bodies of `every`.
fn of_query<'t>(query: &'t Query, names: &mut Names<'t>) {
    for statement in &query.stmts {
        tree::expressions(statement).into_iter().for_each(|expr| used(expr, names));
        names.extend(declared(statement).into_iter().map(|(name, _)| name));
    }
}

/// Adds the names that comprehensions in `expr` use and do not declare.
fn within<'t>(expr: &'t Expr, names: &mut Names<'t>) {
    for part in tree::parts(expr) {
        match part {
            ExprPart::Expr(part) => within(part, names),
            ExprPart::Comprehension(query, terms) => {
                let mut inner = Names::new();
                of_query(query, &mut inner);
                terms.into_iter().for_each(|term| used(term, &mut inner));
                query.stmts.iter().flat_map(tree::expressions).for_each(|expr| within(expr, &mut inner));
                let own = tree::declared_in(query);
                names.extend(inner.difference(&own));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::{ModuleId, Text};

    #[test]
    fn names_shared_by_several_variables_are_rejected() {
        for (rule, expected) in [
            ("f(n, n) := 1 if true", "several parameters have the name n"),
            ("f([n, m], m) := 1", "several parameters have the name m"),
            ("f([n, n], _, _) := 1", ""),
            ("p if { some x, x in input.l }", "key and value have the same name x"),
            (
                "p if { some i; input.l[i]; q := [1 | some i; input.m[i]]; q }",
                "variable i is declared within",
            ),
            ("p if { some c in input.l; q := {c | some c in input.m}; q }", "variable c is declared within"),
            ("f(x) := [x | some x; input.l[x]] if true", "variable x is declared within"),
            (
                "p if { some x in [1]; every y in [2] { some x; input.l[x]; y } }",
                "variable x is declared within",
            ),
            ("p if { some x in [1]; every y in [2] { some y in [3]; y } }", "variable y is declared within"),
            ("p if { q := [y | y = input.l[_]]; some y in q }", "variable y is declared after"),
            ("p if { q := [y | some y in input.l]; some y in q }", "variable y is declared within"),
            ("p if { q := [x | some x in input.l]; r := [x | some x in q]; r }", ""),
            ("p if { some x in input.l; q := [y | y := x]; q }", ""),
            ("p if { some x in input.l; q := [x | x := 1]; q }", ""),
        ] {
            let text = format!("package a\nimport rego.v1\n{rule}\n");
            let module = Module::parse(&Text { id: ModuleId::new("a"), text: text.into() }).unwrap();
            let found: Vec<String> = faults(&module).iter().map(ToString::to_string).collect();
            assert!(found.len() == usize::from(!expected.is_empty()), "{rule}: {found:?}");
            assert!(found.iter().all(|fault| fault.contains(expected)), "{rule}: {found:?}");
        }
    }
}
