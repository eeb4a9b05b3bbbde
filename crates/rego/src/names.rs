//! Resolves names in a module: imports, rules of its package, and variables.

use std::collections::HashMap;

use regorus::unstable::{Expr, Import};

use super::module::Module;
use super::tree::{self, Step};

/// The imports of a module, by their local names.
pub(super) struct Names<'t> {
    imports: HashMap<&'t str, Vec<String>>,
    pub(super) package: &'t [String],
}

/// A resolved reference into `data` or `input`.
pub(super) struct Path<'t> {
    /// The constant steps at the start of the path, beginning with `data` or `input`.
    pub(super) constants: Vec<String>,
    /// The remaining steps. The first remaining step is not constant.
    pub(super) rest: Vec<Step<'t>>,
}

impl<'t> Names<'t> {
    pub(super) fn of(module: &'t Module) -> Self {
        let imports = module.tree.imports.iter();
        let named = imports.filter_map(|import| {
            let path = tree::constants(&import.refr);
            let first = path.first()?;
            (first == "data" || first == "input").then_some((alias(module, import)?, path))
        });
        Self { imports: named.collect(), package: &module.package }
    }

    /// The path of the import with this name.
    pub(super) fn import(&self, name: &str) -> Option<&[String]> {
        self.imports.get(name).map(Vec::as_slice)
    }

    /// Resolves the reference `expr` if its root is an import, `data` or `input`.
    pub(super) fn path(&self, expr: &'t Expr) -> Option<Path<'t>> {
        let (root, steps) = tree::steps(expr);
        let Expr::Var { span, .. } = root else { return None };
        let root = match span.text() {
            root @ ("data" | "input") => vec![root.to_owned()],
            name => self.import(name)?.to_vec(),
        };
        Some(Path::new(root, steps))
    }

    /// Like [`Self::path`]. Any other root is treated as a rule of the module's package.
    pub(super) fn path_of_rule(&self, expr: &'t Expr) -> Option<Path<'t>> {
        self.path(expr).or_else(|| {
            let (root, steps) = tree::steps(expr);
            let Expr::Var { span, .. } = root else { return None };
            let mut rule = self.package.to_vec();
            rule.push(span.text().to_owned());
            Some(Path::new(rule, steps))
        })
    }
}

impl<'t> Path<'t> {
    fn new(mut constants: Vec<String>, steps: Vec<Step<'t>>) -> Self {
        let mut steps = steps.into_iter().peekable();
        while let Some(Step::Key(key)) = steps.peek() {
            constants.push((*key).to_owned());
            steps.next();
        }
        Self { constants, rest: steps.collect() }
    }

    /// Replaces the rule at the start of the path by `root`. The rule belongs to `package`, so its path has one step
    /// more than `package`.
    pub(super) fn with_root(mut self, package: &[String], root: &[&str]) -> Self {
        self.constants.splice(..=package.len(), root.iter().map(|step| (*step).to_owned()));
        self
    }
}

/// The local name of `import`. If it has an alias, the name is cut out of the module's text, because the tree does not
/// contain the text of an alias.
fn alias<'t>(module: &'t Module, import: &'t Import) -> Option<&'t str> {
    match &import.r#as {
        Some(span) => Some(module.slice(span)),
        None => match import.refr.as_ref() {
            Expr::Var { span, .. } => Some(span.text()),
            Expr::RefDot { field, .. } => Some(field.0.text()),
            Expr::RefBrack { index, .. } => tree::constant(index),
            _ => None,
        },
    }
}
