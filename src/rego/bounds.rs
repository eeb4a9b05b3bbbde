//! Bounds the memory of expressions whose values the embedded engine may format.
//!
//! The engine's error about an operand of the wrong type quotes the operand. `print` formats its arguments, an index of `data` becomes
//! part of a path, and the error about a duplicate key of an object comprehension quotes the key and both values. An array that
//! contains another one 16 times, and so on for seven levels, takes little memory, but its text takes gigabytes. So the engine reads
//! these expressions as arguments of the functions below, which fail if the text exceeds the memory limit of the evaluation. No line
//! moves.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use regorus::unstable::{ArithOp, AssignOp, Expr, Literal, Query, Rule, RuleBody, RuleHead};
use regorus::{Engine, Value};

use super::edit::{Edit, Edited, place_of};
use super::fault::Fault;
use super::memory::size::{self, ELEMENT};
use super::memory::{self, LIMIT, OverLimit};
use super::module::Module;
use super::names::Names;
use super::tree;

/// Returns its argument, unless its text exceeds the memory limit.
const BOUNDED: &str = "policysync_bounded";
/// The same for an operand of a set operator: a set is not measured, because no error quotes it.
const SET: &str = "policysync_bounded_set";
/// Returns the last of a site, the arguments of a function, and one of its results. It fails if several results exceed the limit: the
/// engine's error quotes all of them.
const RESULT: &str = "policysync_bounded_result";
/// Returns its argument. The engine forms no path of an index of a call. And it rejects a module with an argument that nothing binds;
/// about an unbound variable in a head or in the term of a comprehension, its error quotes all variables.
const VALUE: &str = "policysync_bounded_value";
/// Returns the object of an array of pairs.
const OBJECT: &str = "policysync_bounded_object";
/// The most digits of an operand. A product has as many as both of its operands.
const DIGITS: usize = 40_000;
/// How many braces before a field may be that of its object.
const BRACES: usize = 16;
/// How many copies of a quoted value the engine makes.
const COPIES: usize = 4;

/// Why `module` cannot be bounded.
pub(super) fn fault(module: &Module) -> Option<Fault> {
    // A definition in a module would replace the function.
    if let Some(at) = module.text.find(BOUNDED) {
        let text = format!("names that begin with {BOUNDED} are reserved");
        return Some(Fault::new(&module.id, place_of(&module.text, at), text));
    }
    // The engine's error about another result of `walk` than an array quotes the result. OPA cannot replace relations, either.
    let mut replaced = None;
    for rule in &module.tree.policy {
        tree::each_statement(rule, &mut |statement| {
            let targets = statement.with_mods.iter().map(|with| &with.refr);
            replaced = replaced.take().or(targets.into_iter().find(|target| is(target, "walk")));
        });
    }
    replaced.map(|target| module.fault(target.span(), "with: walk cannot be replaced"))
}

/// Adds the functions to `engine`.
///
/// # Errors
///
/// If `engine` has them.
pub(super) fn add_to(engine: &mut Engine) -> Result<()> {
    engine.add_extension(
        BOUNDED.to_owned(),
        1,
        Box::new(|values: Vec<Value>| quoted(values.into_iter().next())),
    )?;
    engine.add_extension(
        SET.to_owned(),
        1,
        Box::new(|values: Vec<Value>| match values.into_iter().next() {
            Some(set @ Value::Set(_)) => Ok(set),
            value => quoted(value),
        }),
    )?;
    engine.add_extension(
        VALUE.to_owned(),
        1,
        Box::new(|values: Vec<Value>| Ok(values.into_iter().next().unwrap_or(Value::Undefined))),
    )?;
    engine.add_extension(RESULT.to_owned(), 3, Box::new(|values: Vec<Value>| result(&values)))?;
    engine.add_extension(OBJECT.to_owned(), 1, Box::new(|values: Vec<Value>| object(&values)))
}

fn quoted(value: Option<Value>) -> Result<Value> {
    let value = value.unwrap_or(Value::Undefined);
    match &value {
        Value::Null | Value::Bool(_) | Value::Undefined => {}
        Value::Number(_) => ensure!(size::digits(&value) <= DIGITS, "a number has more than {DIGITS} digits"),
        _ => {
            let text = size::written(&value, LIMIT).unwrap_or(usize::MAX);
            memory::check(text.saturating_mul(COPIES))?;
        }
    }
    Ok(value)
}

/// The results of a function for the same arguments: those, the last result, and how many bytes all of them take.
type Results = (Value, Value, usize);

thread_local! {
    /// By the site of the result.
    static RESULTS: RefCell<BTreeMap<Value, Results>> = const { RefCell::new(BTreeMap::new()) };
}

/// Forgets the results of this thread's evaluation.
pub(super) fn forget_results() {
    RESULTS.take();
}

fn result(values: &[Value]) -> Result<Value> {
    let [site, arguments, result] = values else { return Ok(Value::Undefined) };
    RESULTS.with_borrow_mut(|results| {
        let bytes = match results.get(site) {
            Some((before, last, bytes)) if are_same(before, arguments) => {
                if last == result {
                    return Ok(());
                }
                let both = [last, result].map(|value| size::copied(value, LIMIT).unwrap_or(usize::MAX));
                both.into_iter().fold(*bytes, usize::saturating_add)
            }
            _ => 0,
        };
        memory::check(bytes.saturating_mul(COPIES))?;
        results.insert(site.clone(), (arguments.clone(), result.clone(), bytes));
        Ok::<_, OverLimit>(())
    })?;
    Ok(result.clone())
}

/// Whether these are the arguments of one call. Collections are compared by their addresses.
fn are_same(one: &Value, other: &Value) -> bool {
    let (Value::Array(one), Value::Array(other)) = (one, other) else { return false };
    one.len() == other.len()
        && one.iter().zip(other.iter()).all(|pair| match pair {
            (Value::Array(one), Value::Array(other)) => Arc::ptr_eq(one, other),
            (Value::Set(one), Value::Set(other)) => Arc::ptr_eq(one, other),
            (Value::Object(one), Value::Object(other)) => Arc::ptr_eq(one, other),
            (one, other) => one == other,
        })
}

/// The object of an array of pairs.
fn object(values: &[Value]) -> Result<Value> {
    let Some(Value::Array(pairs)) = values.first() else { return Ok(Value::Undefined) };
    memory::check(pairs.len().saturating_mul(ELEMENT))?;
    let mut object = BTreeMap::new();
    for pair in pairs.iter() {
        let mut pair = pair.as_array()?.iter();
        let (Some(key), Some(value)) = (pair.next(), pair.next()) else { continue };
        match object.get(key) {
            Some(other) if other != value => bail!("value for key generated multiple times"),
            Some(_) => {}
            None => drop(object.insert(key.clone(), value.clone())),
        }
    }
    Ok(object.into())
}

/// `module` with bounds, as the embedded engine reads it.
pub(super) fn bounded(module: &Module) -> Edited {
    let rules = module.tree.policy.iter().map(|rule| tree::constants(tree::reference(rule)));
    let rules: BTreeSet<String> = rules.filter_map(|names| names.into_iter().next()).collect();
    let names = Names::of(module);
    let mut bounds = Bounds { id: module.id.as_str(), text: &module.text, ..Bounds::default() };
    for rule in &module.tree.policy {
        let bound = variables(rule);
        let is_bound = |name: &str| {
            ["input", "data"].contains(&name)
                || names.import(name).is_some()
                || bound.contains(name)
                || rules.contains(name)
        };
        bounds.assigned = assigned(rule);
        bounds.is_default = matches!(rule.as_ref(), Rule::Default { .. });
        tree::each_of_rule(rule, &mut |expr| bounds.expr(expr, &is_bound));
        if let Rule::Spec { bodies, .. } = rule.as_ref() {
            let head = tree::given(rule).into_iter().chain(indexes(rule));
            for body in bodies {
                let assigned = body.assign.as_ref().map(|assign| assign.value.as_ref());
                bounds.output(head.clone().chain(assigned), &body.query, &is_bound);
            }
            bounds.results(rule, bodies, &is_bound);
        }
    }
    // Edits at one place apply in this order.
    let edits = [bounds.ends, bounds.changed, bounds.opened].concat();
    Edited::new(&module.text, edits)
}

/// Whether `rule` may hold in several ways for the same arguments.
fn iterates(rule: &Rule, is_bound: &dyn Fn(&str) -> bool) -> bool {
    let mut iterates = false;
    tree::each_statement(rule, &mut |statement| {
        iterates |= matches!(statement.literal, Literal::SomeIn { .. } | Literal::SomeVars { .. });
    });
    tree::each_of_rule(rule, &mut |expr| match expr {
        Expr::RefDot { .. } | Expr::RefBrack { .. } => {
            iterates |= tree::steps(expr).1.into_iter().any(|step| match step {
                tree::Step::Index(index) => !are_bound(index, is_bound),
                tree::Step::Key(_) => false,
            });
        }
        Expr::Call { fcn, .. } => iterates |= is(fcn, "walk"),
        _ => {}
    });
    iterates
}

/// The variables that statements of `rule` unify with a reference or a call.
fn assigned(rule: &Rule) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    tree::each_statement(rule, &mut |statement| {
        let Literal::Expr { expr, .. } = &statement.literal else { return };
        let Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } = expr.as_ref() else { return };
        for (pattern, value) in [(lhs, rhs), (rhs, lhs)] {
            if matches!(value.as_ref(), Expr::RefDot { .. } | Expr::RefBrack { .. } | Expr::Call { .. }) {
                tree::pattern(pattern, &mut names);
            }
        }
    });
    names
}

/// The indexes in the head of `rule`.
fn indexes(rule: &Rule) -> impl Iterator<Item = &Expr> + Clone {
    let (_, steps) = tree::steps(tree::reference(rule));
    let indexes = steps.into_iter().filter_map(|step| match step {
        tree::Step::Index(index) => Some(index),
        tree::Step::Key(_) => None,
    });
    indexes.collect::<Vec<_>>().into_iter()
}

/// The variables of `rule` that are bound before any use, so that none of them iterates.
fn variables(rule: &Rule) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    tree::arguments(rule).iter().for_each(|argument| tree::pattern(argument, &mut names));
    let mut unbound = BTreeSet::new();
    tree::each_statement(rule, &mut |statement| match &statement.literal {
        Literal::SomeVars { vars, .. } => unbound.extend(vars.iter().map(|span| span.text())),
        _ => tree::declared(statement, &mut names),
    });
    names.retain(|name| !unbound.contains(name) && *name != "_");
    names
}

#[derive(Default)]
struct Bounds<'m> {
    id: &'m str,
    text: &'m str,
    /// Whether the expressions are of a default rule, whose value cannot be a call.
    is_default: bool,
    /// The variables that a statement of the rule unifies with a value.
    assigned: BTreeSet<&'m str>,
    /// Where the variables begin that are arguments already.
    wrapped: BTreeSet<u32>,
    opened: Vec<Edit>,
    changed: Vec<Edit>,
    ends: Vec<Edit>,
}

impl Bounds<'_> {
    fn expr(&mut self, expr: &Expr, is_bound: &dyn Fn(&str) -> bool) {
        match expr {
            Expr::ArithExpr { op, lhs, rhs, .. } => {
                let function = if matches!(op, ArithOp::Sub) { SET } else { BOUNDED };
                self.operand(lhs, function);
                self.operand(rhs, function);
            }
            Expr::BinExpr { lhs, rhs, .. } => {
                self.operand(lhs, SET);
                self.operand(rhs, SET);
            }
            Expr::Call { fcn, params, .. } if is(fcn, "print") => {
                params.iter().for_each(|param| self.operand(param, BOUNDED));
            }
            Expr::RefDot { .. } | Expr::RefBrack { .. } => self.reference(expr, is_bound),
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                self.output([term.as_ref()], query, is_bound);
            }
            // The engine takes the variable to be bound.
            Expr::AssignExpr { op: AssignOp::ColEq, rhs, .. }
                if matches!(rhs.as_ref(), Expr::Var { .. }) && !self.is_assigned(rhs, is_bound) =>
            {
                self.wrap(rhs, VALUE);
            }
            Expr::ObjectCompr { key, value, query, .. } if self.is_default => {
                self.output([key.as_ref(), value.as_ref()], query, is_bound);
                self.operand(key, BOUNDED);
                self.operand(value, BOUNDED);
            }
            Expr::ObjectCompr { span, key, value, query, .. } => {
                self.object((span.start as usize, span.end as usize), (key, value, query), is_bound)
            }
            _ => {}
        }
    }

    /// Bounds the results of the function `rule`, if it may have several for the same arguments.
    fn results(&mut self, rule: &Rule, bodies: &[RuleBody], is_bound: &dyn Fn(&str) -> bool) {
        let Rule::Spec { head: RuleHead::Func { assign, .. }, .. } = rule else { return };
        if !iterates(rule, is_bound) {
            return;
        }
        let mut names = BTreeSet::new();
        tree::arguments(rule).iter().for_each(|argument| tree::pattern(argument, &mut names));
        names.remove("_");
        let arguments = names.into_iter().collect::<Vec<_>>().join(", ");
        let assigned = bodies.iter().filter_map(|body| body.assign.as_ref());
        for assign in assign.iter().chain(assigned) {
            let value = &assign.value;
            let is_constant = match value.as_ref() {
                Expr::Bool { .. } | Expr::Null { .. } | Expr::Number { .. } => true,
                // The tree has no end of it.
                Expr::Set { items, .. } => items.is_empty(),
                _ => false,
            };
            if is_constant {
                continue;
            }
            let (start, end) = (self.start(value), self.end(value));
            let site = serde_json::Value::from(format!("{}:{start}", self.id));
            // Around the other edits of the same expression.
            self.opened.insert(0, Edit::insert(start, format!("{RESULT}({site}, [{arguments}], ")));
            self.changed.insert(0, Edit::insert(end, ")".to_owned()));
        }
    }

    /// Where `expr` begins. The tree has the places of strings without their quotes, and of an object that of its last field.
    fn start(&self, expr: &Expr) -> u32 {
        let start = expr.span().start;
        let Expr::Object { fields, .. } = expr else {
            return start - u32::from(self.text[..start as usize].ends_with(['"', '`']));
        };
        let Some((_, key, _)) = fields.first() else { return start };
        let key = self.start(key) as usize;
        let is_blank = |text: &str| {
            let mut lines = text.lines().map(|line| line.trim_matches([' ', '\t', '\r', '(']));
            lines.all(|line| line.is_empty() || line.starts_with('#'))
        };
        // Nearer braces are in comments.
        let braces = self.text[..key].rmatch_indices('{').map(|(at, _)| at).take(BRACES);
        let brace = braces.filter(|at| is_blank(&self.text[at + 1..key])).last();
        brace.map_or(start, |at| u32::try_from(at).unwrap_or(u32::MAX))
    }

    fn is_assigned(&self, variable: &Expr, is_bound: &dyn Fn(&str) -> bool) -> bool {
        matches!(variable, Expr::Var { span, .. } if is_bound(span.text()) || self.assigned.contains(span.text()))
    }

    /// Makes the variables of `outputs` arguments at the end of `query`.
    fn output<'t>(
        &mut self,
        outputs: impl IntoIterator<Item = &'t Expr>,
        query: &Query,
        is_bound: &dyn Fn(&str) -> bool,
    ) {
        let mut names = BTreeSet::new();
        for output in outputs {
            variables_of(output, &mut names);
            // The engine takes a variable that is the whole output to be bound.
            if matches!(output, Expr::Var { span, .. } if !is_bound(span.text()))
                && self.wrapped.insert(output.span().start)
            {
                self.wrap(output, VALUE);
            }
        }
        names.retain(|name| *name != "_" && !is_bound(name) && !self.assigned.contains(*name));
        let Some(last) = query.stmts.last() else { return };
        let end = self.closed(last.span.end);
        for name in names {
            let nth = self.changed.len();
            self.changed.push(Edit::insert(end, format!("; {BOUNDED}_{nth} := {VALUE}({name})")));
        }
    }

    /// The first index of a reference after a constant path in `data`.
    fn reference(&mut self, expr: &Expr, is_bound: &dyn Fn(&str) -> bool) {
        match expr {
            Expr::RefBrack { refr, index, .. } if is_static(refr) => {
                if are_bound(index, is_bound) {
                    self.operand(index, BOUNDED);
                } else if !matches!(refr.as_ref(), Expr::Var { .. }) && !is(index, "_") {
                    self.wrap(refr, VALUE);
                }
            }
            Expr::RefDot { refr, .. } | Expr::RefBrack { refr, .. } => self.reference(refr, is_bound),
            _ => {}
        }
    }

    /// Makes `expr` an argument of `function`, unless the module's own text bounds its value.
    fn operand(&mut self, expr: &Expr, function: &str) {
        let is_needed = match expr {
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } | Expr::Call { .. } => true,
            Expr::Array { .. } | Expr::Object { .. } | Expr::ArrayCompr { .. } | Expr::ObjectCompr { .. } => {
                true
            }
            // The tree has no end of `set()`.
            Expr::Set { items, .. } => function == BOUNDED && !items.is_empty(),
            Expr::SetCompr { .. } | Expr::BinExpr { .. } => function == BOUNDED,
            Expr::ArithExpr { .. } => true,
            _ => false,
        };
        if is_needed {
            self.wrap(expr, function);
        }
    }

    /// Makes `expr`, which is no text, an argument of `function`.
    fn wrap(&mut self, expr: &Expr, function: &str) {
        self.opened.push(Edit::insert(self.start(expr), format!("{function}(")));
        self.ends.push(Edit::insert(self.end(expr), ")".to_owned()));
    }

    /// Replaces `{key: value | query}` by a call with `[[key, value] | query]`.
    fn object(
        &mut self,
        (start, end): (usize, usize),
        (key, value, query): (&Expr, &Expr, &Query),
        is_bound: &dyn Fn(&str) -> bool,
    ) {
        let colon = self.find(self.end(key) as usize, ':');
        let bar = self.find(self.end(value) as usize, '|');
        let (Some(colon), Some(bar)) = (colon, bar) else { return };
        let is_whole = self.text[start..].starts_with('{') && self.text[..end].ends_with('}');
        if !is_whole || colon > value.span().start as usize || bar > query.span.start as usize {
            return;
        }
        let at = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let replace =
            |start: usize, text: &str| Edit { start: at(start), end: at(start + 1), text: text.to_owned() };
        self.output([key, value], query, is_bound);
        self.opened.push(replace(start, &format!("{OBJECT}([[")));
        self.changed.push(replace(colon, ","));
        self.changed.push(Edit::insert(at(bar), "]".to_owned()));
        self.changed.push(replace(end - 1, "])"));
    }

    /// Where `expr` ends. The tree has the places of strings without their quotes.
    fn end(&self, expr: &Expr) -> u32 {
        self.closed(expr.span().end)
    }

    fn closed(&self, end: u32) -> u32 {
        end + u32::from(self.text[end as usize..].starts_with(['"', '`']))
    }

    /// The first `wanted` from `start` on that is not in a comment.
    fn find(&self, start: usize, wanted: char) -> Option<usize> {
        let mut in_comment = false;
        let found = self.text[start..].char_indices().find(|(_, char)| {
            in_comment = *char != '\n' && (in_comment || *char == '#');
            !in_comment && *char == wanted
        });
        found.map(|(at, _)| start + at)
    }
}

fn is(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Var { span, .. } if span.text() == name)
}

/// Whether `reference` is a constant path in `data`. The engine formats an index that follows it.
fn is_static(reference: &Expr) -> bool {
    let (root, steps) = tree::steps(reference);
    is(root, "data") && steps.iter().all(|step| matches!(step, tree::Step::Key(_)))
}

/// Adds the variables of `expr` that are no index.
fn variables_of<'t>(expr: &'t Expr, names: &mut BTreeSet<&'t str>) {
    match expr {
        Expr::Var { span, .. } => drop(names.insert(span.text())),
        Expr::RefDot { refr, .. } | Expr::RefBrack { refr, .. } => variables_of(refr, names),
        _ => {
            for part in tree::parts(expr) {
                if let tree::Part::Expr(expr) = part {
                    variables_of(expr, names);
                }
            }
        }
    }
}

/// Whether all variables of `expr`, be they in arrays, sets or objects, have a value before it is evaluated. An index without one
/// iterates, and can be no argument.
fn are_bound(expr: &Expr, is_bound: &dyn Fn(&str) -> bool) -> bool {
    match expr {
        Expr::Var { span, .. } => is_bound(span.text()),
        Expr::Array { .. } | Expr::Set { .. } | Expr::Object { .. } => {
            tree::parts(expr).into_iter().all(|part| match part {
                tree::Part::Expr(expr) => are_bound(expr, is_bound),
                tree::Part::Comprehension(..) => true,
            })
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests;
