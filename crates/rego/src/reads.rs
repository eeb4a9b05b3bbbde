//! Finds the kinds that a module reads from the hub: constants after `data.kubernetes`, and kinds in references to
//! `data.k8s.matches`.

use std::collections::BTreeMap;

use regorus::unstable::Expr;

use super::fault::{Fault, Position};
use super::module::Module;
use super::names::Names;
use super::queries::AUTHORIZATION;
use super::review::Matches;
use super::tree;

/// The path in `data` of the hub's objects.
pub const OBJECTS: [&str; 2] = ["data", "kubernetes"];

/// The kinds that a module reads from the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindReads {
    /// Plurals, for example `pods` or `gateways.networking.istio.io`, with the first place of each.
    pub kinds: BTreeMap<String, Position>,
    /// Places that read a kind whose name is not constant.
    pub any: Vec<Position>,
}

impl KindReads {
    /// Finds the kinds that `module` reads.
    #[must_use]
    pub fn of(module: &Module) -> Self {
        let names = Names::of(module);
        let matches = Matches::of(module, &names);
        let mut reads = Self::default();
        // In authorization policies, `matches` refers to the request only.
        let is_request = module.purpose == Some(AUTHORIZATION);
        tree::each(&module.tree, &mut |expr| {
            if !matches!(expr, Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. }) {
                return;
            }
            match matches.kind_of(expr, &names) {
                Some(_) if is_request => {}
                Some(kind) => reads.matches(module, kind),
                None => reads.visit(module, expr, &names),
            }
        });
        for import in &module.tree.imports {
            let path = tree::constants(&import.refr);
            if let [data, kubernetes, kind, ..] = path.as_slice()
                && [data.as_str(), kubernetes.as_str()] == OBJECTS
            {
                reads.reads(kind, module.place(tree::start(&import.refr)));
            }
        }
        reads
    }

    fn matches(&mut self, module: &Module, kind: &Expr) {
        match tree::constant(kind) {
            Some(name) => self.reads(name, module.place(kind.span())),
            None => self.any.push(module.place(tree::start(kind))),
        }
    }

    fn visit<'t>(&mut self, module: &Module, expr: &'t Expr, names: &Names<'t>) {
        let Some(path) = names.path(expr) else { return };
        match path.constants.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["data", "kubernetes", kind, ..] => self.reads(kind, module.place(tree::start(expr))),
            ["data", "kubernetes"] | ["data"] => self.any.push(module.place(tree::start(expr))),
            _ => {}
        }
    }

    fn reads(&mut self, kind: &str, place: Position) {
        self.kinds.entry(kind.to_owned()).or_insert(place);
    }

    /// A fault for each place that reads a kind whose name is not constant.
    #[must_use]
    pub fn faults(&self, module: &Module) -> Vec<Fault> {
        let text = "reads objects of kinds that it does not name: only kinds in --replicate are available";
        self.any.iter().map(|place| Fault::new(module.id(), *place, text)).collect()
    }
}

#[cfg(test)]
mod tests;
