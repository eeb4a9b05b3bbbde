//! Bounds the memory of expressions whose values the embedded engine may format.
//!
//! The engine's error about an operand of the wrong type quotes the operand. `print` formats its arguments, an index of `data` becomes
//! part of a path, and the error about a duplicate key of an object comprehension quotes the key and both values. An array that
//! contains another one 16 times, and so on for seven levels, takes little memory, but its text takes gigabytes. So the engine reads
//! these expressions as arguments of the functions below, which fail if the text exceeds the memory limit of the evaluation. No line
//! moves.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail, ensure};
use regorus::unstable::{ArithOp, Expr, Literal, Query, Rule};
use regorus::{Engine, Value};

use super::edit::{Edit, Edited};
use super::memory::size::{self, ELEMENT};
use super::memory::{self, LIMIT};
use super::module::Module;
use super::tree;

/// Returns its argument, unless its text exceeds the memory limit.
const BOUNDED: &str = "policysync_bounded";
/// The same for an operand of a set operator: a set is not measured, because no error quotes it.
const SET: &str = "policysync_bounded_set";
/// Returns the object of an array of pairs.
const OBJECT: &str = "policysync_bounded_object";
/// The most digits of an operand. A product has as many as both of its operands.
const DIGITS: usize = 40_000;
/// How many copies of a quoted value the engine makes.
const COPIES: usize = 4;

/// Whether `text` names one of the functions, which is reserved: a definition in a module would replace the function.
pub(super) fn names_one(text: &str) -> bool {
    text.contains(BOUNDED)
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
    let mut bounds = Bounds { text: &module.text, ..Bounds::default() };
    for rule in &module.tree.policy {
        let bound = variables(rule);
        bounds.is_default = matches!(rule.as_ref(), Rule::Default { .. });
        tree::each_of_rule(rule, &mut |expr| {
            bounds.expr(expr, &|name| bound.contains(name) || rules.contains(name))
        });
    }
    // Edits at one place apply in this order.
    let edits = [bounds.closed, bounds.changed, bounds.opened].concat();
    Edited::new(&module.text, edits)
}

/// The variables of `rule` that have a value wherever they are used: none of them iterates.
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
    text: &'m str,
    /// Whether the expressions are of a default rule, whose value cannot be a call.
    is_default: bool,
    opened: Vec<Edit>,
    changed: Vec<Edit>,
    closed: Vec<Edit>,
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
            Expr::Call { fcn, params, .. } if is_print(fcn) => {
                params.iter().for_each(|param| self.operand(param, BOUNDED));
            }
            Expr::RefBrack { refr, index, .. } if is_static(refr) && may_be_bounded(index, is_bound) => {
                self.operand(index, BOUNDED);
            }
            Expr::ObjectCompr { key, value, .. } if self.is_default => {
                self.operand(key, BOUNDED);
                self.operand(value, BOUNDED);
            }
            Expr::ObjectCompr { span, key, value, query, .. } => {
                self.object((span.start as usize, span.end as usize), (key, value, query))
            }
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
            Expr::Set { .. } | Expr::SetCompr { .. } | Expr::BinExpr { .. } => function == BOUNDED,
            Expr::ArithExpr { .. } => true,
            _ => false,
        };
        if is_needed {
            self.opened.push(Edit::insert(expr.span().start, format!("{function}(")));
            self.closed.push(Edit::insert(self.end(expr), ")".to_owned()));
        }
    }

    /// Replaces `{key: value | query}` by a call with `[[key, value] | query]`.
    fn object(&mut self, (start, end): (usize, usize), (key, value, query): (&Expr, &Expr, &Query)) {
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
        self.opened.push(replace(start, &format!("{OBJECT}([[")));
        self.changed.push(replace(colon, ","));
        self.changed.push(Edit::insert(at(bar), "]".to_owned()));
        self.changed.push(replace(end - 1, "])"));
    }

    /// Where `expr` ends. The tree has the places of strings without their quotes.
    fn end(&self, expr: &Expr) -> u32 {
        let end = expr.span().end;
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

fn is_print(function: &Expr) -> bool {
    matches!(function, Expr::Var { span, .. } if span.text() == "print")
}

/// Whether `reference` is a constant path in `data`, of which the engine looks up an index as a part of a path.
fn is_static(reference: &Expr) -> bool {
    let (root, steps) = tree::steps(reference);
    matches!(root, Expr::Var { span, .. } if span.text() == "data")
        && steps.iter().all(|step| matches!(step, tree::Step::Key(_)))
}

/// Whether `index` has a value before the reference is evaluated. A variable without one iterates, and can be no argument.
fn may_be_bounded(index: &Expr, is_bound: &dyn Fn(&str) -> bool) -> bool {
    let mut names = BTreeSet::new();
    tree::pattern(index, &mut names);
    names.into_iter().all(is_bound)
}

#[cfg(test)]
mod tests;
