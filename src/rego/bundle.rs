//! Modules that count together, checked and ready for the engine.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use regorus::Engine;

use super::advice;
use super::asked::Packages;
use super::called::Called;
use super::fault::Fault;
use super::loaded_module::LoadedModule;
use super::module::{self, Module, ModuleId, Syntax, Text};
use super::paths::Paths;
use super::review::{self, Denies};
use super::whole;

/// Modules without a fault. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    modules: Arc<Vec<Arc<LoadedModule>>>,
    /// Where in `modules` each is.
    by_id: Arc<HashMap<ModuleId, usize>>,
    /// What packages refer to, once that was needed.
    referred: Arc<Mutex<BTreeMap<String, Arc<Paths>>>>,
}

impl Bundle {
    /// Reads `texts` that were [checked](super::confined).
    ///
    /// # Errors
    ///
    /// What does not parse, and what cannot be edited.
    pub fn read(texts: &[Text]) -> Result<Self, Vec<Fault>> {
        Self::read_for(texts, &Packages::default(), &Self::default())
    }

    /// The same where these `packages` are queried. Modules of `known` that have not changed are not read again.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_for(texts: &[Text], packages: &Packages, known: &Self) -> Result<Self, Vec<Fault>> {
        let (mut modules, mut faults) = (Vec::new(), Vec::new());
        for text in texts {
            let asked_for = |package: &str| packages.asked_for(package);
            match known.shared(&text.id).filter(|module| module.is_of(text, asked_for)) {
                Some(module) => modules.push(module.clone()),
                None => match Module::parse(text) {
                    Ok(module) => load(&module.asked(packages), &mut modules, &mut faults, drop),
                    Err(fault) => faults.push(fault),
                },
            }
        }
        if faults.is_empty() { Ok(Self::new(modules)) } else { Err(faults) }
    }

    /// The bundle of those of `modules` that are no part of the engine; each goes once it is read, and `edited` gets it as it is edited.
    ///
    /// # Errors
    ///
    /// `faults`, and what is wrong with others.
    pub(super) fn of(
        modules: impl IntoIterator<Item = Module>,
        mut faults: Vec<Fault>,
        mut edited: impl FnMut(Result<Module, Fault>),
    ) -> Result<Self, Vec<Fault>> {
        let mut loaded = Vec::new();
        for module in modules {
            load(&module, &mut loaded, &mut faults, &mut edited);
        }
        if faults.is_empty() { Ok(Self::new(loaded)) } else { Err(faults) }
    }

    fn new(modules: Vec<Arc<LoadedModule>>) -> Self {
        let by_id = modules.iter().enumerate().map(|(index, module)| (module.id.clone(), index)).collect();
        Self { modules: Arc::new(modules), by_id: Arc::new(by_id), referred: Arc::default() }
    }

    /// The modules, in the order in which they were given.
    pub fn modules(&self) -> impl Iterator<Item = &LoadedModule> {
        self.modules.iter().map(AsRef::as_ref)
    }

    /// The module `id`.
    #[must_use]
    pub fn module(&self, id: &ModuleId) -> Option<&LoadedModule> {
        self.shared(id).map(AsRef::as_ref)
    }

    fn shared(&self, id: &ModuleId) -> Option<&Arc<LoadedModule>> {
        self.modules.get(*self.by_id.get(id)?)
    }

    /// The kinds of the hub that they name, by their plurals.
    #[must_use]
    pub fn reads(&self) -> BTreeSet<String> {
        self.modules().flat_map(|module| module.reads.kinds.keys().cloned()).collect()
    }

    /// The kinds that they deny.
    #[must_use]
    pub fn denies(&self) -> Denies {
        Denies::of_all(self.modules().map(LoadedModule::denies))
    }

    /// What they most likely do not mean.
    #[must_use]
    pub fn advice(&self) -> Vec<Fault> {
        advice::advice(&self.modules().collect::<Vec<_>>())
    }

    /// The rules without arguments whose names begin with `prefix`: `test_…`, `sample_…`.
    #[must_use]
    pub fn called(&self, prefix: &str) -> Vec<Called> {
        let called = self.modules().flat_map(|module| &module.called);
        let mut rules: Vec<Called> =
            called.filter(|rule| rule.place.text.starts_with(prefix)).cloned().collect();
        rules.sort_by(|one, other| one.place.cmp(&other.place));
        // A rule that is written twice is one.
        let mut asked = BTreeSet::new();
        rules.retain(|rule| asked.insert(rule.query.clone()));
        rules
    }

    /// Their packages, each once, without `data`.
    #[must_use]
    pub fn packages(&self) -> BTreeSet<String> {
        self.modules().map(LoadedModule::package).collect()
    }

    /// Whether `package` is `other`, or refers to it, be it through other modules.
    #[must_use]
    pub fn refers(&self, package: &str, other: &str) -> bool {
        package == other || {
            let mut known = self.referred.lock();
            let referred =
                known.entry(package.to_owned()).or_insert_with(|| Arc::new(self.referred(package)));
            referred.meet(&path(other))
        }
    }

    /// The places in `data` that the modules of `package` refer to, also through other modules.
    fn referred(&self, package: &str) -> Paths {
        let own = path(package);
        let first = self.modules().filter(|module| module.package == own);
        let (mut packages, mut left) = (self.by_package(), Vec::new());
        let mut referred = Paths::default();
        left.extend(first.flat_map(|module| module.refers.iter().cloned()));
        while let Some(path) = left.pop() {
            for module in packages.take(&path) {
                left.extend(module.refers.iter().cloned());
            }
            referred.extend([path]);
        }
        referred
    }

    /// What `package` comes to.
    #[must_use]
    pub fn reached(&self, package: &str) -> Reached {
        let (mut reached, mut packages) = (Reached::default(), self.by_package());
        let mut left = vec![path(package)];
        while let Some(path) = left.pop() {
            for module in packages.take(&path) {
                reached.modules.insert(module.id.clone());
                reached.kinds.extend(module.reads.kinds.keys().cloned());
                reached.any |= !module.reads.any.is_empty();
                left.extend(module.refers.iter().cloned());
            }
        }
        reached
    }

    /// The modules whose package meets one of `paths`.
    pub(super) fn meeting<'b>(&'b self, paths: &Paths) -> impl Iterator<Item = &'b LoadedModule> {
        self.modules().filter(|module| paths.meet(&module.package))
    }

    /// The module of `package`, where that has one alone, else the name of the package.
    pub(super) fn name_of(&self, package: &str) -> ModuleId {
        let mut modules = self.modules().filter(|module| module.package() == package);
        match (modules.next(), modules.next()) {
            (Some(module), None) => module.id.clone(),
            _ => ModuleId::new(&format!("package {package}")),
        }
    }

    /// The bundle of the modules `ids` of this one.
    pub(super) fn of_some(&self, ids: &HashSet<ModuleId>) -> Self {
        Self::new(self.modules.iter().filter(|module| ids.contains(&module.id)).cloned().collect())
    }

    fn by_package(&self) -> ByPackage<'_> {
        let mut modules: HashMap<&[String], Vec<&LoadedModule>> = HashMap::new();
        for module in self.modules() {
            modules.entry(&module.package).or_default().push(module);
        }
        ByPackage { paths: modules.keys().map(|package| package.to_vec()).collect(), modules }
    }

    /// `fault` of what the embedded engine reads, where it was written.
    pub(super) fn original(&self, mut fault: Fault) -> Fault {
        if let Some(loaded) = self.module(&fault.module) {
            let place = fault.place.map(|place| loaded.bounded.original(place));
            fault.place = place.map(|place| loaded.guarded.original(place));
        }
        self.original_of_edited(fault)
    }

    /// `fault` of what `matches` has become, where it was written.
    pub(super) fn original_of_edited(&self, mut fault: Fault) -> Fault {
        if let Some(loaded) = self.module(&fault.module) {
            fault.place = fault.place.map(|place| loaded.edited.original(place));
        }
        fault
    }

    /// Its texts as OPA reads them.
    #[must_use]
    pub fn for_opa(&self) -> Vec<Text> {
        let text =
            |module: &LoadedModule| Text { id: module.id.clone(), text: module.for_opa().text().clone() };
        self.modules().map(text).collect()
    }

    /// `fault` of what OPA reads, where it was written.
    #[must_use]
    pub fn original_of_opa(&self, mut fault: Fault) -> Fault {
        if let Some(loaded) = self.module(&fault.module) {
            let edited = loaded.for_opa();
            fault.place = fault.place.map(|place| edited.original(place));
        }
        self.original_of_edited(fault)
    }

    /// An engine with all modules.
    pub(super) fn engine(&self) -> Result<Engine, Fault> {
        self.engine_of(|module| module.bounded.text())
    }

    /// An engine with one text of each module.
    pub(super) fn engine_of(&self, text: fn(&LoadedModule) -> &Arc<str>) -> Result<Engine, Fault> {
        let mut engine = module::engine_for(Syntax::V1);
        for (name, whole) in whole::first(self.modules()) {
            let added = engine.add_policy(name, whole);
            added.map_err(|error| Fault::of_engine(&self.some_module(), &error))?;
        }
        for module in self.modules() {
            engine.set_rego_v0(module.syntax == Syntax::V0);
            engine
                .add_policy(module.id.as_str().to_owned(), text(module).as_ref().to_owned())
                .map_err(|error| self.original(Fault::of_engine(&module.id, &error)))?;
        }
        // Queries are written in one.
        engine.set_rego_v0(false);
        Ok(engine)
    }

    /// The module that is named where the engine names none: the first.
    pub(super) fn some_module(&self) -> ModuleId {
        self.modules.first().map_or_else(|| ModuleId::new("bundle"), |module| module.id.clone())
    }
}

/// Where `package` is in `data`.
fn path(package: &str) -> Vec<String> {
    ["data"].into_iter().chain(package.split('.')).map(str::to_owned).collect()
}

/// The modules that `texts` are where these `packages` are queried, and why others are none. `before` gets the number of each text before
/// it is read.
pub(super) fn parsed(
    texts: &[Text],
    packages: &Packages,
    mut before: impl FnMut(usize),
) -> (Vec<Module>, Vec<Fault>) {
    let (mut modules, mut faults) = (Vec::new(), Vec::new());
    for (number, text) in texts.iter().enumerate() {
        before(number);
        match Module::parse(text) {
            Ok(module) => modules.push(module.asked(packages)),
            Err(fault) => faults.push(fault),
        }
    }
    (modules, faults)
}

/// The modules of a bundle by their packages, of which some were taken.
struct ByPackage<'m> {
    paths: Paths,
    modules: HashMap<&'m [String], Vec<&'m LoadedModule>>,
}

impl<'m> ByPackage<'m> {
    /// The modules whose package meets `path`.
    fn take(&mut self, path: &[String]) -> Vec<&'m LoadedModule> {
        let packages = self.paths.take(path);
        packages.iter().filter_map(|package| self.modules.remove(package.as_slice())).flatten().collect()
    }
}

/// Adds `module`, where it is no part of the engine, to `loaded`, or what is wrong with it to `faults`.
fn load(
    module: &Module,
    loaded: &mut Vec<Arc<LoadedModule>>,
    faults: &mut Vec<Fault>,
    mut edited: impl FnMut(Result<Module, Fault>),
) {
    if review::is_built_in(module) {
        return;
    }
    match LoadedModule::of(module) {
        Ok((module, read)) => {
            loaded.push(Arc::new(module));
            edited(read);
        }
        Err(found) => faults.extend(found),
    }
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
