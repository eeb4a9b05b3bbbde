//! Finds recursive rules and functions.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{Expr, Rule};

use super::Rules;
use super::variables::declared;
use crate::fault::Fault;
use crate::module::Module;
use crate::names::{Names, Path};
use crate::tree;

/// For each rule, the rules to which it refers. A rule is identified by the index of its path in `Rules::by_path`.
type References = Vec<BTreeSet<usize>>;

pub(super) fn faults(modules: &[Module], rules: &Rules<'_>) -> Vec<Fault> {
    let paths: Vec<&Vec<String>> = rules.by_path.keys().collect();
    let numbers: BTreeMap<&[String], usize> =
        paths.iter().enumerate().map(|(number, path)| (path.as_slice(), number)).collect();
    let names: BTreeMap<_, _> = modules.iter().map(|module| (module.id(), Names::of(module))).collect();
    let references: References = rules
        .by_path
        .values()
        .map(|written| {
            let of_one =
                |(module, rule): &(&Module, &Rule)| references_of(rule, &names[module.id()], &numbers);
            written.iter().flat_map(of_one).collect()
        })
        .collect();
    let cycles = cycles(&references).into_iter();
    cycles
        .filter_map(|cycle| {
            let (module, rule) = rules.by_path[paths[*cycle.first()?]].first()?;
            let called = cycle.iter().map(|number| paths[*number][1..].join(".")).collect::<Vec<_>>();
            let text = match called.as_slice() {
                [one] => format!("{one} is recursive"),
                [one, others @ ..] => format!("{one} is recursive, through {}", others.join(", ")),
                [] => return None,
            };
            Some(module.fault(tree::start(tree::reference(rule)), text))
        })
        .collect()
}

/// The rules to which `rule` refers. A local variable with the name of a rule is not a reference.
fn references_of(rule: &Rule, names: &Names<'_>, numbers: &BTreeMap<&[String], usize>) -> BTreeSet<usize> {
    let variables = declared(rule);
    let mut found = BTreeSet::new();
    let mut refer = |path: Option<Path<'_>>| {
        let Some(path) = path else { return };
        let path = path.constants;
        // The path may lead to a rule, or to a part of the value of a rule.
        found.extend((1..=path.len()).filter_map(|length| numbers.get(&path[..length])));
        // The path may also lead to a package, or be the start of the paths of several rules.
        let below = numbers.range(path.as_slice()..);
        found.extend(below.take_while(|(below, _)| below.starts_with(&path)).map(|(_, number)| number));
    };
    let head = tree::reference(rule);
    tree::each_of_rule(rule, &mut |expr| match expr {
        Expr::Call { fcn, .. } => refer(names.path_of_rule(fcn)),
        Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } if !std::ptr::eq(expr, head) => {
            let (root, _) = tree::steps(expr);
            if !matches!(root, Expr::Var { span, .. } if variables.contains(span.text())) {
                refer(names.path_of_rule(expr));
            }
        }
        _ => {}
    });
    found
}

/// Finds cycles of rules that refer to each other. Not every recursive rule is in a returned cycle: the others refer,
/// directly or through further rules, to a rule in a returned cycle.
///
/// The search walks from a rule along references until it finds a cycle. Apart from these walks, its time is linear in
/// the number of references.
fn cycles(references: &References) -> Vec<Vec<usize>> {
    let mut remaining = RemainingRules::of(references);
    let (mut cycles, mut next) = (Vec::new(), 0);
    loop {
        remaining.prune();
        let Some(first) = (next..references.len()).find(|rule| remaining.has(*rule)) else { return cycles };
        next = first;
        let (mut rule, mut walked, mut places) = (first, Vec::new(), BTreeMap::new());
        while let Entry::Vacant(place) = places.entry(rule) {
            place.insert(walked.len());
            walked.push(rule);
            rule = references[rule].iter().copied().find(|rule| remaining.has(*rule)).unwrap_or(rule);
        }
        let cycle = walked.split_off(places.get(&rule).copied().unwrap_or_default());
        cycle.iter().for_each(|rule| remaining.remove(*rule));
        cycles.push(cycle);
    }
}

/// Rules that may still be part of a cycle.
struct RemainingRules {
    /// The number of remaining rules that each rule refers to; `None` for a removed rule.
    counts: Vec<Option<usize>>,
    /// The rules that refer to each rule.
    referring: Vec<Vec<usize>>,
    /// Rules that refer to no remaining rule.
    ended: Vec<usize>,
}

impl RemainingRules {
    fn of(references: &References) -> Self {
        let mut referring = vec![Vec::new(); references.len()];
        for (rule, to) in references.iter().enumerate() {
            to.iter().for_each(|to| referring[*to].push(rule));
        }
        let ended = (0..references.len()).filter(|rule| references[*rule].is_empty()).collect();
        let counts = references.iter().map(|to| Some(to.len())).collect();
        Self { counts, referring, ended }
    }

    fn has(&self, rule: usize) -> bool {
        self.counts[rule].is_some()
    }

    fn remove(&mut self, rule: usize) {
        if self.counts[rule].take().is_none() {
            return;
        }
        for from in &self.referring[rule] {
            if let Some(count) = &mut self.counts[*from] {
                *count -= 1;
                if *count == 0 {
                    self.ended.push(*from);
                }
            }
        }
    }

    /// Removes rules that refer to no remaining rule. Such rules are not in a cycle.
    fn prune(&mut self) {
        while let Some(rule) = self.ended.pop() {
            self.remove(rule);
        }
    }
}
