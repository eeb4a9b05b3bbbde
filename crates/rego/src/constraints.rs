//! Converts [Gatekeeper's](https://open-policy-agent.github.io/gatekeeper/website/docs/constrainttemplates)
//! ConstraintTemplates and constraints to modules.
//!
//! ```text
//! ConstraintTemplate ─▶ its modules, in packages below data.gatekeeper.TEMPLATE
//! constraint ─────────▶ a module of the package admission: a deny for each kind with input.review and input.parameters
//! cases of a suite ───▶ tests
//! ```

mod matching;
mod objects;
mod suites;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use regorus::unstable::Expr;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

pub use self::objects::{Assertion, Case, Constraint, SuiteTest, Template, Violations, suite};
pub use self::suites::tests;
use super::edit::{Edit, EditedText};
use super::fault::Fault;
use super::module::{Module, ModuleId, Text};
use super::tree::{self, Step};

/// The parent of the packages of all templates.
const ROOT: &str = "gatekeeper";
/// The last part of the package of a template's own module. The packages of its libraries begin with `lib` instead.
const OWN: &str = "template";

/// A module converted from a ConstraintTemplate, a constraint or a suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The name of the module's file, without the ending.
    pub name: String,
    /// The text of the module.
    pub text: String,
}

/// The modules of `template`, moved to packages below `data.gatekeeper.TEMPLATE`.
///
/// # Errors
///
/// If a module does not parse, or refers to data of Gatekeeper.
pub fn template(template: &Template) -> Result<Vec<Converted>, Vec<Fault>> {
    let (mut modules, mut faults) = (Vec::new(), Vec::new());
    let libraries = template.libraries.iter().enumerate();
    let libraries = libraries.map(|(index, text)| (format!("{}_lib_{index}", template.name), text));
    for (name, text) in [(template.name.clone(), &template.module)].into_iter().chain(libraries) {
        let text = Text { id: ModuleId::new(&name), text: text.as_str().into() };
        match Module::parse(&text) {
            Ok(module) => {
                let found = unavailable(&module);
                let is_own = modules.is_empty();
                modules.push(Converted { name, text: moved(&module, &identifier(&template.name), is_own) });
                faults.extend(found);
            }
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(modules) } else { Err(faults) }
}

/// Finds references to data that only Gatekeeper has.
fn unavailable(module: &Module) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut check = |expr: &Expr| {
        let (root, steps) = tree::steps(expr);
        let is_data = super::module::name_of(root) == Some("data");
        let text = match steps.first() {
            Some(Step::Key("lib")) => return,
            Some(Step::Key("inventory")) => {
                "data.inventory is not converted: read data.kubernetes.PLURAL[namespace][name] instead"
            }
            _ => "only references to data.lib are converted: name rules of the same package without data",
        };
        if is_data {
            faults.push(module.fault(tree::start(expr), text));
        }
    };
    each_reference(module, &mut check);
    faults
}

/// Visits the imports of `module` and each expression, including functions and targets of `with`.
fn each_reference<'m>(module: &'m Module, visit: &mut dyn FnMut(&'m Expr)) {
    module.tree.imports.iter().for_each(|import| visit(&import.refr));
    tree::each(&module.tree, &mut |expr| {
        visit(match expr {
            Expr::Call { fcn, .. } => fcn,
            _ => expr,
        });
    });
    for rule in &module.tree.policy {
        tree::each_statement(rule, &mut |statement| {
            statement.with_mods.iter().for_each(|with| visit(&with.refr));
        });
    }
}

/// The text of `module`, moved to a package of the template `name`. References to libraries are adjusted.
fn moved(module: &Module, name: &str, is_own: bool) -> String {
    let package = &module.tree.package.refr;
    let mut edits = vec![if is_own {
        let span = package.span();
        Edit { start: tree::start(package).start, end: span.end, text: format!("{ROOT}.{name}.{OWN}") }
    } else {
        Edit::insert(tree::start(package).start, format!("{ROOT}.{name}."))
    }];
    let mut library = |expr| {
        let (root, steps) = tree::steps(expr);
        if super::module::name_of(root) == Some("data") && matches!(steps.first(), Some(Step::Key("lib"))) {
            edits.push(Edit::insert(root.span().end, format!(".{ROOT}.{name}")));
        }
    };
    each_reference(module, &mut library);
    edits.sort_by_key(|edit| edit.start);
    edits.dedup();
    let text: Arc<str> = module.text.clone();
    EditedText::new(&text, edits).text().to_string()
}

/// The module of `constraint`, whose template is `of`.
///
/// # Errors
///
/// If `spec.match` has a field that cannot be converted.
pub fn constraint(of: &Template, constraint: &Constraint) -> Result<Converted, String> {
    let kinds = matching::kinds(&constraint.matches)?;
    let mut text = format!(
        "# The constraint {} of the kind {} of Gatekeeper.\npackage admission\n\nimport rego.v1\n\nimport data.k8s.matches\n",
        constraint.name, constraint.kind
    );
    let parameters = indented(&constraint.parameters, 2);
    let template = identifier(&of.name);
    for kind in &kinds {
        let name = kind.term();
        let statements = matching::statements(&constraint.matches, kind)?;
        let statements: String = statements.iter().map(|statement| format!("\t{statement}\n")).collect();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "
deny contains {{
	\"id\": {id},
	\"resource\": {{\"kind\": {name}, \"namespace\": namespace, \"name\": name}},
	\"resolution\": {{\"message\": violation.msg}},
}} if {{
	matches[[{name}, namespace, name, object]]
{statements}	violations := data.{ROOT}.{template}.{OWN}.violation with input as {{
		\"review\": input.request,
		\"parameters\": {parameters},
	}}
	some violation in violations
}}
",
            id = quoted(&constraint.name),
        );
    }
    Ok(Converted { name: format!("{}-{}", of.name, constraint.name), text })
}

/// Adds a number to `name` if it is `used` already.
#[must_use]
pub fn unused(used: &mut BTreeSet<String>, name: &str, separator: char) -> String {
    let numbered = (2..).map(|number| format!("{name}{separator}{number}"));
    let mut names = [name.to_owned()].into_iter().chain(numbered);
    // `used` is finite, so there is an unused name.
    let unused = names.find(|name| !used.contains(name)).unwrap_or_default();
    used.insert(unused.clone());
    unused
}

/// Makes `name` valid as a part of the name of a package or a rule.
fn identifier(name: &str) -> String {
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Formats `value` as a Rego term. Each line after the first begins with `tabs` tabs.
fn indented(value: &Value, tabs: usize) -> String {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"\t"));
    // Serializing a JSON value cannot fail.
    let _ = value.serialize(&mut serializer);
    String::from_utf8_lossy(&text).replace('\n', &format!("\n{}", "\t".repeat(tabs)))
}

#[cfg(test)]
mod tests;
