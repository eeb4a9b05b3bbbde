//! Finds modules that read the contents of a Secret under review: its `data` and `stringData`. Without `--replicate
//! secrets`, evaluations get the Secret without these fields, so a rule about them would never deny anything.
//!
//! The analysis is static. Starting at the rules named `deny`, it tracks the Secret from `input` through variables,
//! functions and rules. A rule that can read the fields is reported, unless the rule excludes Secrets. It may exclude
//! them by `input.request.kind.kind == "Pod"`, by a constant kind in the head, or by a field that no Secret has.

mod binding;
mod calls;
mod flow;
mod frame;
mod guard;
mod review_parts;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::bundle::Bundle;
use super::fault::{Fault, Position};
use super::loaded_module::LoadedModule;
use super::module::{Module, ModuleId};
use flow::Flow;

/// The fault of a rule that applies to Secrets alone.
const CERTAIN: &str = "reads the contents of a Secret: this needs --replicate secrets";
/// The warning about a rule that applies to other kinds as well.
const POSSIBLE: &str = "may read the contents of a Secret under review: without --replicate secrets, \
                        Secrets cannot be written. Restrict the rule to other kinds";
/// The plural of Secrets.
const SECRETS: &str = "secrets";

/// Places where modules read the contents of a Secret under review.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretReads {
    /// Places in rules that apply to Secrets alone.
    certain: BTreeSet<(ModuleId, Position)>,
    /// Places in rules that apply to several kinds, including Secrets.
    possible: BTreeSet<(ModuleId, Position)>,
}

/// Whether policies may read the contents of Secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretContents {
    /// Secrets are replicated.
    Readable,
    /// Secrets are not replicated. If a module reads the contents anyway, the fault has the first such place, and
    /// reviews of Secrets fail.
    Withheld(Option<Fault>),
}

impl Default for SecretContents {
    fn default() -> Self {
        Self::Withheld(None)
    }
}

/// The names by which policies refer to Secrets: the plural `secrets`, and its aliases (`--data-alias`).
#[must_use]
pub fn names(aliases: &BTreeMap<String, String>) -> BTreeSet<String> {
    let aliases = aliases.iter().filter(|(_, resource)| *resource == SECRETS).map(|(name, _)| name.clone());
    [SECRETS.to_owned()].into_iter().chain(aliases).collect()
}

impl SecretReads {
    /// Analyzes `edited`, the modules of `bundle` in the form for engines. `names` are the names by which modules refer
    /// to Secrets. The analysis needs syntax trees. Therefore, it is a part of the [check](super::confined) and within
    /// its limits.
    #[must_use]
    pub(super) fn of(bundle: &Bundle, edited: &[Module], names: &BTreeSet<String>) -> Self {
        let [certain, possible] = Flow::new(edited, names).reads();
        let original = |(module, place): (ModuleId, Position)| {
            let fault = bundle.original_of_edited(Fault::new(&module, place, ""));
            (module, fault.place.unwrap_or(place))
        };
        Self {
            certain: certain.into_iter().map(original).collect(),
            possible: possible.into_iter().map(original).collect(),
        }
    }

    /// Faults of rules that apply to Secrets alone.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        self.certain.iter().map(|(module, place)| Fault::new(module, *place, CERTAIN)).collect()
    }

    /// Warnings about rules that apply to other kinds as well.
    #[must_use]
    pub fn advice(&self) -> Vec<Fault> {
        let only = self.possible.difference(&self.certain);
        only.map(|(module, place)| Fault::new(module, *place, POSSIBLE)).collect()
    }

    /// The value for [`ReviewInputs`](super::snapshot::ReviewInputs) on a hub that replicates no Secrets.
    #[must_use]
    pub fn withheld(&self) -> SecretContents {
        SecretContents::Withheld(self.unreviewed())
    }

    fn unreviewed(&self) -> Option<Fault> {
        let (module, place) = self.certain.first().or_else(|| self.possible.first())?;
        let text = "the policy may read the contents of a Secret: restrict its rule to other kinds, or run the \
                    controller with --replicate secrets";
        Some(Fault::new(module, *place, text))
    }
}

/// Faults of modules of `bundle` that read Secrets in `data.kubernetes`, where Secrets have these `names`.
#[must_use]
pub fn replicated(bundle: &Bundle, names: &BTreeSet<String>) -> Vec<Fault> {
    let of = |module: &LoadedModule| {
        let kinds = module.reads().kinds.iter().filter(|(kind, _)| names.contains(*kind));
        kinds.map(|(kind, place)| Fault::new(module.id(), *place, withheld(kind))).collect::<Vec<_>>()
    };
    bundle.modules().flat_map(of).collect()
}

/// The message about a policy that reads `plural`, a name for Secrets, without `--replicate`.
#[must_use]
pub fn withheld(plural: &str) -> String {
    format!("{plural} are only available if --replicate lists them")
}

#[cfg(test)]
mod tests;
