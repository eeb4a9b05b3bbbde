//! The variables and effects of one rule body.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use regorus::unstable::{Expr, Rule};

use super::review_parts::ReviewParts;
use crate::fault::Position;
use crate::module::place;
use crate::tree;

/// A rule or a function, by the number of its path, with its arguments.
pub(super) type Call = (usize, Vec<ReviewParts>);

/// An effect of a body.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// The body reads the contents of the Secret, at a place in the module with this index.
    Reads(usize, Position),
    /// The body depends on a rule.
    Uses(Call),
}

/// The root of a reference.
pub(super) enum Root<'m> {
    /// A variable of the body that contains the reference.
    Variable(&'m str),
    /// A rule, and the constant keys after it.
    Rule(usize, Vec<String>),
    /// All rules of a package and its subpackages.
    Package(Vec<usize>),
    /// A value in `input` or `data`.
    Document(Vec<String>),
}

/// The variables and effects of one body.
pub(super) struct Frame<'m> {
    /// The index of the module that contains the body.
    pub(super) module: usize,
    locals: Rc<BTreeSet<&'m str>>,
    values: HashMap<&'m str, ReviewParts>,
    unbound: HashSet<&'m str>,
    effects: Vec<Effect>,
}

impl<'m> Frame<'m> {
    /// The frame of a body whose rule declares these names.
    pub(super) fn new(module: usize, locals: Rc<BTreeSet<&'m str>>) -> Self {
        Self { module, locals, values: HashMap::new(), unbound: HashSet::new(), effects: Vec::new() }
    }

    /// Whether the rule of the body declares `name`, which then shadows rules and imports.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.locals.contains(name)
    }

    pub(super) fn value(&mut self, name: &'m str) -> ReviewParts {
        match self.values.get(name) {
            Some(part) => *part,
            None => {
                self.unbound.insert(name);
                ReviewParts::NOTHING
            }
        }
    }

    pub(super) fn bind(&mut self, name: &'m str, part: ReviewParts) {
        let value = self.values.entry(name).or_default();
        *value = *value | part;
    }

    /// Binds unbound variables to a value without contents of the Secret. Returns whether there are unbound variables.
    pub(super) fn bind_unbound(&mut self) -> bool {
        let others: Vec<_> = self.unbound.drain().filter(|name| !self.values.contains_key(name)).collect();
        others.iter().for_each(|name| self.bind(name, ReviewParts::OTHER));
        !others.is_empty()
    }

    /// The values of the variables.
    pub(super) fn values(&self) -> HashMap<&'m str, ReviewParts> {
        self.values.clone()
    }

    /// Records that `expr` reads the contents.
    pub(super) fn reads(&mut self, expr: &Expr) {
        self.effects.push(Effect::Reads(self.module, place(tree::start(expr))));
    }

    /// Records a dependency on a rule.
    pub(super) fn uses(&mut self, call: Call) {
        self.effects.push(Effect::Uses(call));
    }

    /// The number of effects.
    pub(super) fn effects(&self) -> usize {
        self.effects.len()
    }

    /// Drops the effects after the first `before`.
    pub(super) fn truncate_effects(&mut self, before: usize) {
        self.effects.truncate(before);
    }

    pub(super) fn into_effects(self) -> Vec<Effect> {
        self.effects
    }
}

/// The names that `rule` declares.
pub(super) fn declared(rule: &Rule) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    tree::arguments(rule).iter().for_each(|argument| tree::pattern(argument, &mut names));
    tree::each_statement(rule, &mut |statement| tree::declared(statement, &mut names));
    names
}
