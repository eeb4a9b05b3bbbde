//! A module of a bundle: its texts for the engines, and facts derived from its syntax tree. The tree itself is dropped,
//! because it takes 50 times the memory of the text.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::advice;
use super::edit::EditedText;
use super::enforcement::Denials;
use super::fault::{Fault, Position};
use super::metadata;
use super::module::{Module, ModuleId, Syntax, Text};
use super::opa::text::{for_opa, v1_import_offset};
use super::package_texts::{PackageText, package_texts};
use super::paths::Paths;
use super::prefixed_rules::PrefixedRule;
use super::queries::QueriedPackages;
use super::reads::KindReads;
use super::review::{self, DeniedKinds};
use super::rewrites;
use super::tree;

/// A module that was loaded without faults.
#[derive(Debug)]
pub struct LoadedModule {
    pub(super) id: ModuleId,
    /// The text as written.
    pub(super) text: Arc<str>,
    /// The text with changes that let the engine parse it.
    pub(super) read: EditedText,
    pub(super) syntax: Syntax,
    /// The path of the module's package: `["data", "admission"]`.
    pub(super) package: Vec<String>,
    /// The purpose of queries of the module's package, one of [`PURPOSES`](crate::queries::PURPOSES); `None` if the
    /// package is not queried.
    pub(super) purpose: Option<&'static str>,
    /// The text in which [`review`] has replaced references to `matches`.
    pub(super) edited: EditedText,
    /// The edited text in the form for the embedded engine.
    pub(super) rewritten: EditedText,
    /// The texts that replace `rewritten` in the engine; empty if the engine parses `rewritten` itself.
    pub(super) package_texts: Vec<PackageText>,
    /// The package and imports in the rewritten text.
    pub(super) header: Header,
    /// The byte offset of the package, if OPA needs `import rego.v1` after it.
    v1_import_offset: Option<usize>,
    /// The place of the package declaration.
    pub(super) declared: Position,
    /// The kinds of the hub that the module reads.
    pub(super) reads: KindReads,
    /// The paths in `data` to which the module refers, except for paths in its own package.
    pub(super) references: Paths,
    /// The names of the module's rules, without functions.
    pub(super) rules: BTreeSet<String>,
    /// The kinds whose objects the module may deny.
    pub(super) denied_kinds: DeniedKinds,
    /// Whether the denials are objects.
    pub(super) denials: Denials,
    /// The constant ids of the denials.
    pub(super) ids: Vec<(String, Position)>,
    /// Advice that depends on this module alone.
    pub(super) advice: Vec<Fault>,
    /// The test rules and sample rules.
    pub(super) prefixed_rules: Vec<PrefixedRule>,
}

/// The part of a module before its rules.
#[derive(Debug, Default)]
pub(super) struct Header {
    /// The byte offset of the first rule; 0 if the module cannot be joined with others.
    pub(super) end: usize,
    /// The imports as written.
    pub(super) imports: Box<str>,
    /// The number of rules after the header in the rewritten text.
    pub(super) rules: usize,
}

impl Header {
    fn of(module: &Module) -> Self {
        let imports: Vec<&str> =
            module.tree.imports.iter().map(|import| module.slice(&import.span)).collect();
        // The rule `__target__`, and `import rego.v1` in a module of the older syntax, change how the engine parses the
        // modules after it in a joined text.
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
    /// Loads `module`. Also returns the module parsed from the edited text, or the fault that prevents parsing.
    ///
    /// # Errors
    ///
    /// Returns the faults if the text cannot be edited.
    pub(super) fn of(module: &Module) -> Result<(Self, Result<Module, Fault>), Vec<Fault>> {
        let edited = review::edit(module)?;
        let read = read(module, &edited);
        let rewritten = match &read {
            Ok(read) => rewritten(read),
            Err(_) => EditedText::unchanged(edited.text()),
        };
        let package_texts = read.as_ref().map(|read| package_texts(read, &rewritten)).unwrap_or_default();
        let header =
            if package_texts.is_empty() { read.as_ref().map(Header::of) } else { Ok(Header::default()) };
        let header = header.unwrap_or_default();
        let rules = module.tree.policy.iter().filter(|rule| tree::arity(rule).is_none());
        let rules = rules.filter_map(|rule| tree::constants(tree::reference(rule)).into_iter().next());
        let references = advice::referred(module).into_iter();
        let references = references.filter(|path| path.first().is_some_and(|root| root == "data")).collect();
        let loaded = Self {
            id: module.id.clone(),
            text: module.original.clone(),
            read: module.read.clone(),
            syntax: module.syntax,
            package: module.package.clone(),
            purpose: module.purpose,
            v1_import_offset: v1_import_offset(module),
            declared: module.place(tree::start(&module.tree.package.refr)),
            reads: KindReads::of(module),
            references,
            rules: rules.collect(),
            denied_kinds: DeniedKinds::of([module].into_iter()),
            denials: Denials::of(module),
            ids: advice::ids_of(module),
            advice: advice::of_module(module),
            prefixed_rules: PrefixedRule::all(module),
            edited,
            rewritten,
            package_texts,
            header,
        };
        Ok((loaded, read))
    }

    /// The module's id.
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
    pub fn reads(&self) -> &KindReads {
        &self.reads
    }

    /// The kinds whose objects the module may deny.
    #[must_use]
    pub fn denied_kinds(&self) -> &DeniedKinds {
        &self.denied_kinds
    }

    /// A fault of the package declaration.
    pub fn fault_of_package(&self, text: &str) -> Fault {
        Fault::new(&self.id, self.declared, format!("package {}: {text}", self.package()))
    }

    /// The packages of the module's rules, without `data`, each with the names of its rules.
    pub(super) fn packages(&self) -> impl Iterator<Item = (&[String], &BTreeSet<String>)> {
        let package_texts = self.package_texts.iter().map(|part| (part.package.as_slice(), &part.rules));
        let own = self.package_texts.is_empty().then(|| (self.path(), &self.rules));
        own.into_iter().chain(package_texts)
    }

    /// The text of the module in the form for OPA.
    pub(super) fn for_opa(&self) -> EditedText {
        for_opa(self.v1_import_offset, self.edited.text())
    }

    /// Whether the module was loaded from the same `text` and for the same purpose.
    pub(super) fn is_loaded_from(&self, text: &Text, packages: &QueriedPackages) -> bool {
        (Arc::ptr_eq(&self.text, &text.text) || self.text == text.text)
            && self.purpose == packages.purpose(&self.package())
    }
}

/// The text of `module` for the embedded engine.
fn rewritten(module: &Module) -> EditedText {
    let constant = metadata::replaced(module);
    if !constant.is_unchanged()
        && let Ok(module) = module.with_text(constant.text())
    {
        return rewrites::rewritten(&module).after(constant);
    }
    rewrites::rewritten(module)
}

/// Parses the `edited` text of `module`.
fn read(module: &Module, edited: &EditedText) -> Result<Module, Fault> {
    if *edited.text() == module.text {
        return Ok(module.of_its_text());
    }
    let read = Module::parse_edited(&Text { id: module.id.clone(), text: edited.text().clone() })?;
    Ok(Module { purpose: module.purpose, ..read })
}
