//! Replaces `matches[[kind, namespace, name, object]]` in modules by statements that read single objects.
//!
//! Early policy controllers provided the set `data.k8s.matches`, which contains all objects, including the object under
//! review. Building the whole set takes half a second for 10,000 objects. Instead, each module is edited before the
//! engine parses it. Lines keep their numbers.
//!
//! - If the head of a `deny` is an object, the edit adds the field `policy` with the module's id to this object.
//! - If this object has the field `resource`, the edit adds `[kind, namespace, name, _] = input.reviewed` to the body
//!   of the `deny`. The kind, namespace and name are those in `resource`.
//! - In such a body, `matches[[…]]` with the kind, namespace and name in `resource` becomes
//!   `[kind, namespace, name, object] = input.reviewed`. In authorization policies, every `matches[[…]]` becomes this
//!   statement.
//! - Any other `matches[[…]]` becomes `object = data.kubernetes[kind][namespace][name]`.
//!
//! The result is the same as with the set, because the caller puts the object under review into `data.kubernetes`, and
//! drops denials of other objects.

mod head;

use std::collections::{BTreeSet, HashSet};

use regorus::unstable::{Expr, Literal, LiteralStmt, Ref, Rule};

use head::{ReviewedResource, policy_id_edit};
pub(super) use head::{denial, is_denial};

use super::edit::{Edit, EditedText};
use super::fault::Fault;
use super::module::{Module, Syntax, name_of};
use super::names::{Names, Path};
use super::queries::{ADMISSION, AUTHORIZATION};
use super::tree;

/// The path of the set `matches` in `data`.
const MATCHES: [&str; 3] = ["data", "k8s", "matches"];
/// The number of terms in an element of the set `matches`.
const TERMS: usize = 4;

/// Whether `module` only defines the set `data.k8s.matches`. Such a module is not loaded, because the edit replaces all
/// uses of the set.
#[must_use]
pub fn is_built_in(module: &Module) -> bool {
    let is_matches = |rule: &Ref<Rule>| tree::constants(tree::reference(rule)) == [MATCHES[2]];
    module.package == MATCHES[..2]
        && !module.tree.policy.is_empty()
        && module.tree.policy.iter().all(is_matches)
}

/// Recognizes references to `data.k8s.matches` in a module.
pub(super) struct Matches {
    /// Whether the name `matches` refers to `data.k8s.matches` without an import.
    undeclared: bool,
}

impl Matches {
    pub(super) fn of(module: &Module, names: &Names<'_>) -> Self {
        let is_rule = |rule: &Ref<Rule>| name_of(tree::steps(tree::reference(rule)).0) == Some(MATCHES[2]);
        let declared = names.import(MATCHES[2]).is_some() || module.tree.policy.iter().any(is_rule);
        Self { undeclared: !declared && module.purpose.is_some() }
    }

    /// The path of `expr`, if it refers to `matches`.
    fn path<'t>(&self, expr: &'t Expr, names: &Names<'t>) -> Option<Path<'t>> {
        let path = match name_of(tree::steps(expr).0) {
            Some(name) if name == MATCHES[2] && self.undeclared => {
                names.path_of_rule(expr)?.with_root(names.package, &MATCHES)
            }
            _ => names.path(expr)?,
        };
        path.constants.iter().map(String::as_str).take(MATCHES.len()).eq(MATCHES).then_some(path)
    }

    /// The four terms of `matches[[kind, namespace, name, object]]`, each a variable or a constant.
    fn terms<'t>(&self, expr: &'t Expr, names: &Names<'t>) -> Option<&'t [Ref<Expr>]> {
        let path = self.path(expr, names)?;
        let [tree::Step::Index(Expr::Array { items, .. })] = path.rest.as_slice() else { return None };
        let are_simple = items.len() == TERMS && items.iter().all(|item| term(item).is_some());
        (are_simple && path.constants.len() == MATCHES.len()).then_some(items)
    }

    /// The kind in `expr`, if `expr` is `matches[[kind, namespace, name, object]]`.
    pub(super) fn kind_of<'t>(&self, expr: &'t Expr, names: &Names<'t>) -> Option<&'t Expr> {
        self.terms(expr, names).map(|terms| terms[0].as_ref())
    }
}

/// The Rego text of `expr`, if it is a variable or a constant.
fn term(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Var { span, .. } => Some(span.text().to_owned()),
        Expr::String { value, .. }
        | Expr::RawString { value, .. }
        | Expr::Number { value, .. }
        | Expr::Bool { value, .. }
        | Expr::Null { value, .. } => value.to_json_str().ok(),
        _ => None,
    }
}

/// The kinds of the objects that modules may deny.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeniedKinds {
    /// Plurals, as in the modules.
    pub kinds: BTreeSet<String>,
    /// Whether a denial has no constant kind, so that it may deny objects of any kind.
    pub any: bool,
}

impl DeniedKinds {
    /// The kinds whose objects `modules` may deny in admission reviews.
    #[must_use]
    pub fn of<'m>(modules: impl Iterator<Item = &'m Module>) -> Self {
        let mut denied_kinds = Self::default();
        for module in modules.filter(|module| module.purpose == Some(ADMISSION)) {
            for rule in module.tree.policy.iter().filter(|rule| is_denial(module, rule)) {
                match ReviewedResource::of(module, rule).and_then(|reviewed| reviewed.kind()) {
                    Some(kind) => drop(denied_kinds.kinds.insert(kind)),
                    None => denied_kinds.any = true,
                }
            }
        }
        denied_kinds
    }

    /// The union of `several`.
    #[must_use]
    pub fn of_all<'d>(several: impl Iterator<Item = &'d Self>) -> Self {
        let mut denied_kinds = Self::default();
        for one in several {
            denied_kinds.kinds.extend(one.kinds.iter().cloned());
            denied_kinds.any |= one.any;
        }
        denied_kinds
    }
}

/// Edits `module` for the engine.
///
/// # Errors
///
/// If `matches` is used in a way that cannot be edited.
pub fn edit(module: &Module) -> Result<EditedText, Vec<Fault>> {
    let names = Names::of(module);
    let mut editor = Editor {
        matches: Matches::of(module, &names),
        module,
        names,
        edits: Vec::new(),
        edited: HashSet::new(),
    };
    module.tree.policy.iter().for_each(|rule| editor.rule(rule));
    let faults = editor.unsupported_uses();
    if faults.is_empty() { Ok(EditedText::new(&module.text, editor.edits)) } else { Err(faults) }
}

struct Editor<'m> {
    module: &'m Module,
    names: Names<'m>,
    matches: Matches,
    edits: Vec<Edit>,
    /// The start of each edited `matches`.
    edited: HashSet<u32>,
}

impl<'m> Editor<'m> {
    fn rule(&mut self, rule: &'m Rule) {
        let reviewed = ReviewedResource::of(self.module, rule);
        self.edits.extend(policy_id_edit(self.module, rule));
        if let (Some(reviewed), Rule::Spec { bodies, span, .. }) = (&reviewed, rule) {
            for body in bodies {
                self.edits.extend(reviewed.statement_edits(&body.query));
                let is_same = |statement: &&LiteralStmt| {
                    let Literal::Expr { expr, .. } = &statement.literal else { return false };
                    self.matches.terms(expr, &self.names).is_some_and(|terms| reviewed.is(terms))
                };
                if let Some(LiteralStmt { literal: Literal::Expr { expr, .. }, .. }) =
                    body.query.stmts.iter().find(is_same)
                {
                    self.replace(expr, true);
                }
            }
            if bodies.is_empty() {
                let keyword = if self.module.syntax == Syntax::V1 { " if" } else { "" };
                let text = format!("{keyword} {{ {} }}", reviewed.statement());
                self.edits.push(Edit::insert(span.end, text));
            }
        }
        let always = self.module.purpose == Some(AUTHORIZATION);
        tree::each_statement(rule, &mut |statement| {
            if let Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } = &statement.literal {
                self.replace(expr, always);
            }
        });
    }

    /// Replaces `expr`, if it is `matches[[…]]`. If `reviewed`, the new text unifies the terms with the object under
    /// review; otherwise it looks up an object in `data.kubernetes`.
    fn replace(&mut self, expr: &'m Expr, reviewed: bool) {
        let Some(terms) = self.matches.terms(expr, &self.names) else { return };
        let span = expr.span();
        if !self.edited.insert(span.start) {
            return;
        }
        let terms: Vec<String> = terms.iter().filter_map(|expr| term(expr)).collect();
        let [kind, namespace, name, object] = terms.as_slice() else { return };
        let place = match namespace.as_str() {
            "\"\"" => format!("data.kubernetes[{kind}][{name}]"),
            _ => format!("data.kubernetes[{kind}][{namespace}][{name}]"),
        };
        let text = match (reviewed, object.as_str()) {
            (true, _) => format!("[{kind}, {namespace}, {name}, {object}] = input.reviewed"),
            (false, "_") => place,
            (false, _) => format!("{object} = {place}"),
        };
        // Keeps the line numbers after a statement of several lines.
        let lines = self.module.slice(span).matches('\n').count();
        self.edits.push(Edit { start: span.start, end: span.end, text: text + &"\n".repeat(lines) });
    }

    /// Faults of the uses of `matches` that are not edited.
    fn unsupported_uses(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        tree::each(&self.module.tree, &mut |expr| {
            let is_reference = matches!(expr, Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. });
            if is_reference
                && self.matches.path(expr, &self.names).is_some()
                && !self.edited.contains(&expr.span().start)
            {
                let text = "matches can only be a statement of four variables or constants, \
                            matches[[kind, namespace, name, object]]: read data.kubernetes instead";
                faults.push(self.module.fault(tree::start(expr), text));
            }
        });
        faults
    }
}

#[cfg(test)]
mod tests;
