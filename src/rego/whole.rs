//! Packages of several modules, read whole: `data.lib`, or `lib.labels` with `import data.lib`.
//!
//! The embedded engine takes such a package for evaluated as soon as the first of its modules is. What a rule of another module then
//! names, and what stands below that rule, is undefined, without a word: a denial would be none. So the first module of each such
//! package is one of our own, which names all of its rules, and gives nothing. This is for the eyes of that engine alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use regorus::Value;

use super::loaded_module::LoadedModule;

/// The rule of our own. Nobody calls one so.
const RULE: &str = "policysync_whole";

/// The rules that each module of a package has, by the path of the package.
type Packages<'m> = BTreeMap<&'m [String], Vec<&'m BTreeSet<String>>>;

/// A module that comes before those of its package.
pub(super) struct Whole {
    pub(super) package: String,
    pub(super) name: String,
    pub(super) text: String,
}

/// The modules that come before `modules`.
pub(super) fn first<'m>(modules: impl Iterator<Item = &'m LoadedModule>) -> Vec<Whole> {
    let mut packages = Packages::new();
    for module in modules {
        packages.entry(module.path()).or_default().push(&module.rules);
    }
    packages.keys().filter_map(|package| module(&packages, package)).collect()
}

/// A module of `package` that names the rules of all that are in it and below it, where these are several. Each is on a line of its own:
/// lines have a limit.
fn module(packages: &Packages<'_>, package: &[String]) -> Option<Whole> {
    let below = packages.range(package..).take_while(|(path, _)| path.starts_with(package));
    let (mut modules, mut named) = (0, String::new());
    for (path, rules) in below {
        modules += rules.len();
        for rule in rules.iter().copied().flatten().collect::<BTreeSet<_>>() {
            // Writing to a String cannot fail.
            let _ = writeln!(named, "\t\t[true | data.{}[{}]],", place(path), Value::from(rule.as_str()));
        }
    }
    let text = || format!("package {}\n\n{RULE} if {{\n\tcount([\n{named}\t]) < 0\n}}\n", place(package));
    let package = package.join(".");
    (modules > 1).then(|| Whole { name: format!("{RULE}/{package}"), package, text: text() })
}

/// `path` as it is written after `package`, or `data.`.
fn place(path: &[String]) -> String {
    let quoted = path.iter().skip(1).map(|part| format!("[{}]", Value::from(part.as_str())));
    path.iter().take(1).cloned().chain(quoted).collect()
}

#[cfg(test)]
mod tests;
