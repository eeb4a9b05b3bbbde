//! A module of a bundle: its text as engines read it, and what its tree says. The tree itself is dropped: it takes 50 times the memory
//! of the text.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::advice;
use super::bounds;
use super::called::Called;
use super::edit::Edited;
use super::enforcement::Denials;
use super::fault::{Fault, Place};
use super::heads;
use super::module::{Module, ModuleId, Syntax, Text, place};
use super::opa::text::{for_opa, untold};
use super::paths::Paths;
use super::reads::Reads;
use super::review::{self, Denies};
use super::tree;

/// A module without a fault of its own.
#[derive(Debug)]
pub struct LoadedModule {
    pub(super) id: ModuleId,
    pub(super) text: Arc<str>,
    pub(super) syntax: Syntax,
    /// Where its rules are: `["data", "admission"]`.
    pub(super) package: Vec<String>,
    /// What its package is queried for, if anything.
    pub(super) asked_for: Option<&'static str>,
    /// Its text with `matches` resolved.
    pub(super) edited: Edited,
    /// That text with what its heads need.
    pub(super) guarded: Edited,
    /// That text as the embedded engine reads it.
    pub(super) bounded: Edited,
    /// Where its package begins, in bytes, where OPA needs `import rego.v1` after it.
    untold: Option<usize>,
    /// Where its package is declared.
    pub(super) declared: Place,
    /// The kinds of the hub that it reads.
    pub(super) reads: Reads,
    /// The places in `data` outside of its package that it refers to.
    pub(super) refers: Paths,
    /// The names of its rules, without functions.
    pub(super) rules: BTreeSet<String>,
    /// The kinds that it denies.
    pub(super) denies: Denies,
    /// Whether its denials are objects.
    pub(super) denials: Denials,
    /// The constant ids of its denials.
    pub(super) ids: Vec<(String, Place)>,
    /// Advice on it alone.
    pub(super) advice: Vec<Fault>,
    /// Its tests and samples.
    pub(super) called: Vec<Called>,
}

impl LoadedModule {
    /// What `module` says, and the module as it is edited, or why that does not parse.
    ///
    /// # Errors
    ///
    /// What cannot be edited.
    pub(super) fn of(module: &Module) -> Result<(Self, Result<Module, Fault>), Vec<Fault>> {
        if let Some(fault) = bounds::fault(module) {
            return Err(vec![fault]);
        }
        let edited = review::edit(module)?;
        let read = read(module, &edited);
        let guarded = match &read {
            Ok(read) => heads::guarded(read),
            Err(_) => Edited::unchanged(edited.text()),
        };
        let bounded = match &read {
            Ok(read) => bounded(read, &guarded),
            Err(_) => Edited::unchanged(guarded.text()),
        };
        let rules = module.tree.policy.iter().filter(|rule| tree::arity(rule).is_none());
        let rules = rules.filter_map(|rule| tree::constants(tree::reference(rule)).into_iter().next());
        let refers = advice::referred(module).into_iter();
        let refers = refers.filter(|path| path.first().is_some_and(|root| root == "data")).collect();
        let loaded = Self {
            id: module.id.clone(),
            text: module.text.clone(),
            syntax: module.syntax,
            package: module.package.clone(),
            asked_for: module.asked_for,
            untold: untold(module),
            declared: place(tree::start(&module.tree.package.refr)),
            reads: Reads::of(module),
            refers,
            rules: rules.collect(),
            denies: Denies::of([module].into_iter()),
            denials: Denials::of(module),
            ids: advice::ids_of(module),
            advice: advice::of_module(module),
            called: Called::all(module),
            edited,
            guarded,
            bounded,
        };
        Ok((loaded, read))
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &ModuleId {
        &self.id
    }

    /// Its text, as it was written.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The parts of its package, without `data`.
    #[must_use]
    pub fn path(&self) -> &[String] {
        &self.package[1..]
    }

    /// Its package, without `data`: `io.k8s.federation.admission`.
    #[must_use]
    pub fn package(&self) -> String {
        self.path().join(".")
    }

    /// The kinds of the hub that it reads.
    #[must_use]
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// The kinds that it denies.
    #[must_use]
    pub fn denies(&self) -> &Denies {
        &self.denies
    }

    /// That its rules may not be where its package says.
    pub(super) fn fault_of_package(&self, text: &str) -> Fault {
        Fault::new(&self.id, self.declared, format!("package {}: {text}", self.package()))
    }

    /// Its text as OPA reads it.
    pub(super) fn for_opa(&self) -> Edited {
        for_opa(self.untold, self.edited.text())
    }

    /// Whether it was read from the same `text` for the same use.
    pub(super) fn is_of(&self, text: &Text, asked_for: impl Fn(&str) -> Option<&'static str>) -> bool {
        (Arc::ptr_eq(&self.text, &text.text) || self.text == text.text)
            && self.asked_for == asked_for(&self.package())
    }
}

/// `module`, as it is `guarded`, with bounds. It is parsed again only where it has any.
fn bounded(module: &Module, guarded: &Edited) -> Edited {
    if bounds::bounded(module).is_unchanged() {
        return Edited::unchanged(guarded.text());
    }
    match read(module, guarded) {
        Ok(module) => bounds::bounded(&module),
        Err(_) => Edited::unchanged(guarded.text()),
    }
}

/// `module`, as it is `edited`.
fn read(module: &Module, edited: &Edited) -> Result<Module, Fault> {
    if *edited.text() == module.text {
        return Ok(module.clone());
    }
    let read = Module::parse(&Text { id: module.id.clone(), text: edited.text().clone() })?;
    Ok(Module { asked_for: module.asked_for, ..read })
}
