//! A module of a bundle: its texts for the engines, and facts derived from its syntax tree. The tree itself is dropped,
//! because it takes 50 times the memory of the text.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::advice;
use super::asked::Packages;
use super::called::Called;
use super::edit::Edited;
use super::enforcement::Denials;
use super::fault::{Fault, Place};
use super::metadata;
use super::module::{Module, ModuleId, Syntax, Text};
use super::opa::text::{for_opa, untold};
use super::parts::{Part, parts};
use super::paths::Paths;
use super::reads::Reads;
use super::review::{self, Denies};
use super::rewrites;
use super::tree;

/// A module that was loaded without faults.
#[derive(Debug)]
pub struct LoadedModule {
    pub(super) id: ModuleId,
    /// The text as written.
    pub(super) text: Arc<str>,
    /// The text with changes that let the engine parse it.
    pub(super) read: Edited,
    pub(super) syntax: Syntax,
    /// The path of its rules: `["data", "admission"]`.
    pub(super) package: Vec<String>,
    /// The purpose for which its package is queried, if any.
    pub(super) asked_for: Option<&'static str>,
    /// The text with `matches` resolved.
    pub(super) edited: Edited,
    /// The edited text in the form for the embedded engine.
    pub(super) rewritten: Edited,
    /// The texts for the engine instead of the rewritten text, if there are several.
    pub(super) parts: Vec<Part>,
    /// The package and imports in the rewritten text.
    pub(super) header: Header,
    /// The byte offset of the package, if OPA needs `import rego.v1` after it.
    untold: Option<usize>,
    /// The place of the package declaration.
    pub(super) declared: Place,
    /// The kinds of the hub that the module reads.
    pub(super) reads: Reads,
    /// The paths in `data` outside of the package to which the module refers.
    pub(super) refers: Paths,
    /// The names of the module's rules, without functions.
    pub(super) rules: BTreeSet<String>,
    /// The kinds whose objects the module may deny.
    pub(super) denies: Denies,
    /// Whether the denials are objects.
    pub(super) denials: Denials,
    /// The constant ids of the denials.
    pub(super) ids: Vec<(String, Place)>,
    /// Advice on this module alone.
    pub(super) advice: Vec<Fault>,
    /// The tests and samples.
    pub(super) called: Vec<Called>,
}

/// The part of a module before its rules.
#[derive(Debug, Default)]
pub(super) struct Header {
    /// The byte offset of the first rule; 0 if the module cannot be joined with others.
    pub(super) end: usize,
    /// The imports as written.
    pub(super) imports: Box<str>,
    /// The number of rules that follow in the rewritten text.
    pub(super) rules: usize,
}

impl Header {
    fn of(module: &Module) -> Self {
        let imports: Vec<&str> =
            module.tree.imports.iter().map(|import| module.slice(&import.span)).collect();
        // A target, and keywords as names, change how the engine parses the modules that follow.
        let is_plain = module.tree.target.is_none() && module.tree.rego_v1 == (module.syntax == Syntax::V1);
        let first = module.tree.policy.first().filter(|_| is_plain);
        Self {
            end: first.map_or(0, |rule| rule.span().start as usize),
            imports: imports.join("\n").into(),
            rules: rewrites::count(&module.tree.policy, |_| true),
        }
    }
}

impl LoadedModule {
    /// Loads `module`. Also returns the module parsed from the edited text, or the fault that prevents this.
    ///
    /// # Errors
    ///
    /// Returns the faults if the text cannot be edited.
    pub(super) fn of(module: &Module) -> Result<(Self, Result<Module, Fault>), Vec<Fault>> {
        let edited = review::edit(module)?;
        let read = read(module, &edited);
        let rewritten = match &read {
            Ok(read) => rewritten(read),
            Err(_) => Edited::unchanged(edited.text()),
        };
        let parts = read.as_ref().map(|read| parts(read, &rewritten)).unwrap_or_default();
        let header = if parts.is_empty() { read.as_ref().map(Header::of) } else { Ok(Header::default()) };
        let header = header.unwrap_or_default();
        let rules = module.tree.policy.iter().filter(|rule| tree::arity(rule).is_none());
        let rules = rules.filter_map(|rule| tree::constants(tree::reference(rule)).into_iter().next());
        let refers = advice::referred(module).into_iter();
        let refers = refers.filter(|path| path.first().is_some_and(|root| root == "data")).collect();
        let loaded = Self {
            id: module.id.clone(),
            text: module.original.clone(),
            read: module.read.clone(),
            syntax: module.syntax,
            package: module.package.clone(),
            asked_for: module.asked_for,
            untold: untold(module),
            declared: module.place(tree::start(&module.tree.package.refr)),
            reads: Reads::of(module),
            refers,
            rules: rules.collect(),
            denies: Denies::of([module].into_iter()),
            denials: Denials::of(module),
            ids: advice::ids_of(module),
            advice: advice::of_module(module),
            called: Called::all(module),
            edited,
            rewritten,
            parts,
            header,
        };
        Ok((loaded, read))
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &ModuleId {
        &self.id
    }

    /// The text as written.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The parts of the package's name.
    #[must_use]
    pub fn path(&self) -> &[String] {
        &self.package[1..]
    }

    /// The package's name: `io.k8s.federation.admission`.
    #[must_use]
    pub fn package(&self) -> String {
        self.path().join(".")
    }

    /// The kinds of the hub that the module reads.
    #[must_use]
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// The kinds whose objects the module may deny.
    #[must_use]
    pub fn denies(&self) -> &Denies {
        &self.denies
    }

    /// A fault of the package declaration.
    pub fn fault_of_package(&self, text: &str) -> Fault {
        Fault::new(&self.id, self.declared, format!("package {}: {text}", self.package()))
    }

    /// The packages of the module's rules, without `data`, each with the names of its rules.
    pub(super) fn packages(&self) -> impl Iterator<Item = (&[String], &BTreeSet<String>)> {
        let parts = self.parts.iter().map(|part| (part.package.as_slice(), &part.rules));
        let own = self.parts.is_empty().then(|| (self.path(), &self.rules));
        own.into_iter().chain(parts)
    }

    /// The text for OPA.
    pub(super) fn for_opa(&self) -> Edited {
        for_opa(self.untold, self.edited.text())
    }

    /// Whether the module was loaded from the same `text` and for the same purpose.
    pub(super) fn is_of(&self, text: &Text, packages: &Packages) -> bool {
        (Arc::ptr_eq(&self.text, &text.text) || self.text == text.text)
            && self.asked_for == packages.asked_for(&self.package())
    }
}

/// The text of `module` for the embedded engine.
fn rewritten(module: &Module) -> Edited {
    let constant = metadata::replaced(module);
    if !constant.is_unchanged()
        && let Ok(module) = module.with_text(constant.text())
    {
        return rewrites::rewritten(&module).after(constant);
    }
    rewrites::rewritten(module)
}

/// Parses the `edited` text of `module`.
fn read(module: &Module, edited: &Edited) -> Result<Module, Fault> {
    if *edited.text() == module.text {
        return Ok(module.of_its_text());
    }
    let read = Module::parse_edited(&Text { id: module.id.clone(), text: edited.text().clone() })?;
    Ok(Module { asked_for: module.asked_for, ..read })
}
