//! Checks whether a module can have an enforcement other than `deny`.

use std::collections::BTreeMap;

use regorus::unstable::Expr;

use super::bundle::Bundle;
use super::fault::Fault;
use super::loaded_module::LoadedModule;
use super::module::{Module, ModuleId};
use super::queries::AUTHORIZATION;
use super::review;
use policy_sync_api::rego_policy::EnforcementAction;

/// The faults of modules of `bundle` that cannot have their configured enforcement.
#[must_use]
pub fn faults(bundle: &Bundle, enforcements: &BTreeMap<ModuleId, EnforcementAction>) -> Vec<Fault> {
    let with = enforcements.iter().filter_map(|(id, enforcement)| Some((bundle.module(id)?, *enforcement)));
    with.filter_map(|(module, enforcement)| fault(module, enforcement)).collect()
}

/// The type of the heads of the rule `deny`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denials {
    /// There is at least one head, and each is an object.
    Objects,
    /// There is no head, or a head is not an object.
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

/// The fault if `module` cannot have this enforcement. Only denials that are objects can be attributed to a module.
fn fault(module: &LoadedModule, enforcement: EnforcementAction) -> Option<Fault> {
    if enforcement == EnforcementAction::Deny {
        return None;
    }
    if enforcement == EnforcementAction::Warn && module.purpose == Some(AUTHORIZATION) {
        let text = "enforcement warn is not supported for package authorization: the API server shows no warnings for authorization";
        return Some(Fault::new(module.id(), None, text));
    }
    let text = format!("enforcement {enforcement} requires that each element of the rule deny is an object");
    (module.denials == Denials::Others).then(|| Fault::new(module.id(), None, text))
}

#[cfg(test)]
mod tests;
