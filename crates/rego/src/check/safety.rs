//! Finds unsafe variables, which are variables without a value. The engine reports an unsafe variable only in a
//! statement that it evaluates, and never under `not`.

use std::collections::{BTreeSet, HashSet};

use regorus::unstable::{Expr, Literal, Query, Rule, RuleBody, Span};

use super::Rules;
use super::variables::Bindings;
use crate::fault::Fault;
use crate::module::{Module, name_of};
use crate::names::Names;
use crate::rewrites::heads;
use crate::template_strings::PART;
use crate::tree::{self, ExprPart, pattern};

pub(super) fn faults(module: &Module, rules: &Rules<'_>) -> Vec<Fault> {
    let bindings = Bindings { module, names: Names::of(module), rules };
    let mut safety = Safety { bindings, wildcards: HashSet::new(), faults: Vec::new() };
    module.tree.policy.iter().for_each(|rule| safety.rule(rule));
    safety.faults
}

/// Variables that are bound to a value.
type Bound<'t> = BTreeSet<&'t str>;

struct Safety<'m> {
    bindings: Bindings<'m>,
    /// Each `_` of the rule that gets a value, because it is an index or a part of a pattern.
    wildcards: HashSet<*const Expr>,
    faults: Vec<Fault>,
}

impl<'m> Safety<'m> {
    fn rule(&mut self, rule: &'m Rule) {
        self.wildcards = self.bindings.wildcards(rule);
        let mut arguments = Bound::new();
        tree::arguments(rule).iter().for_each(|argument| pattern(argument, &mut arguments));
        let bodies = match rule {
            Rule::Spec { bodies, .. } => bodies.as_slice(),
            Rule::Default { .. } => &[],
        };
        if bodies.is_empty() {
            let mut bound = arguments.clone();
            self.bind_lookups(rule, None, &mut bound);
            self.head(rule, &bound);
        }
        for body in bodies {
            let mut bound = self.query(&body.query, &arguments);
            self.bind_lookups(rule, Some(body), &mut bound);
            if let Some(assign) = &body.assign {
                self.uses(&assign.value, &bound, false);
            }
            if !body.is_else {
                self.head(rule, &bound);
            }
        }
    }

    /// Adds to `bound` the variables that the [lookups](heads::lookups) in the head of `rule` bind.
    fn bind_lookups(&self, rule: &'m Rule, body: Option<&'m RuleBody>, bound: &mut Bound<'m>) {
        let lookups = heads::lookups(rule, body, bound);
        lookups.into_iter().for_each(|value| self.bindings.expression(value, bound));
    }

    fn head(&mut self, rule: &'m Rule, bound: &Bound<'m>) {
        for index in tree::parts(tree::reference(rule)) {
            self.part(index, bound, false);
        }
        if let Some(value) = tree::head_value(rule) {
            self.uses(value, bound, false);
        }
    }

    /// Checks `query`, in which the variables `outer` are bound, and returns its bound variables.
    fn query(&mut self, query: &'m Query, outer: &Bound<'m>) -> Bound<'m> {
        let mut bound = self.bindings.of(query);
        bound.extend(outer);
        for statement in &query.stmts {
            let negated = matches!(statement.literal, Literal::NotExpr { .. });
            for expr in tree::expressions(statement) {
                self.uses(expr, &bound, negated);
            }
            if let Literal::Every { key, value, query, .. } = &statement.literal {
                let mut inner = bound.clone();
                inner.extend(key.iter().chain([value]).map(|span| span.text()));
                self.query(query, &inner);
            }
        }
        bound
    }

    fn uses(&mut self, expr: &'m Expr, bound: &Bound<'m>, negated: bool) {
        match expr {
            Expr::Var { span, .. }
                if span.text() == "_" && !self.wildcards.contains(&std::ptr::from_ref(expr)) =>
            {
                self.unsafe_variable(span, "");
            }
            Expr::Var { span, .. } => self.variable(span, bound, negated),
            Expr::RefDot { .. } | Expr::RefBrack { .. } => {
                if let (Expr::Var { span, .. }, _) = tree::steps(expr) {
                    self.variable(span, bound, negated);
                }
            }
            _ => {}
        }
        for part in tree::parts(expr) {
            self.part(part, bound, negated);
        }
    }

    fn part(&mut self, part: ExprPart<'m>, bound: &Bound<'m>, negated: bool) {
        match part {
            ExprPart::Expr(expr) => self.uses(expr, bound, negated),
            ExprPart::Comprehension(query, terms) => {
                let mut inner = self.query(query, bound);
                if terms.iter().any(|term| name_of(term) == Some(PART)) {
                    self.template(query, &inner, bound);
                }
                // The terms are evaluated in the body of the comprehension, so `_` may be used in them.
                inner.insert("_");
                // A comprehension is evaluated before the negation that contains it, so its terms are not negated.
                terms.into_iter().for_each(|term| self.uses(term, &inner, false));
            }
        }
    }

    /// Checks that the variables in an expression of a template string are bound outside of the string.
    fn template(&mut self, query: &'m Query, inner: &Bound<'m>, outer: &Bound<'m>) {
        let Bindings { module, names, rules } = &self.bindings;
        if let Some(second) = query.stmts.get(1) {
            let text = "a template string has one expression between braces";
            self.faults.push(module.fault(&second.span, text));
        }
        let is_known = |name: &str| {
            matches!(name, "data" | "input")
                || outer.contains(name)
                || rules.has_name(module, name)
                || names.import(name).is_some()
        };
        let new = inner.iter().find(|name| **name != PART && !is_known(name));
        if let Some(name) = new {
            let text = format!("variable {name} has no value outside of the template string");
            self.faults.push(self.bindings.module.fault(&query.span, text));
        }
    }

    fn variable(&mut self, span: &'m Span, bound: &Bound<'m>, negated: bool) {
        let name = span.text();
        let Bindings { module, names, rules } = &self.bindings;
        // Each `_` is a distinct variable, so no other statement gives a negated `_` its value.
        let is_bound = bound.contains(name) && !(negated && name == "_");
        let is_known = matches!(name, "data" | "input")
            || is_bound
            || names.import(name).is_some()
            || rules.has_name(module, name);
        if !is_known {
            self.unsafe_variable(span, if negated { " outside of not" } else { "" });
        }
    }

    fn unsafe_variable(&mut self, span: &Span, where_else: &str) {
        let text = format!("variable {} is unsafe: no statement{where_else} gives it a value", span.text());
        self.faults.push(self.bindings.module.fault(span, text));
    }
}
