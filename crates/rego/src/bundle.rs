//! Bundles: checked modules that are loaded together, ready for the engine.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use regorus::{Engine, Value};

use super::advice;
use super::fault::Fault;
use super::joined::{JoinedText, JoinedTexts};
use super::loaded_module::LoadedModule;
use super::module::{self, Module, ModuleId, Syntax, Text};
use super::package_preludes;
use super::paths::Paths;
use super::prefixed_rules::PrefixedRule;
use super::queries::{self, QueriedPackages};
use super::review::{self, DeniedKinds};

/// Modules without a fault. Clones of a bundle share its modules.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    modules: Arc<Vec<Arc<LoadedModule>>>,
    /// The index of each module in `modules`.
    by_id: Arc<HashMap<ModuleId, usize>>,
    /// The texts for the embedded engine, computed when the first engine is created.
    joined: Arc<OnceLock<JoinedTexts>>,
    /// The paths that each package refers to, computed on demand.
    referred: Arc<Mutex<BTreeMap<String, Arc<Paths>>>>,
}

impl Bundle {
    /// Parses `texts` that were [checked](super::confined).
    ///
    /// # Errors
    ///
    /// Returns the faults of texts that do not parse or cannot be edited.
    pub fn read(texts: &[Text]) -> Result<Self, Vec<Fault>> {
        Self::read_for(texts, &QueriedPackages::default(), &Self::default())
    }

    /// Parses `texts` for queries of these `packages`. Unchanged modules of `known` are reused.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Self::read`].
    pub fn read_for(texts: &[Text], packages: &QueriedPackages, known: &Self) -> Result<Self, Vec<Fault>> {
        let (mut modules, mut faults) = (Vec::new(), Vec::new());
        for text in texts {
            match known.shared(&text.id).filter(|module| module.is_loaded_from(text, packages)) {
                Some(module) => modules.push(module.clone()),
                None => match Module::parse(text) {
                    Ok(module) => load(&module.with_purpose(packages), &mut modules, &mut faults, drop),
                    Err(fault) => faults.push(fault),
                },
            }
        }
        if faults.is_empty() { Ok(Self::new(modules)) } else { Err(faults) }
    }

    /// Creates a bundle of `modules`. Skips modules that define `data.k8s.matches`, which this crate replaces. Drops
    /// each syntax tree after use. `edited` receives each module in its edited form.
    ///
    /// # Errors
    ///
    /// Returns `faults`, together with the faults of modules that cannot be loaded.
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
        Self {
            modules: Arc::new(modules),
            by_id: Arc::new(by_id),
            joined: Arc::default(),
            referred: Arc::default(),
        }
    }

    fn joined(&self) -> &JoinedTexts {
        self.joined.get_or_init(|| JoinedTexts::of(&self.modules))
    }

    /// The modules, in the order in which they were passed to the constructor.
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

    /// The plurals of the kinds that the modules read from the hub.
    #[must_use]
    pub fn reads(&self) -> BTreeSet<String> {
        self.modules().flat_map(|module| module.reads.kinds.keys().cloned()).collect()
    }

    /// The kinds whose objects the modules may deny.
    #[must_use]
    pub fn denied_kinds(&self) -> DeniedKinds {
        DeniedKinds::of_all(self.modules().map(LoadedModule::denied_kinds))
    }

    /// Advice about probable mistakes.
    #[must_use]
    pub fn advice(&self) -> Vec<Fault> {
        advice::advice(&self.modules().collect::<Vec<_>>())
    }

    /// The rules without arguments whose names begin with `prefix`: `test_…`, `sample_…`.
    #[must_use]
    pub fn rules_with_prefix(&self, prefix: &str) -> Vec<PrefixedRule> {
        let rules_with_prefix = self.modules().flat_map(|module| &module.prefixed_rules);
        let mut rules: Vec<PrefixedRule> =
            rules_with_prefix.filter(|rule| rule.fault.text.starts_with(prefix)).cloned().collect();
        rules.sort_by(|one, other| one.fault.cmp(&other.fault));
        // A rule with several definitions is in the list once, at the place of its first definition.
        let mut first: HashMap<String, usize> = HashMap::new();
        let mut rules_with_prefix: Vec<PrefixedRule> = Vec::new();
        for rule in rules {
            match first.get(&rule.query) {
                Some(index) => rules_with_prefix[*index].definitions += rule.definitions,
                None => {
                    first.insert(rule.query.clone(), rules_with_prefix.len());
                    rules_with_prefix.push(rule);
                }
            }
        }
        rules_with_prefix
    }

    /// The names of the packages, without `data`.
    #[must_use]
    pub fn packages(&self) -> BTreeSet<String> {
        self.modules().map(LoadedModule::package).collect()
    }

    /// Whether `package` is `other`, or refers to `other` directly or through other modules.
    #[must_use]
    pub fn refers(&self, package: &str, other: &str) -> bool {
        package == other || {
            let mut known = self.referred.lock();
            let referred =
                known.entry(package.to_owned()).or_insert_with(|| Arc::new(self.referred(package)));
            referred.overlaps(&path(other))
        }
    }

    /// The paths in `data` to which the modules of `package` refer, directly or through other modules.
    fn referred(&self, package: &str) -> Paths {
        let own = path(package);
        let first = self.modules().filter(|module| module.package == own);
        let (mut packages, mut left) = (self.by_package(), Vec::new());
        let mut referred = Paths::default();
        left.extend(first.flat_map(|module| module.references.iter().cloned()));
        while let Some(path) = left.pop() {
            for module in packages.take(&path) {
                left.extend(module.references.iter().cloned());
            }
            referred.extend([path]);
        }
        referred
    }

    /// The modules and kinds that an evaluation of `package` uses.
    #[must_use]
    pub fn reachable(&self, package: &str) -> Reachable {
        let (mut reachable, mut packages) = (Reachable::default(), self.by_package());
        let mut left = vec![path(package)];
        while let Some(path) = left.pop() {
            for module in packages.take(&path) {
                reachable.modules.insert(module.id.clone());
                reachable.kinds.extend(module.reads.kinds.keys().cloned());
                reachable.any |= !module.reads.any.is_empty();
                left.extend(module.references.iter().cloned());
            }
        }
        reachable
    }

    /// The modules whose package [overlaps](Paths::overlaps) one of `paths`.
    pub(super) fn overlapping<'b>(&'b self, paths: &Paths) -> impl Iterator<Item = &'b LoadedModule> {
        self.modules().filter(|module| paths.overlaps(&module.package))
    }

    /// The id of the only module of `package`. If `package` has several modules, returns `package NAME` as an id.
    pub(super) fn name_of(&self, package: &str) -> ModuleId {
        let mut modules = self.modules().filter(|module| module.package() == package);
        match (modules.next(), modules.next()) {
            (Some(module), None) => module.id.clone(),
            _ => ModuleId::new(&format!("package {package}")),
        }
    }

    /// The package to which `query` refers: `admission` for `data.admission.deny with …`.
    pub(super) fn package_of(&self, query: &str) -> Option<String> {
        let is_of = |package: &String| {
            let dotted = format!("data.{package}");
            let quoted = queries::query(package);
            [dotted, quoted].iter().any(|path| {
                query.strip_prefix(path.as_str()).is_some_and(|rest| {
                    !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_' || next == '"')
                })
            })
        };
        self.packages().into_iter().filter(is_of).max_by_key(String::len)
    }

    /// A bundle of only the modules `ids`.
    pub(super) fn subset(&self, ids: &HashSet<ModuleId>) -> Self {
        Self::new(self.modules.iter().filter(|module| ids.contains(&module.id)).cloned().collect())
    }

    fn by_package(&self) -> ByPackage<'_> {
        let mut modules: HashMap<&[String], Vec<&LoadedModule>> = HashMap::new();
        for module in self.modules() {
            modules.entry(&module.package).or_default().push(module);
        }
        ByPackage { paths: modules.keys().map(|package| package.to_vec()).collect(), modules }
    }

    /// Maps a `fault` in the text for the embedded engine to the original text.
    pub(super) fn original(&self, mut fault: Fault) -> Fault {
        if let Some(loaded) = self.module(&fault.module) {
            fault.place = fault.place.map(|place| loaded.rewritten.original(place));
        }
        self.original_of_edited(fault)
    }

    /// Maps a `fault` in the edited text to the original text.
    pub(super) fn original_of_edited(&self, mut fault: Fault) -> Fault {
        if let Some(loaded) = self.module(&fault.module) {
            fault.place = fault.place.map(|place| loaded.read.original(loaded.edited.original(place)));
        }
        fault
    }

    /// The texts of the modules in the form for OPA.
    #[must_use]
    pub fn for_opa(&self) -> Vec<Text> {
        let text =
            |module: &LoadedModule| Text { id: module.id.clone(), text: module.for_opa().text().clone() };
        self.modules().map(text).collect()
    }

    /// Maps a `fault` in the text for OPA to the original text.
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
        let mut engine = module::engine_for(Syntax::V1);
        for prelude in package_preludes::preludes(self.modules()) {
            let (module, package) = (self.name_of(&prelude.package), prelude.package);
            let too_many = || format!("package {package}: the names of its rules take more than 1 MiB");
            engine
                .add_policy(prelude.name, prelude.text)
                .map_err(|_| Fault::new(&module, None, too_many()))?;
        }
        module::accept_rewritten(&mut engine);
        for JoinedText { name, text, syntax, rules } in self.joined().texts(&self.modules) {
            engine.set_rego_v0(syntax == Syntax::V0);
            engine.add_policy(name, text).map_err(|error| self.original(self.fault_of_engine(&error)))?;
            // The engine may parse a text without an error and still drop rules.
            if engine.get_modules().last().is_none_or(|module| module.policy.len() != rules) {
                return Err(Fault::new(
                    &self.first_module(),
                    None,
                    "cannot be loaded together with other modules of its package",
                ));
            }
        }
        // Queries use version 1 of the syntax.
        engine.set_rego_v0(false);
        Ok(engine)
    }

    /// The fault if `data` has a value at the path of a rule. The engine would read that value instead of the rule.
    #[must_use]
    pub fn fault_of_data(&self, data: &Value) -> Option<Fault> {
        // The engine itself rejects data that is not an object.
        data.as_object().ok()?;
        self.modules().find_map(|module| {
            let mut value = data;
            for part in module.path() {
                match value {
                    Value::Object(fields) => value = fields.get(&part.as_str().into())?,
                    _ => {
                        return Some(
                            module.fault_of_package("data has a value at a parent of this path: remove it"),
                        );
                    }
                }
            }
            let Value::Object(fields) = value else {
                return Some(module.fault_of_package("data has a value at this path: remove it"));
            };
            let rule = module.rules.iter().find(|rule| fields.contains_key(&rule.as_str().into()))?;
            let text = format!(
                "data has a value at the path of the rule {rule}: remove the value, or rename the rule"
            );
            Some(module.fault_of_package(&text))
        })
    }

    /// Converts the engine's `error` to a fault with its place in the rewritten text of a module.
    pub(super) fn fault_of_engine(&self, error: &anyhow::Error) -> Fault {
        self.joined().map_fault(&self.modules, Fault::of_engine(&self.first_module(), error))
    }

    /// Replaces the places in a printed line of the engine by the places in the modules.
    pub(super) fn printed(&self, line: &str) -> String {
        self.joined().map_text(&self.modules, line)
    }

    /// The same bundle, with each module as a separate text for the engine.
    #[cfg(test)]
    pub(super) fn unjoined(&self) -> Self {
        Self { joined: Arc::new(JoinedTexts::none(&self.modules).into()), ..self.clone() }
    }

    /// The number of texts for the engine.
    #[cfg(test)]
    pub(super) fn texts_of_engine(&self) -> usize {
        self.joined().texts(&self.modules).count()
    }

    /// The module to which faults without a module are attributed: the first.
    pub(super) fn first_module(&self) -> ModuleId {
        self.modules.first().map_or_else(|| ModuleId::new("bundle"), |module| module.id.clone())
    }
}

/// The path of `package` in `data`.
fn path(package: &str) -> Vec<String> {
    ["data"].into_iter().chain(package.split('.')).map(str::to_owned).collect()
}

/// Parses `texts` for queries of these `packages`. Returns the modules and the faults. Before it parses a text, calls
/// `before` with the index of the text.
pub(super) fn parsed(
    texts: &[Text],
    packages: &QueriedPackages,
    mut before: impl FnMut(usize),
) -> (Vec<Module>, Vec<Fault>) {
    let (mut modules, mut faults) = (Vec::new(), Vec::new());
    for (number, text) in texts.iter().enumerate() {
        before(number);
        match Module::parse(text) {
            Ok(module) => modules.push(module.with_purpose(packages)),
            Err(fault) => faults.push(fault),
        }
    }
    (modules, faults)
}

/// The modules that a search has not visited yet, by package.
struct ByPackage<'m> {
    paths: Paths,
    modules: HashMap<&'m [String], Vec<&'m LoadedModule>>,
}

impl<'m> ByPackage<'m> {
    /// Removes and returns the modules whose package overlaps `path`.
    fn take(&mut self, path: &[String]) -> Vec<&'m LoadedModule> {
        let packages = self.paths.take(path);
        packages.iter().filter_map(|package| self.modules.remove(package.as_slice())).flatten().collect()
    }
}

/// Adds `module` to `loaded`, unless it defines `data.k8s.matches`. If the module cannot be loaded, adds its faults to
/// `faults`.
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

/// The modules and kinds that an evaluation of a package uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reachable {
    /// The modules of the package, and those to which they refer.
    pub modules: BTreeSet<ModuleId>,
    /// The kinds of the hub that `modules` read, as plurals.
    pub kinds: BTreeSet<String>,
    /// Whether `modules` read a kind whose name is not constant.
    pub any: bool,
}

#[cfg(test)]
mod tests;
