//! Rewrites modules where the embedded engine evaluates them differently from OPA. Lines keep their numbers.
//!
//! Each submodule implements one kind of change and documents its cases.

mod aliases;
mod bodies;
mod declarations;
mod divisors;
pub(super) mod heads;
mod imports;
mod members;
mod memberships;
mod negations;
pub(super) mod objects;
mod orders;
mod outputs;
mod partials;
mod quantified;
mod render;
mod terms;
mod walks;
mod wildcards;

use std::collections::BTreeSet;
use std::rc::Rc;

use regorus::unstable::{Expr, Literal, Query, Ref, Rule};

use super::edit::{Edit, EditedText, offset};
use super::module::{Module, Negation};
use super::tree::{self, ExprPart};
pub(super) use divisors::{DIVISOR, unless_zero};
pub(super) use members::is_membership;
pub(super) use memberships::{MEMBER, MEMBER_WITH_KEY, has, has_at};
use negations::Lifted;
use quantified::Meanings;
use render::Renderer;
pub(super) use walks::{WALK, is_generator, walked};

/// The prefix of all names that rewrites introduce.
pub(super) const RESERVED: &str = "policysync_";

/// The text of `module` for the embedded engine.
pub(super) fn rewritten(module: &Module) -> EditedText {
    let meanings = Rc::new(Meanings::of(module));
    let mut text = Changes { module, meanings, edits: Vec::new(), braces: BTreeSet::new() };
    imports::rewrite(&mut text);
    for rule in &module.tree.policy {
        let Rule::Spec { bodies, .. } = rule.as_ref() else { continue };
        let mut arguments = Defined::new();
        tree::arguments(rule).iter().for_each(|argument| tree::pattern(argument, &mut arguments));
        text.edits.extend(bodies::edits(&text, rule, &arguments));
        objects::rewrite_parameters(&mut text, rule);
        let defined: Vec<Defined<'_>> =
            bodies.iter().map(|body| text.query(&body.query, &arguments)).collect();
        let mut moved = Vec::new();
        if bodies.is_empty() {
            moved.extend(heads::rewrite_without_body(&mut text, rule, &arguments));
        }
        for (body, defined) in bodies.iter().zip(&defined) {
            moved.extend(heads::rewrite(&mut text, rule, body, defined));
        }
        let keys = tree::parts(tree::reference(rule)).into_iter().filter_map(|part| match part {
            ExprPart::Expr(key) => Some(key),
            ExprPart::Comprehension(..) => None,
        });
        let of_head = keys.chain(tree::head_value(rule)).map(|value| (value, &arguments));
        let of_bodies = bodies
            .iter()
            .zip(&defined)
            .filter_map(|(body, defined)| Some((body.assign.as_ref()?.value.as_ref(), defined)));
        for (value, defined) in of_head.chain(of_bodies) {
            if !moved.iter().any(|moved| std::ptr::eq(*moved, value)) {
                text.expr(value, defined, &Lifted::default());
            }
        }
    }
    text.finish()
}

/// The number of rules in the rewritten text for `policy`, including added rules. Rules that are not `counted` are
/// skipped.
pub(super) fn count(policy: &[Ref<Rule>], counted: impl Fn(&Rule) -> bool) -> usize {
    let own = policy.iter().filter(|rule| counted(rule)).map(|rule| 1 + bodies::further(rule).len());
    let added = partials::followed(policy).into_iter().filter(|(rule, _)| counted(rule));
    own.sum::<usize>() + added.count()
}

/// The names that are bound in every solution of a query.
type Defined<'t> = BTreeSet<&'t str>;

/// The names that are bound in every solution of `query`: the `outer` names, and all names that are used outside of
/// `not` and of comprehensions.
fn defined<'t>(query: &'t Query, outer: &Defined<'t>) -> Defined<'t> {
    let mut names = outer.clone();
    for statement in &query.stmts {
        if !matches!(statement.literal, Literal::NotExpr { .. }) {
            tree::expressions(statement).into_iter().for_each(|expr| tree::used(expr, &mut names));
        }
    }
    names
}

/// Whether `expr` may be undefined when its statement is evaluated.
fn may_be_undefined(expr: &Expr, defined: &Defined<'_>) -> bool {
    match expr {
        Expr::Var { span, .. } => !defined.contains(span.text()),
        Expr::Array { .. } | Expr::Set { .. } | Expr::Object { .. } => {
            tree::parts(expr).into_iter().any(|part| match part {
                ExprPart::Expr(expr) => may_be_undefined(expr, defined),
                ExprPart::Comprehension(..) => false,
            })
        }
        Expr::ArrayCompr { .. } | Expr::SetCompr { .. } | Expr::ObjectCompr { .. } => false,
        Expr::String { .. }
        | Expr::RawString { .. }
        | Expr::Number { .. }
        | Expr::Bool { .. }
        | Expr::Null { .. } => false,
        _ => true,
    }
}

/// The changes to a text.
struct Changes<'m> {
    module: &'m Module,
    meanings: Rc<Meanings>,
    edits: Vec<Edit>,
    /// The bodies that need braces, by their first and last byte.
    braces: BTreeSet<(u32, u32)>,
}

impl<'m> Changes<'m> {
    /// Rewrites `query`. Returns the names that are bound in every solution of `query`.
    fn query<'t>(&mut self, query: &'t Query, outer: &Defined<'t>) -> Defined<'t> {
        let defined = defined(query, outer);
        declarations::rewrite(self, query);
        aliases::rewrite(self, query);
        let late = orders::late(query, outer);
        for statement in &query.stmts {
            if late.iter().any(|late| std::ptr::eq(*late, statement)) {
                self.edits.push(orders::removed(self.module, statement));
                continue;
            }
            self.edits.extend(members::edit(self.module, statement));
            self.edits.extend(walks::edits_of_statement(self.module, statement));
            self.edits.extend(outputs::edits(self.module, statement));
            self.edits.extend(wildcards::edits(self.module, statement));
            if objects::sides(statement).is_some() {
                objects::rewrite(self, statement, &defined);
                self.brace(query);
            }
            objects::rewrite_declaring(self, statement, &defined);
            let lifted = match self.module.negation {
                Negation::OfExpressions => negations::lifted(statement, &defined),
                Negation::OfBodies => Lifted::default(),
            };
            if !lifted.is_empty() {
                self.edits.extend(lifted.edits(self.module, &self.meanings, statement, &defined));
                self.brace(query);
            }
            for expr in tree::expressions(statement) {
                self.expr(expr, &defined, &lifted);
            }
            if let Literal::Every { key, value, query, .. } = &statement.literal {
                let mut inner = defined.clone();
                inner.extend(key.iter().chain([value]).map(|span| span.text()));
                self.query(query, &inner);
            }
        }
        let renderer = Renderer::new(&defined, &self.meanings);
        let late: String = late.into_iter().map(|late| format!("; {}", renderer.statement(late))).collect();
        self.append(query, &late);
        defined
    }

    /// Rewrites `expr`, except for its parts that are `lifted`.
    fn expr<'t>(&mut self, expr: &'t Expr, defined: &Defined<'t>, lifted: &Lifted<'_>) {
        if lifted.name(expr).is_some() {
            return;
        }
        for index in tree::indexes(expr).filter(|index| self.meanings.is_quantified(index)) {
            let span = index.span();
            self.edits.push(Edit::insert(span.start, "[".to_owned()));
            self.edits.push(Edit::insert(span.end, "][0]".to_owned()));
        }
        self.edits.extend(walks::edits(self.module, expr));
        self.edits.extend(memberships::edits(self.module, expr));
        self.edits.extend(divisors::edits(self.module, expr));
        for part in tree::parts(expr) {
            match part {
                ExprPart::Expr(expr) => self.expr(expr, defined, lifted),
                ExprPart::Comprehension(query, terms) => {
                    let inner = self.query(query, defined);
                    for term in terms {
                        if !terms::rewrite(self, query, term, &inner) {
                            self.expr(term, defined, lifted);
                        }
                    }
                }
            }
        }
    }

    /// Appends `text` to the body `query`.
    fn append(&mut self, query: &Query, text: &str) {
        let Some(last) = query.stmts.last().filter(|_| !text.is_empty()) else { return };
        self.edits.push(Edit::insert(closed(self.module, last.span.end), text.to_owned()));
        self.brace(query);
    }

    /// Encloses `query` in braces, if it is a body without braces. All other queries have delimiters already.
    fn brace(&mut self, query: &Query) {
        let (Some(first), Some(last)) = (query.stmts.first(), query.stmts.last()) else { return };
        // Without braces, the query and its first statement begin with the same token.
        if first.span.start == query.span.start {
            let start = opened(self.module, query.span.start);
            self.braces.insert((start, closed(self.module, last.span.end)));
        }
    }

    fn finish(self) -> EditedText {
        let open = self.braces.iter().map(|(start, _)| Edit::insert(*start, "{ ".to_owned()));
        let close = self.braces.iter().map(|(_, end)| Edit::insert(*end, " }".to_owned()));
        // Edits at the same place keep this order.
        let rules = partials::edits(self.module);
        EditedText::new(&self.module.text, open.chain(self.edits).chain(close).chain(rules).collect())
    }
}

/// The offset of `operator` in the text after an expression. Closing parentheses, blanks and comments may precede it.
fn after(text: &str, operator: &str) -> Option<u32> {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        if rest.starts_with(operator) {
            return u32::try_from(at).ok();
        }
        at += match rest.chars().next()? {
            '#' => rest.find('\n')?,
            next => next.len_utf8(),
        };
    }
}

/// The end in the text of an element that ends at `end` in the tree. The tree has strings without their quotes.
fn closed(module: &Module, end: u32) -> u32 {
    end + u32::from(module.text[end as usize..].starts_with(['"', '`']))
}

/// The start in the text of an element that starts at `start` in the tree. The tree has strings without their quotes.
fn opened(module: &Module, start: u32) -> u32 {
    start - u32::from(module.text[..start as usize].ends_with(['"', '`']))
}

/// The start of `expr` in the text. For an object, the tree has the start of the last field instead.
fn start(module: &Module, expr: &Expr) -> u32 {
    match expr {
        Expr::Object { fields, .. } if !fields.is_empty() => {
            let field = fields[0].0.start;
            brace_before(&module.text[..field as usize]).map_or(field, offset)
        }
        _ => opened(module, expr.span().start),
    }
}

/// The offset of the brace at the end of `text`, followed only by blanks and comments.
fn brace_before(text: &str) -> Option<usize> {
    let is_blank =
        |rest: &str| rest.lines().all(|line| matches!(line.trim_start().chars().next(), None | Some('#')));
    // A comment after the brace may contain another brace.
    let braces = text.rmatch_indices('{').map(|(at, _)| at);
    braces.take_while(|at| is_blank(text[at + 1..].trim_end_matches(['"', '`']))).last()
}

/// Replaces `expr` by `text`. No line break may follow a name, because the rest of a reference must be on the same
/// line.
fn replaced(module: &Module, expr: &Expr, text: &str) -> Edit {
    let (start, end) = (start(module, expr), closed(module, expr.span().end));
    let lines = module.text[start as usize..end as usize].matches('\n').count();
    Edit { start, end, text: "\n".repeat(lines) + text }
}

/// The rewritten text of a module with this text.
#[cfg(test)]
fn of_text(text: &str) -> String {
    use crate::module::{ModuleId, Text};

    let module = Module::parse(&Text { id: ModuleId::new("a"), text: text.into() }).unwrap();
    let rewritten = rewritten(&module).text().clone();
    let again = Text { id: ModuleId::new("a"), text: rewritten.clone() };
    assert!(Module::parse(&again).is_ok(), "{rewritten}");
    assert_eq!(rewritten.lines().count(), text.lines().count(), "{rewritten}");
    rewritten.to_string()
}

/// Asserts that each first text, as the body of a rule, is rewritten to the second.
#[cfg(test)]
fn assert_bodies(cases: &[(&str, &str)]) {
    let module = |body: &str| format!("package a\nimport rego.v1\np if {{ {body} }}\n");
    for (body, expected) in cases {
        assert_eq!(of_text(&module(body)), module(expected));
    }
}
