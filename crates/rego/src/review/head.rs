//! Finds the object that the head of a `deny` names.

use std::collections::BTreeSet;

use regorus::unstable::{Expr, Query, Ref, Rule};

use super::{ADMISSION, AUTHORIZATION, term};
use crate::edit::{Edit, offset_of};
use crate::module::{Module, name_of, place};
use crate::tree;

/// The queried rule.
const DENY: &str = "deny";

/// The kind, namespace and name in the `resource` of a `deny`: each is a variable, a constant, or `_` for any other
/// term.
pub(super) struct ReviewedResource<'t> {
    terms: [Term<'t>; 3],
}

enum Term<'t> {
    Variable(&'t str),
    Constant(String),
    Any,
}

impl<'t> Term<'t> {
    fn of(expr: &'t Expr) -> Self {
        match (name_of(expr), term(expr)) {
            (Some(name), _) => Self::Variable(name),
            (None, Some(constant)) => Self::Constant(constant),
            (None, None) => Self::Any,
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Variable(name) => name,
            Self::Constant(constant) => constant,
            Self::Any => "_",
        }
    }
}

impl<'t> ReviewedResource<'t> {
    /// The resource in the head of `rule`; `None` if the rule is not a `deny` or names no object.
    pub(super) fn of(module: &Module, rule: &'t Rule) -> Option<Self> {
        let head = denial(module, rule)?;
        let resource = tree::field(head, "resource")?;
        let of = |name| tree::field(resource, name).map(Term::of);
        Some(Self { terms: [of("kind")?, of("namespace")?, of("name")?] })
    }

    /// Whether the kind, namespace and name in the `terms` of `matches` are the same as in the head.
    pub(super) fn is(&self, terms: &[Ref<Expr>]) -> bool {
        let is_same = |(head, expr): (&Term<'_>, &Ref<Expr>)| match head {
            Term::Variable(name) => name_of(expr) == Some(name),
            Term::Constant(constant) => name_of(expr).is_some() || term(expr).as_ref() == Some(constant),
            Term::Any => false,
        };
        self.terms.iter().zip(terms).all(is_same)
    }

    /// The kind, if it is constant.
    pub(super) fn kind(&self) -> Option<String> {
        match &self.terms[0] {
            Term::Constant(constant) => serde_json::from_str(constant).ok(),
            Term::Variable(_) | Term::Any => None,
        }
    }

    /// A statement that unifies the object under review with the head's resource.
    pub(super) fn statement(&self) -> String {
        let [kind, namespace, name] = self.terms.each_ref().map(Term::text);
        format!("[{kind}, {namespace}, {name}, _] = input.reviewed")
    }

    /// Adds the [statement](Self::statement) to `query`: at its start, or at its end if `query` declares a variable of
    /// the statement.
    pub(super) fn statement_edits(&self, query: &Query) -> Vec<Edit> {
        let statement = self.statement();
        let (span, first) = (&query.span, query.stmts.first().map(|statement| statement.span.start));
        if first == Some(span.start) {
            // The body has no braces.
            return vec![
                Edit::insert(span.start, format!("{{ {statement}; ")),
                Edit::insert(span.end, " }".to_owned()),
            ];
        }
        let mut declared = BTreeSet::new();
        query.stmts.iter().for_each(|statement| tree::declared(statement, &mut declared));
        let declares = |term: &Term<'_>| matches!(term, Term::Variable(name) if declared.contains(name));
        if self.terms.iter().any(declares) {
            vec![Edit::insert(span.end - 1, format!("; {statement} "))]
        } else {
            vec![Edit::insert(span.start + 1, format!(" {statement};"))]
        }
    }
}

/// Adds the module's id to the head of `rule`, if `rule` is a `deny` whose head is an object.
pub(super) fn policy_id_edit(module: &Module, rule: &Rule) -> Option<Edit> {
    let head = denial(module, rule)?;
    let Expr::Object { fields, .. } = head else { return None };
    // For an object of several fields, the tree has a wrong byte offset. The line and the column of the object are
    // right.
    let start = offset_of(&module.text, place(head.span()));
    let is_written_out = module.text[start..].starts_with('{');
    let start = u32::try_from(start).ok()?;
    let id = serde_json::to_string(module.id().as_str()).ok()?;
    let comma = if fields.is_empty() { "" } else { ", " };
    (is_written_out && tree::field(head, "policy").is_none())
        .then(|| Edit::insert(start + 1, format!("\"policy\": {id}{comma}")))
}

/// Whether `rule` is a `deny` in the package for admission or for authorization.
pub(crate) fn is_denial(module: &Module, rule: &Rule) -> bool {
    matches!(module.purpose, Some(ADMISSION | AUTHORIZATION))
        && tree::constants(tree::reference(rule)) == [DENY]
}

/// The value or element in the head of `rule`, if `rule` [is a denial](is_denial).
pub(crate) fn denial<'t>(module: &Module, rule: &'t Rule) -> Option<&'t Expr> {
    tree::head_value(rule).filter(|_| is_denial(module, rule))
}
