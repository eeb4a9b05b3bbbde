//! Modules that count together, checked and ready for the engine.

use std::collections::BTreeSet;

use regorus::Engine;

use super::advice;
use super::asked::Packages;
use super::called::Called;
use super::edit::Edited;
use super::fault::Fault;
use super::heads;
use super::module::{self, Module, ModuleId, Syntax, Text};
use super::opa::text::for_opa;
use super::reads::Reads;
use super::review;
use super::whole;

/// Modules without a fault.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    modules: Vec<Loaded>,
}

/// A module, and what engines read of it.
#[derive(Clone, Debug)]
struct Loaded {
    module: Module,
    edited: Edited,
    /// What the embedded engine reads of that.
    guarded: Edited,
}

impl Loaded {
    fn of(module: Module) -> Result<Self, Vec<Fault>> {
        let edited = review::edit(&module)?;
        // That its text cannot be read is told by who checks it.
        let guarded = match read(&module, &edited) {
            Ok(read) => heads::guarded(&read),
            Err(_) => Edited::unchanged(edited.text()),
        };
        Ok(Self { module, edited, guarded })
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

impl Bundle {
    /// Reads `texts` that were [checked](super::confined).
    ///
    /// # Errors
    ///
    /// What does not parse, and what cannot be edited.
    pub fn read(texts: &[Text]) -> Result<Self, Vec<Fault>> {
        Self::read_for(texts, &Packages::default())
    }

    /// The same where these `packages` are asked.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_for(texts: &[Text], packages: &Packages) -> Result<Self, Vec<Fault>> {
        let (modules, faults) = parsed(texts, packages);
        Self::of(modules, faults)
    }

    /// The bundle of those of `modules` that are no part of the engine.
    ///
    /// # Errors
    ///
    /// `faults`, and what is wrong with others.
    pub(super) fn of(modules: Vec<Module>, mut faults: Vec<Fault>) -> Result<Self, Vec<Fault>> {
        let mut loaded = Vec::new();
        for module in modules.into_iter().filter(|module| !review::is_built_in(module)) {
            match Loaded::of(module) {
                Ok(module) => loaded.push(module),
                Err(found) => faults.extend(found),
            }
        }
        if faults.is_empty() { Ok(Self { modules: loaded }) } else { Err(faults) }
    }

    /// The modules, as they were written.
    pub fn modules(&self) -> impl Iterator<Item = &Module> {
        self.modules.iter().map(|loaded| &loaded.module)
    }

    /// The module `id`.
    #[must_use]
    pub fn module(&self, id: &ModuleId) -> Option<&Module> {
        self.modules().find(|module| module.id == *id)
    }

    /// The kinds of the hub that they name, by their plurals.
    #[must_use]
    pub fn reads(&self) -> BTreeSet<String> {
        self.modules().flat_map(|module| Reads::of(module).kinds.into_keys()).collect()
    }

    /// What they most likely do not mean.
    #[must_use]
    pub fn advice(&self) -> Vec<Fault> {
        advice::advice(&self.modules().collect::<Vec<_>>())
    }

    /// The rules without arguments whose names begin with `prefix`: `test_…`, `sample_…`.
    #[must_use]
    pub fn called(&self, prefix: &str) -> Vec<Called> {
        let of_module = |module: &Module| {
            let rules = module.tree.policy.iter();
            rules.filter_map(|rule| Called::of(module, rule, prefix)).collect::<Vec<_>>()
        };
        let mut rules: Vec<Called> = self.modules().flat_map(of_module).collect();
        rules.sort_by(|one, other| one.place.cmp(&other.place));
        // A rule that is written twice is one.
        let mut asked = BTreeSet::new();
        rules.retain(|rule| asked.insert(rule.query.clone()));
        rules
    }

    /// Their packages, each once, without `data`.
    #[must_use]
    pub fn packages(&self) -> BTreeSet<String> {
        self.modules().map(Module::package).collect()
    }

    /// The packages that refer to `package`, by others or by themselves.
    #[must_use]
    pub fn reaching(&self, package: &str) -> BTreeSet<String> {
        let refers: Vec<_> =
            self.modules().map(|module| (&module.package, advice::referred(module))).collect();
        let mut reached = BTreeSet::from([path(package)]);
        loop {
            let to_one = |paths: &BTreeSet<Vec<String>>| {
                paths.iter().any(|to| reached.iter().any(|one| advice::meet(one, to)))
            };
            let more: Vec<Vec<String>> = refers
                .iter()
                .filter(|(package, paths)| !reached.contains(*package) && to_one(paths))
                .map(|(package, _)| (*package).clone())
                .collect();
            if more.is_empty() {
                return reached.iter().map(|path| path[1..].join(".")).collect();
            }
            reached.extend(more);
        }
    }

    /// What `package` comes to.
    #[must_use]
    pub fn reached(&self, package: &str) -> Reached {
        let (mut reached, mut left) = (Reached::default(), self.modules().collect::<Vec<_>>());
        let mut paths = BTreeSet::from([path(package)]);
        loop {
            let is_reached = |module: &&Module| paths.iter().any(|path| advice::meet(path, &module.package));
            let (next, others): (Vec<_>, Vec<_>) = left.into_iter().partition(is_reached);
            if next.is_empty() {
                return reached;
            }
            for module in next {
                reached.modules.insert(module.id.clone());
                let Reads { kinds, any } = Reads::of(module);
                reached.kinds.extend(kinds.into_keys());
                reached.any |= !any.is_empty();
                paths.extend(advice::referred(module));
            }
            left = others;
        }
    }

    /// The modules as they are read, and those that cannot be.
    pub(super) fn edited(&self) -> (Vec<Module>, Vec<Fault>) {
        let (mut modules, mut faults) = (Vec::new(), Vec::new());
        for Loaded { module, edited, .. } in &self.modules {
            match read(module, edited) {
                Ok(module) => modules.push(module),
                Err(fault) => faults.push(fault),
            }
        }
        (modules, faults)
    }

    /// `fault` of what the embedded engine reads, where it was written.
    pub(super) fn original(&self, mut fault: Fault) -> Fault {
        if let Some(loaded) = self.modules.iter().find(|loaded| loaded.module.id == fault.module) {
            fault.place = fault.place.map(|place| loaded.guarded.original(place));
        }
        self.original_of_edited(fault)
    }

    /// `fault` of what `matches` has become, where it was written.
    pub(super) fn original_of_edited(&self, mut fault: Fault) -> Fault {
        if let Some(loaded) = self.modules.iter().find(|loaded| loaded.module.id == fault.module) {
            fault.place = fault.place.map(|place| loaded.edited.original(place));
        }
        fault
    }

    /// Its texts as OPA reads them.
    #[must_use]
    pub fn for_opa(&self) -> Vec<Text> {
        let text = |loaded: &Loaded| {
            let text = for_opa(&loaded.module, loaded.edited.text()).text().clone();
            Text { id: loaded.module.id.clone(), text }
        };
        self.modules.iter().map(text).collect()
    }

    /// `fault` of what OPA reads, where it was written.
    #[must_use]
    pub fn original_of_opa(&self, mut fault: Fault) -> Fault {
        if let Some(loaded) = self.modules.iter().find(|loaded| loaded.module.id == fault.module) {
            let edited = for_opa(&loaded.module, loaded.edited.text());
            fault.place = fault.place.map(|place| edited.original(place));
        }
        self.original_of_edited(fault)
    }

    /// An engine with all modules.
    pub(super) fn engine(&self) -> Result<Engine, Fault> {
        let mut engine = module::engine_for(Syntax::V1);
        for (name, text) in whole::first(self.modules()) {
            let added = engine.add_policy(name, text);
            added.map_err(|error| Fault::of_engine(&self.some_module(), &error))?;
        }
        for Loaded { module, guarded, .. } in &self.modules {
            engine.set_rego_v0(module.syntax == Syntax::V0);
            engine
                .add_policy(module.id.as_str().to_owned(), guarded.text().as_ref().to_owned())
                .map_err(|error| self.original(Fault::of_engine(&module.id, &error)))?;
        }
        // Queries are written in one.
        engine.set_rego_v0(false);
        Ok(engine)
    }

    /// The module that is named where the engine names none: the first.
    pub(super) fn some_module(&self) -> ModuleId {
        self.modules.first().map_or_else(|| ModuleId::new("bundle"), |loaded| loaded.module.id.clone())
    }
}

/// Where `package` is in `data`.
fn path(package: &str) -> Vec<String> {
    ["data"].into_iter().chain(package.split('.')).map(str::to_owned).collect()
}

/// The modules that `texts` are where these `packages` are asked, and what keeps others from being one.
pub(super) fn parsed(texts: &[Text], packages: &Packages) -> (Vec<Module>, Vec<Fault>) {
    let (mut modules, mut faults) = (Vec::new(), Vec::new());
    for text in texts {
        match Module::parse(text) {
            Ok(module) => modules.push(module.asked(packages)),
            Err(fault) => faults.push(fault),
        }
    }
    (modules, faults)
}

/// What a package comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Its modules, and those that they refer to.
    pub modules: BTreeSet<ModuleId>,
    /// The kinds of the hub that these read, by their plurals.
    pub kinds: BTreeSet<String>,
    /// Whether they read kinds that they do not name.
    pub any: bool,
}

#[cfg(test)]
mod tests;
