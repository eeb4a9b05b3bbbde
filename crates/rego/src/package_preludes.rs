//! Ensures that packages with several modules are evaluated completely when a query refers to the package: `data.lib`,
//! or `lib.labels` with `import data.lib`.
//!
//! The embedded engine regards such a package as evaluated after its first module. Rules of the other modules, and
//! values below them, are then silently undefined, so a denial would be lost. Therefore a generated module comes first
//! in each such package. The generated module refers to all rules of the package and has no value. Only the embedded
//! engine parses it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use regorus::Value;

use super::loaded_module::LoadedModule;

/// The name of the generated rule. Policies cannot have a rule of this name.
const RULE: &str = "policysync_whole";

/// The rules that each module of a package has, by the path of the package.
type Packages<'m> = BTreeMap<&'m [String], Vec<&'m BTreeSet<String>>>;

/// A generated module that precedes the modules of its package.
pub(super) struct PackagePrelude {
    pub(super) package: String,
    pub(super) name: String,
    pub(super) text: String,
}

/// The generated modules that precede `modules`.
pub(super) fn preludes<'m>(modules: impl Iterator<Item = &'m LoadedModule>) -> Vec<PackagePrelude> {
    let mut packages = Packages::new();
    for module in modules {
        for (package, rules) in module.packages() {
            packages.entry(package).or_default().push(rules);
        }
    }
    packages.keys().filter_map(|package| module(&packages, package)).collect()
}

/// The generated module for `package` and its subpackages, if these have several modules. Each reference is on a
/// separate line, because the length of lines is limited.
fn module(packages: &Packages<'_>, package: &[String]) -> Option<PackagePrelude> {
    let below = packages.range(package..).take_while(|(path, _)| path.starts_with(package));
    let (mut modules, mut named) = (0, String::new());
    for (path, rules) in below {
        modules += rules.len();
        for rule in rules.iter().copied().flatten().collect::<BTreeSet<_>>() {
            // Writing to a String cannot fail.
            let _ = writeln!(named, "\t\t[true | data.{}[{}]],", path_text(path), Value::from(rule.as_str()));
        }
    }
    let text = || format!("package {}\n\n{RULE} if {{\n\tcount([\n{named}\t]) < 0\n}}\n", path_text(package));
    let package = package.join(".");
    (modules > 1).then(|| PackagePrelude { name: format!("{RULE}/{package}"), package, text: text() })
}

/// Formats `path` for use after `package` or `data.`.
pub(super) fn path_text(path: &[String]) -> String {
    let quoted = path.iter().skip(1).map(|part| format!("[{}]", Value::from(part.as_str())));
    path.iter().take(1).cloned().chain(quoted).collect()
}

#[cfg(test)]
mod tests;
