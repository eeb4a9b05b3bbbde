//! Checks for faults that the engine reports only during an evaluation, and for recursion, which would overflow the
//! stack of the engine.

mod calls;
mod engine;
mod recursion;
mod safety;
mod scopes;
mod variables;
mod words;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use regorus::unstable::{Rule, RuleHead};

use super::engine::EngineKind;
use super::fault::Fault;
use super::metadata;
use super::module::Module;
use super::tree;
pub(super) use variables::{argument_names, declared};

/// The faults of `modules`, which form one bundle for `evaluator`.
#[must_use]
pub fn check(modules: &[Module], evaluator: EngineKind) -> Vec<Fault> {
    let rules = Rules::of(modules);
    let mut faults = recursion::faults(modules, &rules);
    faults.extend(rules.mixed());
    faults.extend(rules.packages(modules));
    if evaluator == EngineKind::Embedded {
        faults.extend(rules.overlapping());
        faults.extend(metadata::faults(modules));
    }
    for module in modules {
        faults.extend(reserved_package(module));
        faults.extend(calls::faults(module, &rules, evaluator));
        faults.extend(safety::faults(module, &rules));
        if evaluator == EngineKind::Embedded {
            faults.extend(engine::faults(module, &rules));
            faults.extend(scopes::faults(module));
            faults.extend(words::faults(module, &rules));
        }
    }
    faults
}

/// The fault of a module whose package has a reserved path in `data`. OPA rejects the rules of such a package, and the
/// embedded engine would ignore them.
fn reserved_package(module: &Module) -> Option<Fault> {
    let words = match module.path().iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["system", ..] => "this path is reserved for OPA",
        ["policysync", ..] => "this path is reserved for the controller",
        ["kubernetes"] => "objects of the hub have this path",
        _ => return None,
    };
    Some(module.fault_of_package(words))
}

/// The rules of a bundle.
pub(super) struct Rules<'m> {
    /// The rules by their whole constant path, for example `["data", "lib", "labels"]`.
    by_path: BTreeMap<Vec<String>, Vec<(&'m Module, &'m Rule)>>,
    /// By path, the numbers of arguments of the functions with this path.
    functions: HashMap<Vec<String>, BTreeSet<usize>>,
    /// By package, the first parts of the names of its rules: `a` for the rule `a.b`.
    names: HashMap<&'m [String], BTreeSet<String>>,
}

impl<'m> Rules<'m> {
    pub(super) fn of(modules: &'m [Module]) -> Self {
        let mut rules = Self { by_path: BTreeMap::new(), functions: HashMap::new(), names: HashMap::new() };
        for module in modules {
            let names = rules.names.entry(module.package.as_slice()).or_default();
            for rule in &module.tree.policy {
                let constants = tree::constants(tree::reference(rule));
                names.extend(constants.first().cloned());
                let path: Vec<String> = module.package.iter().cloned().chain(constants).collect();
                if let Some(arity) = tree::arity(rule) {
                    rules.functions.entry(path.clone()).or_default().insert(arity);
                }
                rules.by_path.entry(path).or_default().push((module, rule));
            }
        }
        rules
    }

    /// Finds functions that share their name with another rule, or with a function that has another number of
    /// arguments.
    fn mixed(&self) -> Vec<Fault> {
        let fault = |rules: &Vec<(&Module, &Rule)>| {
            let (_, first) = rules.first()?;
            let (module, rule) = rules.iter().find(|(_, rule)| tree::arity(rule) != tree::arity(first))?;
            let reference = tree::start(tree::reference(rule));
            let text = match (tree::arity(rule), tree::arity(first)) {
                (Some(_), Some(_)) => "is also defined as a function with another number of arguments",
                (Some(_), None) => "is also defined as a rule that is not a function",
                (None, _) => "is also defined as a function",
            };
            Some(module.fault(reference, format!("{} {text}", tree::name(reference))))
        };
        self.by_path.values().filter_map(fault).collect()
    }

    /// Finds pairs of rules for one path: one rule has several values, and the other has a variable in its path. An
    /// example is `s.a contains 1` with `s[k] contains 2`. The embedded engine looks up only one of these rules.
    fn overlapping(&self) -> Vec<Fault> {
        let has_variable = |rule: &Rule| tree::indexes(tree::reference(rule)).next().is_some();
        let is_partial =
            |rule: &Rule| has_variable(rule) || matches!(rule, Rule::Spec { head: RuleHead::Set { .. }, .. });
        let fault = |(path, rules): (&Vec<String>, &Vec<(&Module, &Rule)>)| {
            let (module, rule) = rules.iter().find(|(_, rule)| is_partial(rule))?;
            let mut above =
                (module.package.len() + 1..path.len()).filter_map(|end| self.by_path.get(&path[..end]));
            above.find(|rules| rules.iter().any(|(_, rule)| has_variable(rule)))?;
            let text = "another rule with a variable in its path may have this path, too: give one of them another name";
            Some(module.fault(tree::start(tree::reference(rule)), text))
        };
        self.by_path.iter().filter_map(fault).collect()
    }

    /// Finds rules whose path is the path of a package, or a prefix of it.
    fn packages(&self, modules: &[Module]) -> Vec<Fault> {
        let mut packages: BTreeMap<&[String], &Module> = BTreeMap::new();
        for module in modules {
            for length in 2..=module.package.len() {
                packages.entry(&module.package[..length]).or_insert(module);
            }
        }
        let fault = |(path, rules): (&Vec<String>, &Vec<(&Module, &Rule)>)| {
            let (other, (module, rule)) = (packages.get(path.as_slice())?, rules.first()?);
            let reference = tree::start(tree::reference(rule));
            let text =
                format!("the path of this rule is that of package {}: rename one of them", other.package());
            Some(module.fault(reference, text))
        };
        self.by_path.iter().filter_map(fault).collect()
    }

    /// Whether `name` is the first part of the name of a rule in `module`'s package.
    pub(super) fn has_name(&self, module: &Module, name: &str) -> bool {
        self.names.get(module.package.as_slice()).is_some_and(|names| names.contains(name))
    }

    /// The numbers of arguments of the function at `path`.
    pub(super) fn arities(&self, path: &[String]) -> Option<&BTreeSet<usize>> {
        self.functions.get(path)
    }
}

#[cfg(test)]
mod tests;
