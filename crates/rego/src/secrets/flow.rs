//! Tracks the Secret under review through variables, functions and rules, by static analysis.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use regorus::unstable::{BoolOp, Expr, Literal, LiteralStmt, Query, Rule, RuleHead};

use super::frame::{Call, Effect, Frame, Root, declared};
use super::guard::Truth;
use super::review_parts::{Key, ReviewParts};
use crate::fault::Position;
use crate::module::{Module, ModuleId};
use crate::names::Names;
use crate::queries::ADMISSION;
use crate::review::is_denial;
use crate::tree::{self, Step};

/// The result of a rule or a function for a Secret.
#[derive(Debug, Default)]
pub(super) struct RuleResult {
    /// The value of the rule, without its default.
    pub(super) value: ReviewParts,
    /// The default of the rule, and whether the default is `false`.
    pub(super) default: Option<(ReviewParts, bool)>,
    /// Whether the rule is `true` for all Secrets.
    pub(super) is_true: bool,
    /// Each body that may hold for a Secret: whether it holds for Secrets alone, and its effects.
    bodies: Vec<(bool, Vec<Effect>)>,
}

/// The rules of a bundle, and the results computed so far.
pub(super) struct Flow<'m> {
    pub(super) modules: &'m [Module],
    /// The names by which policies refer to Secrets.
    pub(super) secrets: &'m BTreeSet<String>,
    pub(super) names: Vec<Names<'m>>,
    numbers: BTreeMap<Vec<String>, usize>,
    /// The definitions of each rule, by the number of the rule. Each definition has the index of its module.
    rules: Vec<Vec<(usize, &'m Rule)>>,
    outcomes: HashMap<Call, Rc<RuleResult>>,
}

impl<'m> Flow<'m> {
    pub(super) fn new(modules: &'m [Module], secrets: &'m BTreeSet<String>) -> Self {
        let mut by_path: BTreeMap<Vec<String>, Vec<(usize, &Rule)>> = BTreeMap::new();
        for (number, module) in modules.iter().enumerate() {
            for rule in &module.tree.policy {
                let constants = tree::constants(tree::reference(rule));
                let path = module.package.iter().cloned().chain(constants).collect();
                by_path.entry(path).or_default().push((number, rule));
            }
        }
        let (paths, rules): (Vec<_>, Vec<_>) = by_path.into_iter().unzip();
        let numbers = paths.into_iter().enumerate().map(|(number, path)| (path, number)).collect();
        let names = modules.iter().map(Names::of).collect();
        Self { modules, secrets, names, numbers, rules, outcomes: HashMap::new() }
    }

    /// The places where rules on which `deny` depends read the contents: first in rules for Secrets alone, then in
    /// other rules.
    pub(super) fn reads(mut self) -> [BTreeSet<(ModuleId, Position)>; 2] {
        let ([mut certain, mut possible], mut seen) = (<[BTreeSet<_>; 2]>::default(), HashSet::new());
        let is_root = |(module, rule): &(usize, &Rule)| {
            let module = &self.modules[*module];
            module.purpose == Some(ADMISSION) && is_denial(module, rule)
        };
        let roots = self.rules.iter().enumerate().filter(|(_, rules)| rules.iter().any(is_root));
        let mut left: Vec<(Call, bool)> = roots.map(|(number, _)| ((number, Vec::new()), false)).collect();
        while let Some((call, is_certain)) = left.pop() {
            if !seen.insert((call.clone(), is_certain)) {
                continue;
            }
            for (only_secrets, effects) in &self.outcome(&call).bodies {
                let is_certain = is_certain || *only_secrets;
                for effect in effects {
                    match effect {
                        Effect::Uses(call) => left.push((call.clone(), is_certain)),
                        Effect::Reads(module, place) => {
                            let found = (self.modules[*module].id().clone(), *place);
                            if is_certain {
                                certain.insert(found)
                            } else {
                                possible.insert(found)
                            };
                        }
                    }
                }
            }
        }
        [certain, possible]
    }

    pub(super) fn outcome(&mut self, call: &Call) -> Rc<RuleResult> {
        if let Some(outcome) = self.outcomes.get(call) {
            return outcome.clone();
        }
        // The check rejects recursive rules. If a recursive rule remains, this empty result ends the recursion.
        self.outcomes.insert(call.clone(), Rc::default());
        let mut outcome = RuleResult::default();
        for (module, rule) in self.rules[call.0].clone() {
            self.define(module, rule, &call.1, &mut outcome);
        }
        let outcome = Rc::new(outcome);
        self.outcomes.insert(call.clone(), outcome.clone());
        outcome
    }

    fn define(&mut self, module: usize, rule: &'m Rule, arguments: &[ReviewParts], outcome: &mut RuleResult) {
        let locals = Rc::new(declared(rule));
        let frame = || Frame::new(module, locals.clone());
        let head_value = tree::head_value(rule);
        let Rule::Spec { head, bodies, .. } = rule else {
            let mut frame = frame();
            let value =
                head_value.map_or(ReviewParts::OTHER, |head_value| self.expression(head_value, &mut frame));
            let is_false = head_value.is_some_and(|head_value| is_bool(head_value, false));
            outcome.default = Some((value, is_false));
            return;
        };
        let is_true = |value: Option<&Expr>| value.is_none_or(|value| is_bool(value, true));
        let is_function = matches!(head, RuleHead::Func { .. });
        let bodies: Vec<_> = bodies
            .iter()
            .map(|body| {
                let value = body.assign.as_ref().map_or(head_value, |assign| Some(&assign.value));
                (Some(&body.query), value, body.is_else)
            })
            .collect();
        let bodies = if bodies.is_empty() { vec![(None, head_value, false)] } else { bodies };
        for (query, value, is_else) in bodies {
            let mut frame = frame();
            // Statements have no order, so they are evaluated until no variable changes.
            let (truth, part) = loop {
                frame.truncate_effects(0);
                let before = frame.values();
                for (argument, part) in tree::arguments(rule).iter().zip(arguments) {
                    self.bind(argument, *part, &mut frame);
                }
                let truth = query.map_or(Truth::ALWAYS, |query| self.query(query, &mut frame));
                let part = self.head(rule, value, &mut frame);
                if frame.values() == before && !frame.bind_unbound() {
                    break (truth, part);
                }
            };
            if truth.is_never() {
                continue;
            }
            outcome.value = outcome.value | part;
            outcome.is_true |= truth.is_always() && is_true(value) && !is_else && !is_function;
            outcome.bodies.push((truth.only_secrets, frame.into_effects()));
        }
    }

    /// The value of the head of `rule`.
    fn head(&mut self, rule: &'m Rule, value: Option<&'m Expr>, frame: &mut Frame<'m>) -> ReviewParts {
        let mut is_part = matches!(rule, Rule::Spec { head: RuleHead::Set { .. }, .. });
        for index in tree::indexes(tree::reference(rule)) {
            self.whole(index, frame);
            is_part = true;
        }
        match value {
            None => ReviewParts::OTHER,
            Some(value) if is_part => self.whole(value, frame),
            Some(value) => self.expression(value, frame),
        }
    }

    /// Evaluates `expr` for a use of its whole value. If the value may contain the Secret, records that the contents
    /// are read. The result is undefined, or a value without contents of the Secret.
    pub(super) fn whole(&mut self, expr: &'m Expr, frame: &mut Frame<'m>) -> ReviewParts {
        let part = self.expression(expr, frame);
        if part.holds() {
            frame.reads(expr);
        }
        if part == ReviewParts::NOTHING { part } else { ReviewParts::OTHER }
    }

    /// Like [`Self::whole`], for several expressions. The result is undefined if one of them is undefined.
    pub(super) fn all(
        &mut self,
        parts: impl IntoIterator<Item = &'m Expr>,
        frame: &mut Frame<'m>,
    ) -> ReviewParts {
        let parts: Vec<ReviewParts> = parts.into_iter().map(|part| self.whole(part, frame)).collect();
        if parts.contains(&ReviewParts::NOTHING) { ReviewParts::NOTHING } else { ReviewParts::OTHER }
    }

    pub(super) fn expression(&mut self, expr: &'m Expr, frame: &mut Frame<'m>) -> ReviewParts {
        match expr {
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. } => ReviewParts::OTHER,
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => self.reference(expr, frame),
            Expr::Array { items, .. } | Expr::Set { items, .. } => {
                self.made_of(items.iter().map(AsRef::as_ref), frame)
            }
            Expr::Object { fields, .. } => {
                let parts = fields.iter().flat_map(|(_, key, value)| [key.as_ref(), value.as_ref()]);
                self.made_of(parts, frame)
            }
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                self.comprehension(query, &[term.as_ref()], frame)
            }
            Expr::ObjectCompr { key, value, query, .. } => {
                self.comprehension(query, &[key.as_ref(), value.as_ref()], frame)
            }
            Expr::Call { fcn, params, .. } => {
                let params: Vec<&Expr> = params.iter().map(AsRef::as_ref).collect();
                self.call(expr, fcn, &params, frame)
            }
            Expr::UnaryExpr { expr, .. } => self.whole(expr, frame),
            Expr::BoolExpr { op, lhs, rhs, .. } => self.comparison(op, lhs, rhs, frame),
            Expr::BinExpr { lhs, rhs, .. } | Expr::ArithExpr { lhs, rhs, .. } => {
                self.all([lhs.as_ref(), rhs.as_ref()], frame)
            }
            Expr::AssignExpr { op, lhs, rhs, .. } => self.assignment(op, lhs, rhs, frame),
            Expr::Membership { key, value, collection, .. } => {
                self.all(key.iter().chain([value, collection]).map(AsRef::as_ref), frame)
            }
        }
    }

    /// A composite value of `parts`.
    fn made_of(&mut self, parts: impl Iterator<Item = &'m Expr>, frame: &mut Frame<'m>) -> ReviewParts {
        let parts: Vec<ReviewParts> = parts.map(|part| self.expression(part, frame)).collect();
        match () {
            () if parts.contains(&ReviewParts::NOTHING) => ReviewParts::NOTHING,
            () if parts.iter().any(|part| part.holds()) => ReviewParts::COMPOSITE,
            () => ReviewParts::OTHER,
        }
    }

    fn comprehension(&mut self, query: &'m Query, terms: &[&'m Expr], frame: &mut Frame<'m>) -> ReviewParts {
        let before = frame.effects();
        if self.query(query, frame).is_never() {
            frame.truncate_effects(before);
            return ReviewParts::OTHER;
        }
        match self.made_of(terms.iter().copied(), frame) {
            ReviewParts::NOTHING => ReviewParts::OTHER,
            part => part,
        }
    }

    pub(super) fn comparison(
        &mut self,
        op: &BoolOp,
        lhs: &'m Expr,
        rhs: &'m Expr,
        frame: &mut Frame<'m>,
    ) -> ReviewParts {
        // A comparison with a scalar does not depend on the contents: an object never equals a scalar.
        let is_scalar = |expr: &Expr| {
            matches!(expr, Expr::Null { .. } | Expr::Bool { .. } | Expr::Number { .. } | Expr::String { .. })
        };
        if matches!(op, BoolOp::Eq | BoolOp::Ne) && (is_scalar(lhs) || is_scalar(rhs)) {
            let parts = [self.expression(lhs, frame), self.expression(rhs, frame)];
            return if parts.contains(&ReviewParts::NOTHING) {
                ReviewParts::NOTHING
            } else {
                ReviewParts::OTHER
            };
        }
        self.all([lhs, rhs], frame)
    }

    pub(super) fn step(
        &mut self,
        expr: &'m Expr,
        part: ReviewParts,
        key: Key<'_>,
        frame: &mut Frame<'m>,
    ) -> ReviewParts {
        let (part, is_withheld) = part.step(key, self.secrets);
        if is_withheld {
            frame.reads(expr);
        }
        part
    }

    fn reference(&mut self, expr: &'m Expr, frame: &mut Frame<'m>) -> ReviewParts {
        let (_, steps) = tree::steps(expr);
        let (part, steps) = match self.root(expr, frame) {
            Some(Root::Variable(name)) => (frame.value(name), steps),
            Some(Root::Rule(number, below)) => {
                let part = self.uses((number, Vec::new()), frame);
                let part = below.iter().fold(part, |part, key| self.step(expr, part, Key::Text(key), frame));
                (part, indexes(steps))
            }
            Some(Root::Package(numbers)) => {
                let mut all = ReviewParts::OTHER;
                for number in numbers {
                    all = all | self.uses((number, Vec::new()), frame);
                }
                (if all.holds() { ReviewParts::COMPOSITE } else { ReviewParts::OTHER }, indexes(steps))
            }
            Some(Root::Document(path)) => {
                let (part, below) = match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                    ["input", ..] => (ReviewParts::INPUT, 1),
                    ["data", "kubernetes", ..] => (ReviewParts::KUBERNETES, 2),
                    ["data"] => (ReviewParts::COMPOSITE, 1),
                    _ => (ReviewParts::OTHER, path.len()),
                };
                let keys = path[below..].iter();
                let part = keys.fold(part, |part, key| self.step(expr, part, Key::Text(key), frame));
                (part, indexes(steps))
            }
            None => {
                let root = tree::steps(expr).0;
                (self.expression(root, frame), steps)
            }
        };
        steps.into_iter().fold(part, |part, step| match step {
            Step::Key(key) => self.step(expr, part, Key::Text(key), frame),
            Step::Index(index) => {
                let number = match index {
                    Expr::Number { value, .. } => {
                        value.as_u64().ok().and_then(|number| number.try_into().ok())
                    }
                    _ => None,
                };
                if self.whole(index, frame) == ReviewParts::NOTHING {
                    return ReviewParts::NOTHING;
                }
                self.step(expr, part, number.map_or(Key::Any, Key::Number), frame)
            }
        })
    }

    /// The root of the reference `expr`, if it is a name.
    pub(super) fn root(&self, expr: &'m Expr, frame: &Frame<'m>) -> Option<Root<'m>> {
        let (root, _) = tree::steps(expr);
        let Expr::Var { span, .. } = root else { return None };
        let name = span.text();
        if frame.declares(name) {
            return Some(Root::Variable(name));
        }
        let names = &self.names[frame.module];
        let is_document = names.path(expr).is_some();
        let path = names.path_of_rule(expr)?.constants;
        if let Some(length) =
            (1..=path.len()).rev().find(|length| self.numbers.contains_key(&path[..*length]))
        {
            return Some(Root::Rule(self.numbers[&path[..length]], path[length..].to_vec()));
        }
        if !is_document {
            return Some(Root::Variable(name));
        }
        let below = self.numbers.range(path.clone()..).take_while(|(below, _)| below.starts_with(&path));
        let is_rule = |number: &usize| tree::arity(self.rules[*number][0].1).is_none();
        let below: Vec<usize> = below.map(|(_, number)| *number).filter(is_rule).collect();
        Some(if below.is_empty() || path.len() == 1 { Root::Document(path) } else { Root::Package(below) })
    }

    /// The number of the function at `path`, and the number of its arguments.
    pub(super) fn function(&self, path: &[String]) -> Option<(usize, usize)> {
        let number = *self.numbers.get(path)?;
        Some((number, tree::arity(self.rules[number].first()?.1)?))
    }

    /// The definitions of the rule `number`.
    pub(super) fn definitions(&self, number: usize) -> &[(usize, &'m Rule)] {
        &self.rules[number]
    }

    /// Evaluates a statement. The result is undefined if the statement cannot hold for a Secret.
    pub(super) fn statement(&mut self, statement: &'m LiteralStmt, frame: &mut Frame<'m>) -> ReviewParts {
        for with in &statement.with_mods {
            self.whole(&with.r#as, frame);
        }
        match &statement.literal {
            Literal::SomeVars { .. } => ReviewParts::OTHER,
            Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => self.expression(expr, frame),
            Literal::SomeIn { key, value, collection, .. } => {
                let part = self.expression(collection, frame);
                if let Some(key) = key {
                    self.bind(key, ReviewParts::OTHER, frame);
                }
                let element = self.step(collection, part, Key::Any, frame);
                self.bind(value, element, frame)
            }
            Literal::Every { key, value, domain, query, .. } => {
                let part = self.expression(domain, frame);
                let element = self.step(domain, part, Key::Any, frame);
                if let Some(key) = key {
                    frame.bind(key.text(), ReviewParts::OTHER);
                }
                frame.bind(value.text(), element);
                let before = frame.effects();
                if self.query(query, frame).is_never() {
                    frame.truncate_effects(before);
                }
                part
            }
        }
    }
}

/// The steps of a reference after its constant prefix.
fn indexes(steps: Vec<Step<'_>>) -> Vec<Step<'_>> {
    steps.into_iter().skip_while(|step| matches!(step, Step::Key(_))).collect()
}

fn is_bool(expr: &Expr, expected: bool) -> bool {
    matches!(expr, Expr::Bool { value, .. } if *value == expected.into())
}
