//! Which modules can have denials that deny nothing.

use std::collections::BTreeMap;

use regorus::unstable::Expr;

use super::asked::AUTHORIZATION;
use super::bundle::Bundle;
use super::fault::Fault;
use super::loaded_module::LoadedModule;
use super::module::{Module, ModuleId};
use super::review;
use crate::api::rego_policy::Enforcement;

/// Which modules of `bundle` cannot have the enforcement that they are to have, and why.
#[must_use]
pub fn faults(bundle: &Bundle, enforcements: &BTreeMap<ModuleId, Enforcement>) -> Vec<Fault> {
    let with = enforcements.iter().filter_map(|(id, enforcement)| Some((bundle.module(id)?, *enforcement)));
    with.filter_map(|(module, enforcement)| fault(module, enforcement)).collect()
}

/// The heads of the rule `deny` of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denials {
    /// Each is an object, and there is one.
    Objects,
    /// One is something else, or there is none.
    Others,
}

impl Denials {
    pub(super) fn of(module: &Module) -> Self {
        let rules = module.tree.policy.iter().filter(|rule| review::is_denial(module, rule));
        let mut heads = rules.map(|rule| review::denial(module, rule)).peekable();
        let is_object = |head: Option<&Expr>| matches!(head, Some(Expr::Object { .. }));
        let fits = heads.peek().is_some() && heads.all(is_object);
        if fits { Self::Objects } else { Self::Others }
    }
}

/// Why `module` cannot have this enforcement: only denials that are objects say whose they are.
fn fault(module: &LoadedModule, enforcement: Enforcement) -> Option<Fault> {
    if enforcement == Enforcement::Deny {
        return None;
    }
    if enforcement == Enforcement::Warn && module.asked_for == Some(AUTHORIZATION) {
        let text = "enforcement warn is nothing for package authorization: who asks is shown no warnings";
        return Some(Fault::new(module.id(), None, text));
    }
    let text = format!("enforcement {enforcement} needs the rule deny, each head of which is an object");
    (module.denials == Denials::Others).then(|| Fault::new(module.id(), None, text))
}

#[cfg(test)]
mod tests;
