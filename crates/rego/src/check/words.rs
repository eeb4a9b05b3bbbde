//! Finds ambiguous names in rules such as `if.foo`, whose own name begins with a keyword. The embedded engine parses
//! `if.foo` of the package `a` as the rule `foo` of the package `a.if`. A name in the rule is ambiguous if that package
//! has a rule of this name.

use std::collections::BTreeSet;

use super::Rules;
use super::variables::{argument_names, declared};
use crate::fault::Fault;
use crate::module::{Module, words};
use crate::names::Names;
use crate::tree;

pub(super) fn faults(module: &Module, rules: &Rules<'_>) -> Vec<Fault> {
    let (names, mut faults) = (Names::of(module), Vec::new());
    for rule in &module.tree.policy {
        let Some((keywords, _)) = words::split(rule) else { continue };
        let package: Vec<String> = module.package.iter().chain(&keywords).cloned().collect();
        let others = rules.names_in(&package);
        let variables = declared(rule);
        let head = tree::start(tree::reference(rule));
        let arguments = argument_names(rule);
        let mut inner = variables.difference(&arguments);
        if let Some(name) = inner.find(|name| others.contains(**name)) {
            let text = format!(
                "the package {} has a rule {name}: give the variable {name} of this rule another name",
                package[1..].join(".")
            );
            faults.push(module.fault(head, text));
        }
        tree::each_root(rule, &mut |root| {
            let name = root.text();
            if matches!(name, "data" | "input") || variables.contains(name) {
                return;
            }
            if names.import(name).is_none() && rules.has_name(module, name) {
                let text = format!(
                    "the name of this rule begins with a keyword: write data.{}.{name} for the rule {name} of another module",
                    module.package()
                );
                faults.push(module.fault(root, text));
            } else if others.contains(name) {
                let text =
                    format!("the package {} has a rule {name}: give it another name", package[1..].join("."));
                faults.push(module.fault(root, text));
            }
        });
    }
    faults
}

impl Rules<'_> {
    /// The first parts of the names of all rules in `package`, which begins with `data`.
    fn names_in(&self, package: &[String]) -> BTreeSet<&str> {
        let below = self.by_path.range(package.to_vec()..).map(|(path, _)| path);
        let below = below.take_while(|path| path.starts_with(package));
        below.filter_map(|path| path.get(package.len()).map(String::as_str)).collect()
    }
}
