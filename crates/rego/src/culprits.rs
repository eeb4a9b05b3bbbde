//! Finds the modules of a package that make a query exceed its time or its memory.
//!
//! If a query exceeds a limit, the engine does not report the module that it was evaluating. So each module of the
//! package is evaluated separately, with the modules that it refers to, on the same input and data.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regorus::Value;
use regorus::unstable::Expr;
use rustix::time::{ClockId, clock_gettime};

use super::bundle::Bundle;
use super::embedded::{Embedded, LIMIT};
use super::loaded_module::LoadedModule;
use super::module::{Module, ModuleId, Text};
use super::names::Names;
use super::tree;

/// The time limit of one search, which evaluates each module of a package.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of modules in the result.
const MAX_CULPRITS: usize = 8;

/// How a module exceeds the limits of an evaluation. Later variants are worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// The module takes this processor time, the most in its package.
    MostTime(Duration),
    /// The module alone exceeds the time limit.
    Time,
    /// The module alone exceeds the memory limit.
    Memory,
}

impl Excess {
    /// Whether this variant is worse than the variant of `other`. The duration in [`Self::MostTime`] does not count.
    #[must_use]
    pub fn is_worse_than(self, other: Self) -> bool {
        let rank = |excess| match excess {
            Self::MostTime(_) => 0,
            Self::Time => 1,
            Self::Memory => 2,
        };
        rank(self) > rank(other)
    }
}

/// A module that makes evaluations exceed their limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// The module.
    pub module: ModuleId,
    /// The text of the module.
    pub text: Arc<str>,
    /// How the module exceeds the limits.
    pub excess: Excess,
}

/// A query that exceeded its time or its memory.
#[derive(Clone, Debug)]
pub struct ExceededQuery {
    /// `true` if the query exceeded its time limit, `false` if it exceeded its memory limit.
    exceeded_time: bool,
    engine: Embedded,
    query: String,
    input: Value,
}

impl ExceededQuery {
    /// A query that `engine` could not evaluate within its time limit or, if `exceeded_time` is false, its memory
    /// limit.
    #[must_use]
    pub fn new(exceeded_time: bool, engine: Embedded, query: &str, input: &Value) -> Self {
        Self { exceeded_time, engine, query: query.to_owned(), input: input.clone() }
    }

    /// Finds the modules that exceed a limit alone. If there is no such module and the query exceeded its time, returns
    /// the slowest module, if that module takes more than half of the time limit. The search may take a minute.
    #[must_use]
    pub fn culprits(&self) -> Vec<Culprit> {
        let (bundle, began) = (self.engine.bundle(), Instant::now());
        let Some(package) = bundle.package_of(&self.query) else { return Vec::new() };
        let dependencies = PackageDependencies::of(bundle, &package);
        let (mut found, mut longest) = (Vec::new(), None::<(Duration, ModuleId, Arc<str>)>);
        for module in &dependencies.modules {
            if found.len() == MAX_CULPRITS || began.elapsed() > SEARCH_TIMEOUT {
                break;
            }
            let (id, text) = (module.id().clone(), module.text().clone());
            let Ok(engine) = self.engine.subset(&dependencies.of_module(&id)) else { continue };
            let began = cpu_time();
            let failed = engine.query_value(&self.query, &self.input).err();
            // The time limit is in wall-clock time. On a busy machine it ends evaluations that used little processor
            // time.
            let took = cpu_time().saturating_sub(began);
            match failed {
                Some(failure) if failure.exceeded_memory => {
                    found.push(Culprit { module: id, text, excess: Excess::Memory });
                }
                Some(failure) if failure.exceeded_time && took > LIMIT / 8 => {
                    found.push(Culprit { module: id, text, excess: Excess::Time });
                }
                _ if longest.as_ref().is_none_or(|(longest, ..)| *longest < took) => {
                    longest = Some((took, id, text));
                }
                _ => {}
            }
        }
        if let Some((took, module, text)) = longest
            && found.is_empty()
            && self.exceeded_time
            && took > LIMIT / 2
        {
            found.push(Culprit { module, text, excess: Excess::MostTime(took) });
        }
        found
    }
}

/// The processor time that this thread has used.
fn cpu_time() -> Duration {
    // The conversion fails only for a negative time.
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// The dependencies of each module of a package.
struct PackageDependencies<'b> {
    bundle: &'b Bundle,
    /// The modules of the package.
    modules: Vec<&'b LoadedModule>,
    /// The names in the package that each module uses.
    uses: HashMap<ModuleId, HashSet<String>>,
    /// The modules of the package that define each name.
    defining: HashMap<String, Vec<ModuleId>>,
}

impl<'b> PackageDependencies<'b> {
    fn of(bundle: &'b Bundle, package: &str) -> Self {
        let mut dependencies = Self {
            bundle,
            modules: bundle.modules().filter(|module| module.package() == package).collect(),
            uses: HashMap::new(),
            defining: HashMap::new(),
        };
        for module in &dependencies.modules {
            let id = module.id();
            // This module was parsed before, when the bundle was loaded.
            let text = Text { id: id.clone(), text: module.text().clone() };
            let Ok(module) = Module::parse(&text) else { continue };
            for rule in &module.tree.policy {
                if let Some(name) = tree::constants(tree::reference(rule)).into_iter().next() {
                    dependencies.defining.entry(name).or_default().push(id.clone());
                }
            }
            dependencies.uses.insert(id.clone(), uses(&module));
        }
        dependencies
    }

    /// The modules that `module` needs for an evaluation, including itself.
    fn of_module(&self, module: &ModuleId) -> HashSet<ModuleId> {
        let (mut all, mut left) = (HashSet::new(), vec![module.clone()]);
        while let Some(id) = left.pop() {
            let Some(module) = self.bundle.module(&id) else { continue };
            if !all.insert(id.clone()) {
                continue;
            }
            let used = self.uses.get(&id).into_iter().flatten();
            left.extend(used.filter_map(|name| self.defining.get(name)).flatten().cloned());
            if !module.references.is_empty() {
                left.extend(self.bundle.overlapping(&module.references).map(|module| module.id().clone()));
            }
        }
        all
    }
}

/// The names that `module` uses and does not define. They include rules of other modules of the package, and variables.
fn uses(module: &Module) -> HashSet<String> {
    let names = Names::of(module);
    let mut used = HashSet::new();
    tree::each(&module.tree, &mut |expr| {
        let reference = match expr {
            Expr::Call { fcn, .. } => fcn,
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => expr,
            _ => return,
        };
        if let Some(path) = names.path_of_rule(reference)
            && let Some(name) = path.constants.strip_prefix(module.package.as_slice()).and_then(<[_]>::first)
        {
            used.insert(name.clone());
        }
    });
    for rule in &module.tree.policy {
        // The head of a rule defines the name.
        if let Some(name) = tree::constants(tree::reference(rule)).first() {
            used.remove(name);
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An expression whose evaluation exceeds the time limit.
    const LOOP: &str =
        "count([1 | some a in numbers.range(1, 50000); some b in numbers.range(1, 50000); a == b]) > 0";

    fn culprits(modules: &[(&str, &str)], query: &str) -> Vec<String> {
        let text = |(id, text): &(&str, &str)| Text { id: ModuleId::new(id), text: (*text).into() };
        let bundle = Bundle::read(&modules.iter().map(text).collect::<Vec<_>>()).unwrap();
        let engine = Embedded::new(&bundle, json!({"labels": {"a": 1}}).into()).unwrap();
        let input: Value = json!({"name": "a"}).into();
        let failure = engine.query_value(query, &input).unwrap_err();
        assert!(failure.exceeded_time, "{failure}");
        // On a busy machine, an evaluation may use too little processor time for `culprits` to report its module.
        let exceeded = ExceededQuery::new(true, engine, query, &input);
        let found = (0..20).map(|_| exceeded.culprits()).find(|found| !found.is_empty()).unwrap_or_default();
        assert!(found.iter().all(|culprit| culprit.excess == Excess::Time), "{found:?}");
        found.into_iter().map(|culprit| culprit.module.to_string()).collect()
    }

    #[test]
    fn slow_module_is_named_instead_of_the_first_of_its_package() {
        let quick = "package admission\ndeny contains \"a\" if input.name == \"b\"";
        let slow = format!("package admission\ndeny contains \"s\" if {{ {LOOP} }}");
        let modules = [("a/any.rego", quick), ("b/slow.rego", &slow), ("c/other.rego", quick)];
        assert_eq!(culprits(&modules, "data.admission.deny"), ["b/slow.rego"]);
        assert_eq!(culprits(&modules, "data.admission.deny with data.x as 1"), ["b/slow.rego"]);
        assert_eq!(culprits(&modules, "data[\"admission\"]"), ["b/slow.rego"]);
    }

    #[test]
    fn modules_are_blamed_for_slow_modules_that_they_use() {
        let helper = format!("package admission\nis_slow if {{ data.labels.a == 1; {LOOP} }}");
        let library = format!("package lib\nis_slow(_) if {{ {LOOP} }}");
        let one = "package admission\ndeny contains \"s\" if is_slow";
        let other = "package admission\nimport data.lib\ndeny contains \"l\" if lib.is_slow(input)";
        let quick = "package admission\ndeny contains \"q\" if input.name == \"b\"";
        let modules = [("helper", helper.as_str()), ("quick", quick), ("user", one)];
        assert_eq!(culprits(&modules, "data.admission.deny"), ["user"]);
        let modules = [("lib", library.as_str()), ("quick", quick), ("user", other)];
        assert_eq!(culprits(&modules, "data.admission.deny"), ["user"]);
    }
}
