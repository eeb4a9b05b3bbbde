//! What is under review: `matches[[kind, namespace, name, object]]`, and where it is in a module.
//!
//! The first policy controllers had `data.k8s.matches`, a set of all objects with the one under review at its place. Built
//! whole, it takes half a second for 10,000 objects. So a module is edited before the engine reads it, at places that its tree
//! names, and no line moves:
//!
//! - a `deny` whose head is an object carries the module's id in `policy`;
//! - one whose head has a `resource` begins with `[kind, namespace, name, _] = input.reviewed`;
//! - `matches[[…]]` of these three terms is `[kind, namespace, name, object] = input.reviewed`;
//! - any other is `object = data.kubernetes[kind][namespace][name]`.
//!
//! This says the same, because whoever asks puts the object under review at its place in `data.kubernetes`, and drops what
//! is denied of another object.

mod head;

use std::collections::{BTreeSet, HashSet};

use regorus::unstable::{Expr, Literal, LiteralStmt, Ref, Rule};

use head::{Reviewed, names_policy};
pub(super) use head::{denial, is_denial};

use super::asked::{ADMISSION, AUTHORIZATION};
use super::edit::{Edit, Edited};
use super::fault::Fault;
use super::module::{Module, Syntax, name_of};
use super::names::{Names, Path};
use super::tree;

/// Where the set is in `data`.
const MATCHES: [&str; 3] = ["data", "k8s", "matches"];
/// How many terms it has.
const TERMS: usize = 4;

/// Whether `module` is somebody's own `data.k8s.matches`, whose place the edit takes.
#[must_use]
pub fn is_built_in(module: &Module) -> bool {
    let is_matches = |rule: &Ref<Rule>| tree::constants(tree::reference(rule)) == [MATCHES[2]];
    module.package == MATCHES[..2]
        && !module.tree.policy.is_empty()
        && module.tree.policy.iter().all(is_matches)
}

/// How a module names `matches`.
pub(super) struct Matches {
    /// Whether it need not import it.
    undeclared: bool,
}

impl Matches {
    pub(super) fn of(module: &Module, names: &Names<'_>) -> Self {
        let is_rule = |rule: &Ref<Rule>| name_of(tree::steps(tree::reference(rule)).0) == Some(MATCHES[2]);
        let declared = names.import(MATCHES[2]).is_some() || module.tree.policy.iter().any(is_rule);
        Self { undeclared: !declared && module.asked_for.is_some() }
    }

    /// Whether `expr` is `matches`, and what follows it.
    fn path<'t>(&self, expr: &'t Expr, names: &Names<'t>) -> Option<Path<'t>> {
        let path = match name_of(tree::steps(expr).0) {
            Some(name) if name == MATCHES[2] && self.undeclared => {
                names.path_of_rule(expr)?.replanted(names.package, &MATCHES)
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

    /// The kind that `expr` is to match, where it is one of these statements.
    pub(super) fn kind_of<'t>(&self, expr: &'t Expr, names: &Names<'t>) -> Option<&'t Expr> {
        self.terms(expr, names).map(|terms| terms[0].as_ref())
    }
}

/// `expr` as text of Rego, where it is a variable or a constant.
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

/// Of which kinds a module denies objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Denies {
    /// Plurals, as the module calls them.
    pub kinds: BTreeSet<String>,
    /// Whether a denial names none.
    pub any: bool,
}

impl Denies {
    /// Of which kinds `modules` deny objects that are written.
    #[must_use]
    pub fn of<'m>(modules: impl Iterator<Item = &'m Module>) -> Self {
        let mut denies = Self::default();
        for module in modules.filter(|module| module.asked_for == Some(ADMISSION)) {
            for rule in module.tree.policy.iter().filter(|rule| is_denial(module, rule)) {
                match Reviewed::of(module, rule).and_then(|reviewed| reviewed.kind()) {
                    Some(kind) => drop(denies.kinds.insert(kind)),
                    None => denies.any = true,
                }
            }
        }
        denies
    }

    /// All that any of `several` denies.
    #[must_use]
    pub fn of_all<'d>(several: impl Iterator<Item = &'d Self>) -> Self {
        let mut denies = Self::default();
        for one in several {
            denies.kinds.extend(one.kinds.iter().cloned());
            denies.any |= one.any;
        }
        denies
    }
}

/// The text that the engine reads for `module`.
///
/// # Errors
///
/// Where `matches` stands where it cannot be edited.
pub fn edit(module: &Module) -> Result<Edited, Vec<Fault>> {
    let names = Names::of(module);
    let mut editor = Editor {
        matches: Matches::of(module, &names),
        module,
        names,
        edits: Vec::new(),
        edited: HashSet::new(),
    };
    module.tree.policy.iter().for_each(|rule| editor.rule(rule));
    let faults = editor.others();
    if faults.is_empty() { Ok(Edited::new(&module.text, editor.edits)) } else { Err(faults) }
}

struct Editor<'m> {
    module: &'m Module,
    names: Names<'m>,
    matches: Matches,
    edits: Vec<Edit>,
    /// Where each `matches` begins that was edited.
    edited: HashSet<u32>,
}

impl<'m> Editor<'m> {
    fn rule(&mut self, rule: &'m Rule) {
        let reviewed = Reviewed::of(self.module, rule);
        self.edits.extend(names_policy(self.module, rule));
        if let (Some(reviewed), Rule::Spec { bodies, span, .. }) = (&reviewed, rule) {
            for body in bodies {
                self.edits.extend(reviewed.begins(&body.query));
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
        let always = self.module.asked_for == Some(AUTHORIZATION);
        tree::each_statement(rule, &mut |statement| {
            if let Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } = &statement.literal {
                self.replace(expr, always);
            }
        });
    }

    /// Replaces `expr` where it is `matches[[…]]`, by what is under review or by any object.
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
        // A statement that was written over several lines.
        let lines = self.module.slice(span).matches('\n').count();
        self.edits.push(Edit { start: span.start, end: span.end, text: text + &"\n".repeat(lines) });
    }

    /// `matches` at other places.
    fn others(&self) -> Vec<Fault> {
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
