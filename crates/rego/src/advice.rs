//! Advice on Rego modules that are valid but probably contain a mistake. The modules stay in force.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::Expr;

use super::contents::CONTENTS;
use super::fault::{Fault, Position};
use super::loaded_module::LoadedModule;
use super::module::Module;
use super::names::Names;
use super::paths::Paths;
use super::reads::KindReads;
use super::review;
use super::tree;

/// Advice on `modules`, which form one bundle.
#[must_use]
pub fn advice(modules: &[&LoadedModule]) -> Vec<Fault> {
    let mut advice = unused(modules);
    advice.extend(ids(modules));
    advice.extend(modules.iter().flat_map(|module| module.advice.iter().cloned()));
    advice.sort();
    advice
}

/// Advice that depends on `module` alone.
pub(super) fn of_module(module: &Module) -> Vec<Fault> {
    let mut advice = kinds(module);
    advice.extend(KindReads::of(module).faults(module));
    advice.extend(contents_in_works(module));
    advice
}

/// Finds modules without effect: their package is not queried, and no other module refers to it. A module with tests or
/// samples counts as queried.
fn unused(modules: &[&LoadedModule]) -> Vec<Fault> {
    let referred: Paths = modules.iter().flat_map(|module| module.references.iter().cloned()).collect();
    let is_used = |module: &LoadedModule| {
        module.purpose.is_some() || !module.prefixed_rules.is_empty() || referred.overlaps(&module.package)
    };
    let unused = modules.iter().filter(|module| !is_used(module));
    unused
        .map(|module| {
            let text = format!("package {} is neither evaluated nor imported", module.package());
            Fault::new(&module.id, module.declared, text)
        })
        .collect()
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

/// The constant values of the field `id` in the denials of `module`, with their places.
pub(super) fn ids_of(module: &Module) -> Vec<(String, Position)> {
    let denials = module.tree.policy.iter().filter_map(|rule| review::denial(module, rule));
    let ids = denials.filter_map(|denial| tree::field(denial, "id"));
    ids.filter_map(|id| Some((tree::constant(id)?.to_owned(), module.place(id.span())))).collect()
}

/// Finds ids that the denials of several modules have in common.
fn ids(modules: &[&LoadedModule]) -> Vec<Fault> {
    let mut first: BTreeMap<&str, &LoadedModule> = BTreeMap::new();
    let mut advice = Vec::new();
    for module in modules {
        for (id, place) in &module.ids {
            let other = *first.entry(id).or_insert(module);
            if other.id != module.id {
                advice.push(Fault::new(&module.id, *place, format!("{} has the same id {id:?}", other.id)));
            }
        }
    }
    advice
}

/// Finds kinds that are written as in a manifest (`Pod`). Policies use the plural (`pods`).
fn kinds(module: &Module) -> Vec<Fault> {
    let mut places = KindReads::of(module).kinds;
    for rule in &module.tree.policy {
        let resource = review::denial(module, rule).and_then(|denial| tree::field(denial, "resource"));
        let kind = resource.and_then(|resource| tree::field(resource, "kind"));
        if let Some((kind, name)) = kind.and_then(|kind| Some((kind, tree::constant(kind)?))) {
            places.entry(name.to_owned()).or_insert_with(|| module.place(kind.span()));
        }
    }
    let wrong = places.into_iter().filter(|(kind, _)| kind.contains(char::is_uppercase));
    wrong
        .map(|(kind, place)| {
            Fault::new(&module.id, place, format!("{kind:?}: use the plural: {}", plural(&kind)))
        })
        .collect()
}

/// Finds the first expression that reads `manifests` of works, if `module` also reads `data` or `stringData`. Policies
/// get the Secrets in works without these two fields.
fn contents_in_works(module: &Module) -> Option<Fault> {
    let (mut manifests, mut has_contents) = (None, false);
    tree::each(&module.tree, &mut |expr| {
        for step in tree::steps(expr).1 {
            match step {
                tree::Step::Key("manifests") => {
                    manifests.get_or_insert_with(|| module.place(tree::start(expr)));
                }
                tree::Step::Key(key) => has_contents |= CONTENTS.contains(&key),
                tree::Step::Index(_) => {}
            }
        }
    });
    let text = "Secrets in the manifests of works are reviewed without data and stringData: rules on these fields have no effect";
    manifests.filter(|_| has_contents).map(|place| Fault::new(&module.id, place, text))
}

/// A guess at the plural of `kind`.
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
