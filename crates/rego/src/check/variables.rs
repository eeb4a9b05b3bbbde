//! The variables of a rule: which names the rule declares, and which variables its statements bind.

use std::collections::{BTreeSet, HashSet};

use regorus::unstable::{Expr, Literal, LiteralStmt, Query, Rule};

use super::Rules;
use super::calls::callee;
use crate::module::Module;
use crate::names::Names;
use crate::tree::{self, ExprPart, pattern};

/// The names that `rule` declares as local variables, including those that shadow other names.
pub(crate) fn declared(rule: &Rule) -> BTreeSet<&str> {
    let mut names = argument_names(rule);
    tree::each_statement(rule, &mut |statement| tree::declared(statement, &mut names));
    names
}

/// The names that the arguments of `rule` declare. These names are valid in the whole rule.
pub(crate) fn argument_names(rule: &Rule) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    tree::arguments(rule).iter().for_each(|argument| pattern(argument, &mut names));
    names
}

/// Finds the variables that expressions of a module bind.
pub(super) struct Bindings<'m> {
    pub(super) module: &'m Module,
    pub(super) names: Names<'m>,
    pub(super) rules: &'m Rules<'m>,
}

impl Bindings<'_> {
    /// The variables that `query` binds, without those of nested queries. A negated statement binds none.
    pub(super) fn of<'t>(&self, query: &'t Query) -> BTreeSet<&'t str> {
        let mut names = BTreeSet::new();
        query.stmts.iter().for_each(|statement| self.statement(statement, &mut names));
        names
    }

    fn statement<'t>(&self, statement: &'t LiteralStmt, names: &mut BTreeSet<&'t str>) {
        match &statement.literal {
            Literal::SomeIn { key, value, collection, .. } => {
                key.iter().chain([value]).for_each(|expr| pattern(expr, names));
                self.expression(collection, names);
            }
            Literal::Expr { expr, .. } => self.expression(expr, names),
            Literal::Every { domain, .. } => self.expression(domain, names),
            Literal::SomeVars { .. } | Literal::NotExpr { .. } => {}
        }
    }

    /// Each `_` of `rule` that is an index or a part of a pattern.
    pub(super) fn wildcards(&self, rule: &Rule) -> HashSet<*const Expr> {
        let mut patterns: Vec<&Expr> = tree::arguments(rule).iter().map(AsRef::as_ref).collect();
        tree::each_of_rule(rule, &mut |expr| match expr {
            Expr::RefDot { .. } | Expr::RefBrack { .. } => patterns.extend(tree::indexes(expr)),
            Expr::AssignExpr { lhs, rhs, .. } => patterns.extend([lhs.as_ref(), rhs.as_ref()]),
            Expr::Call { fcn, params, .. } => {
                let has_output = callee(&self.names, self.rules, fcn).has_output(params.len());
                patterns.extend(params.last().filter(|_| has_output).map(AsRef::as_ref));
            }
            _ => {}
        });
        tree::each_statement(rule, &mut |statement| {
            if let Literal::SomeIn { key, value, .. } = &statement.literal {
                patterns.extend(key.iter().chain([value]).map(AsRef::as_ref));
            }
        });
        let mut wildcards = HashSet::new();
        while let Some(pattern) = patterns.pop() {
            match pattern {
                Expr::Var { span, .. } if span.text() == "_" => {
                    wildcards.insert(std::ptr::from_ref(pattern));
                }
                Expr::Array { items, .. } => patterns.extend(items.iter().map(AsRef::as_ref)),
                Expr::Object { fields, .. } => {
                    patterns.extend(fields.iter().map(|(_, _, value)| value.as_ref()));
                }
                _ => {}
            }
        }
        wildcards
    }

    /// Adds the variables that `expr` or a part of it binds.
    pub(super) fn expression<'t>(&self, expr: &'t Expr, names: &mut BTreeSet<&'t str>) {
        match expr {
            Expr::AssignExpr { lhs, rhs, .. } => [lhs, rhs].into_iter().for_each(|side| pattern(side, names)),
            Expr::Call { fcn, params, .. } => {
                if callee(&self.names, self.rules, fcn).has_output(params.len())
                    && let Some(output) = params.last()
                {
                    pattern(output, names);
                }
            }
            Expr::RefDot { .. } | Expr::RefBrack { .. } => {
                tree::indexes(expr).for_each(|index| pattern(index, names));
            }
            _ => {}
        }
        for part in tree::parts(expr) {
            if let ExprPart::Expr(expr) = part {
                self.expression(expr, names);
            }
        }
    }
}
