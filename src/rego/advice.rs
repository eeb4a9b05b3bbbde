//! What a policy most likely does not mean. It counts all the same.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{Expr, Rule};

use super::called::{SAMPLE, TEST};
use super::fault::Fault;
use super::module::{Module, name_of};
use super::names::Names;
use super::reads::Reads;
use super::review;
use super::tree;

/// Advice on `modules`, which are one bundle.
#[must_use]
pub fn advice(modules: &[&Module]) -> Vec<Fault> {
    let mut advice = unused(modules);
    advice.extend(ids(modules));
    for module in modules {
        advice.extend(kinds(module));
        advice.extend(Reads::of(module).faults(module));
    }
    advice.sort();
    advice
}

/// Modules that are not asked, and that no other refers to. One with tests is asked for these.
fn unused(modules: &[&Module]) -> Vec<Fault> {
    let referred: BTreeSet<Vec<String>> = modules.iter().flat_map(|module| referred(module)).collect();
    let is_used = |module: &Module| {
        let package = &module.package;
        module.asked_for.is_some()
            || module.tree.policy.iter().any(|rule| is_test(rule))
            || referred.iter().any(|path| meet(path, package))
    };
    let unused = modules.iter().filter(|module| !is_used(module));
    let text = |module: &Module| format!("package {} is neither asked nor imported", module.package());
    unused.map(|module| module.fault(tree::start(&module.tree.package.refr), text(module))).collect()
}

/// Whether a reference to `path` is one to `package` or into it, or to one that contains it.
pub(super) fn meet(path: &[String], package: &[String]) -> bool {
    path.starts_with(package) || package.starts_with(path)
}

fn is_test(rule: &Rule) -> bool {
    let name = name_of(tree::reference(rule));
    name.is_some_and(|name| [TEST, SAMPLE].iter().any(|prefix| name.starts_with(prefix)))
}

/// The constant paths that `module` refers to outside of its package.
pub(super) fn referred(module: &Module) -> BTreeSet<Vec<String>> {
    let names = Names::of(module);
    let imports = module.tree.imports.iter().map(|import| tree::constants(&import.refr));
    let mut paths: BTreeSet<Vec<String>> = imports.collect();
    tree::each(&module.tree, &mut |expr| {
        let reference = match expr {
            Expr::Call { fcn, .. } => fcn,
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => expr,
            _ => return,
        };
        paths.extend(names.path(reference).map(|path| path.constants));
    });
    paths.retain(|path| !path.starts_with(&module.package));
    paths
}

/// Ids that denials of two modules have.
fn ids(modules: &[&Module]) -> Vec<Fault> {
    let mut first: BTreeMap<&str, &Module> = BTreeMap::new();
    let mut advice = Vec::new();
    for module in modules {
        for rule in &module.tree.policy {
            let Some(id) = review::denial(module, rule).and_then(|denial| tree::field(denial, "id")) else {
                continue;
            };
            let Some(text) = tree::constant(id) else { continue };
            let other = *first.entry(text).or_insert(module);
            if other.id != module.id {
                advice.push(module.fault(id.span(), format!("{} has the id {text:?} too", other.id)));
            }
        }
    }
    advice
}

/// Kinds that are written as in a manifest, where the resource's name belongs.
fn kinds(module: &Module) -> Vec<Fault> {
    let mut places = Reads::of(module).kinds;
    for rule in &module.tree.policy {
        let resource = review::denial(module, rule).and_then(|denial| tree::field(denial, "resource"));
        let kind = resource.and_then(|resource| tree::field(resource, "kind"));
        if let Some((kind, name)) = kind.and_then(|kind| Some((kind, tree::constant(kind)?))) {
            places.entry(name.to_owned()).or_insert_with(|| super::module::place(kind.span()));
        }
    }
    let wrong = places.into_iter().filter(|(kind, _)| kind.contains(char::is_uppercase));
    wrong
        .map(|(kind, place)| {
            Fault::new(&module.id, place, format!("{kind:?}: use the plural: {}", plural(&kind)))
        })
        .collect()
}

/// What a resource of `kind` is most likely called.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if kind.ends_with(['s', 'x']) || kind.ends_with("ch") => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests;
