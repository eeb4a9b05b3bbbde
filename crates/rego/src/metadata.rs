//! Implements the functions `rego.metadata.rule` and `rego.metadata.chain`. These functions return the
//! [metadata](https://www.openpolicyagent.org/docs/policy-language#metadata) of rules and packages. Metadata is YAML in
//! comments that begin with `# METADATA`. As in OPA, each call is replaced by a constant when the module is loaded:
//!
//! ```text
//! policysync_constant({"scope": "rule", "title": "Only signed images"})
//! ```
//!
//! The constants of a module depend on this module alone. The check rejects calls that would return metadata of other
//! modules.

mod annotation;
mod comments;

use std::collections::BTreeSet;

use regorus::unstable::{Expr, Rule, RuleBody};
use serde_json::{Value, json};

use self::annotation::{Annotation, Scope};
use super::edit::{Edit, EditedText};
use super::fault::{Fault, Position};
use super::module::{Module, name_of};
use super::names::Names;
use super::tree::{self, Step};

/// The function that encloses a constant. It returns its argument.
pub(super) const CONSTANT: &str = "policysync_constant";
/// The names of the metadata functions.
const RULE: &str = "rego.metadata.rule";
const CHAIN: &str = "rego.metadata.chain";

/// The maximum length of all constants of a module, in bytes.
const MAX_CONSTANTS_BYTES: usize = 1 << 20;

/// A function that returns metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Rule,
    Chain,
}

impl Function {
    /// The metadata function of this name.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            RULE => Some(Self::Rule),
            CHAIN => Some(Self::Chain),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rule => RULE,
            Self::Chain => CHAIN,
        }
    }
}

/// A call of a metadata function.
#[derive(Clone, Copy)]
pub(super) struct Call<'m> {
    pub(super) function: Function,
    pub(super) expr: &'m Expr,
    pub(super) rule: &'m Rule,
    /// The body with the call. For a call in the head, the first body.
    body: Option<&'m RuleBody>,
    is_in_head: bool,
}

/// The calls of metadata functions in `module`.
pub(super) fn calls(module: &Module) -> Vec<Call<'_>> {
    let mut calls = Vec::new();
    for rule in &module.tree.policy {
        let bodies: &[RuleBody] = match rule.as_ref() {
            Rule::Spec { bodies, .. } => bodies,
            Rule::Default { .. } => &[],
        };
        let mut found: Vec<Call<'_>> = Vec::new();
        for body in bodies {
            tree::each_of_body(body, &mut |expr| {
                let call = |function| Call { function, expr, rule, body: Some(body), is_in_head: false };
                found.extend(called(expr).map(call));
            });
        }
        tree::each_of_rule(rule, &mut |expr| {
            if !found.iter().any(|call| std::ptr::eq(call.expr, expr)) {
                let call = |function| Call { function, expr, rule, body: bodies.first(), is_in_head: true };
                found.extend(called(expr).map(call));
            }
        });
        calls.extend(found);
    }
    calls
}

fn called(expr: &Expr) -> Option<Function> {
    let Expr::Call { fcn, .. } = expr else { return None };
    Function::of(&tree::constants(fcn).join("."))
}

impl Call<'_> {
    /// Whether several bodies share the call, each with its own metadata.
    pub(super) fn is_shared(&self) -> bool {
        let Rule::Spec { bodies, .. } = self.rule else { return false };
        self.is_in_head && bodies.iter().filter(|body| !body.is_else).count() > 1
    }

    /// Whether the call is in a further body of the rule. The metadata above the rule does not apply to such a body.
    fn is_in_further_body(&self) -> bool {
        let Rule::Spec { bodies, .. } = self.rule else { return false };
        match (bodies.first(), self.body) {
            (Some(first), Some(body)) => !std::ptr::eq(first, body),
            _ => false,
        }
    }
}

/// A part of a module to which a comment with metadata may apply.
#[derive(Clone, Copy)]
enum Target<'m> {
    Package,
    Import,
    Rule(&'m Rule),
    /// A further body of a rule, which OPA parses as a rule.
    Body,
}

/// Metadata, and the rule or package to which it applies.
struct Attached<'m> {
    annotation: Annotation,
    scope: Scope,
    /// The rule; `None` if the metadata applies to the package.
    rule: Option<&'m Rule>,
    /// The path of the rule or the package, beginning with `data`.
    path: Vec<String>,
}

/// The metadata of a module.
pub(super) struct Metadata<'m> {
    module: &'m Module,
    attached: Vec<Attached<'m>>,
}

impl<'m> Metadata<'m> {
    /// Parses the metadata of `module`.
    ///
    /// # Errors
    ///
    /// Returns a fault for each comment that OPA rejects, or that this crate parses differently.
    pub(super) fn of(module: &'m Module) -> Result<Self, Vec<Fault>> {
        let (mut attached, mut faults) = (Vec::new(), Vec::new());
        let statements = statements(module);
        for block in comments::blocks(&module.text) {
            let line = block.line;
            let read = Annotation::read(&block).and_then(|annotation| {
                let next = statements.partition_point(|(start, _)| *start <= line);
                attach(module, annotation, statements.get(next).map(|(_, target)| *target))
            });
            match read {
                Ok(read) => attached.push(read),
                Err(error) => faults.push(fault(module, line, &error)),
            }
        }
        if faults.is_empty() { Ok(Self { module, attached }) } else { Err(faults) }
    }

    /// The constant that replaces `call`.
    fn value(&self, call: &Call<'_>) -> Value {
        let own = || {
            let is_own = |one: &&Attached<'_>| {
                one.scope == Scope::Rule && one.rule.is_some_and(|rule| std::ptr::eq(rule, call.rule))
            };
            self.attached.iter().filter(is_own).filter(|_| !call.is_in_further_body())
        };
        match call.function {
            // If a rule has several comments with metadata, OPA returns the first, which is the farthest from the rule.
            Function::Rule => own().next().map_or_else(|| json!({}), |one| one.annotation.object(one.scope)),
            Function::Chain => {
                let path = path_of(self.module, call.rule);
                let mut chain: Vec<Value> = own().map(Attached::link).collect();
                chain.reverse();
                if chain.is_empty() {
                    chain.push(json!({"path": path[1..]}));
                }
                let with = |scope: Scope| self.attached.iter().filter(move |one| one.scope == scope);
                chain.extend(with(Scope::Document).filter(|one| one.path == path).map(Attached::link));
                chain.extend(with(Scope::Package).map(Attached::link));
                chain.extend(with(Scope::Subpackages).map(Attached::link));
                chain.into()
            }
        }
    }
}

impl Attached<'_> {
    fn link(&self) -> Value {
        json!({"path": self.path[1..], "annotations": self.annotation.object(self.scope)})
    }
}

/// The package, imports, rules and further bodies of `module`, sorted by their lines.
fn statements(module: &Module) -> Vec<(u32, Target<'_>)> {
    let tree = &module.tree;
    let mut statements = vec![(tree.package.span.line, Target::Package)];
    statements.extend(tree.imports.iter().map(|import| (import.span.line, Target::Import)));
    for rule in &tree.policy {
        statements.push((rule.span().line.min(tree::start(tree::reference(rule)).line), Target::Rule(rule)));
        if let Rule::Spec { bodies, .. } = rule.as_ref() {
            let further = bodies.iter().skip(1).filter(|body| !body.is_else);
            statements.extend(further.map(|body| (body.span.line, Target::Body)));
        }
    }
    statements.sort_by_key(|(line, _)| *line);
    statements
}

/// Applies `annotation` to `target`, the part of the module after its comment.
fn attach<'m>(
    module: &'m Module,
    annotation: Annotation,
    target: Option<Target<'m>>,
) -> Result<Attached<'m>, String> {
    let scope = annotation.scope.or(match target {
        Some(Target::Rule(_)) if annotation.is_entrypoint => Some(Scope::Document),
        Some(Target::Rule(_)) => Some(Scope::Rule),
        Some(Target::Package) => Some(Scope::Package),
        _ => None,
    });
    let of_rule = matches!(scope, Some(Scope::Rule | Scope::Document));
    let (rule, scope) = match (target, scope) {
        (Some(Target::Rule(rule)), Some(scope)) if of_rule => (Some(rule), scope),
        (Some(Target::Package), Some(scope)) if !of_rule => (None, scope),
        (None | Some(Target::Import), _) => {
            return Err("no rule follows: put the comment above a rule or the package".to_owned());
        }
        (Some(Target::Body), _) => {
            return Err("is inside of a rule with several bodies: put it above the rule".to_owned());
        }
        (Some(Target::Rule(_)), _) => {
            return Err("has a scope of packages above a rule: put it above the package".to_owned());
        }
        (Some(Target::Package), _) => {
            return Err("has a scope of rules above the package: put it above a rule".to_owned());
        }
    };
    if annotation.is_entrypoint && !matches!(scope, Scope::Document | Scope::Package) {
        return Err("has an entrypoint with another scope than document or package".to_owned());
    }
    let path = rule.map_or_else(|| module.package.clone(), |rule| path_of(module, rule));
    Ok(Attached { annotation, scope, rule, path })
}

/// The constant path of `rule`, beginning with `data`.
fn path_of(module: &Module, rule: &Rule) -> Vec<String> {
    module.package.iter().cloned().chain(tree::constants(tree::reference(rule))).collect()
}

/// A fault of the metadata at `line` in the text of `module`.
fn fault(module: &Module, line: u32, text: &str) -> Fault {
    let place = module.read.original(Position { line, column: 1 });
    Fault::new(module.id(), place, format!("the metadata {text}"))
}

/// The text of `module` with constants in place of calls. A module with a fault is not changed.
pub(super) fn replaced(module: &Module) -> EditedText {
    let calls = calls(module);
    let metadata = if calls.is_empty() { None } else { Metadata::of(module).ok() };
    let edits = metadata.and_then(|metadata| edits(&metadata, &calls)).unwrap_or_default();
    EditedText::new(&module.text, edits)
}

/// The edits of all calls; `None` if the constants are too long.
fn edits(metadata: &Metadata<'_>, calls: &[Call<'_>]) -> Option<Vec<Edit>> {
    let (mut edits, mut length) = (Vec::new(), 0);
    for call in calls {
        let value = metadata.value(call).to_string();
        length += value.len();
        if length > MAX_CONSTANTS_BYTES {
            return None;
        }
        let (start, end) = (tree::start(call.expr).start, call.expr.span().end);
        let lines = metadata.module.text.get(start as usize..end as usize)?.matches('\n').count();
        edits.push(Edit { start, end, text: format!("{CONSTANT}({value}{})", "\n".repeat(lines)) });
    }
    Some(edits)
}

/// The faults of calls and metadata in `modules`, which are loaded together. As in OPA, metadata is parsed only if a
/// module calls a metadata function.
pub(super) fn faults(modules: &[Module]) -> Vec<Fault> {
    let calls: Vec<Vec<Call<'_>>> = modules.iter().map(calls).collect();
    if calls.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let (mut read, mut faults) = (Vec::new(), Vec::new());
    for module in modules {
        match Metadata::of(module) {
            Ok(metadata) => read.push(metadata),
            Err(found) => faults.extend(found),
        }
    }
    if !faults.is_empty() {
        return faults;
    }
    faults.extend(repeated(&read));
    for (metadata, calls) in read.iter().zip(&calls) {
        faults.extend(replacements(metadata.module));
        for call in calls {
            if is_shadowed(modules, metadata.module, call.rule) {
                let text = format!(
                    "{} has the name of a rule, an import or a variable: rename it",
                    call.function.name()
                );
                faults.push(metadata.module.fault(tree::start(call.expr), text));
            }
            faults.extend(fault_of_call(metadata, call, &read));
        }
        if faults.is_empty() && edits(metadata, calls).is_none() {
            let text = "the metadata at all calls takes more than 1 MiB: call the function in one rule";
            faults.extend(calls.last().map(|call| metadata.module.fault(tree::start(call.expr), text)));
        }
    }
    faults
}

/// Whether a variable, an import or a rule named `rego` hides the metadata functions in `rule`.
fn is_shadowed(modules: &[Module], module: &Module, rule: &Rule) -> bool {
    const ROOT: &str = "rego";
    let mut variables = BTreeSet::new();
    tree::arguments(rule).iter().for_each(|argument| tree::pattern(argument, &mut variables));
    tree::each_statement(rule, &mut |statement| tree::declared(statement, &mut variables));
    let of_package = modules.iter().filter(|other| other.package == module.package);
    let mut rules = of_package.flat_map(|module| &module.tree.policy);
    variables.contains(ROOT)
        || Names::of(module).import(ROOT).is_some()
        || rules.any(|rule| name_of(tree::steps(tree::reference(rule)).0) == Some(ROOT))
}

/// Finds uses of `with` that replace a metadata function, as in `with rego.metadata.rule as f`, or that replace another
/// function by a metadata function.
fn replacements(module: &Module) -> Vec<Fault> {
    let mut faults = Vec::new();
    let function = |expr: &Expr| Function::of(&tree::constants(expr).join("."));
    for rule in &module.tree.policy {
        tree::each_statement(rule, &mut |statement| {
            for with in &statement.with_mods {
                if let Some(function) = function(&with.refr).or_else(|| function(&with.r#as)) {
                    let text =
                        format!("{} cannot be replaced, and cannot replace a function", function.name());
                    faults.push(module.fault(tree::start(&with.refr), text));
                }
            }
        });
    }
    faults
}

/// Finds repeated metadata: with the same scope, and for the same package or path. OPA stores the scopes `document` and
/// `subpackages` in one tree, and fails if metadata of a document follows metadata below the path of that document.
fn repeated(all: &[Metadata<'_>]) -> Vec<Fault> {
    let (mut packages, mut paths, mut faults) = (BTreeSet::new(), BTreeSet::<&[String]>::new(), Vec::new());
    for metadata in all {
        for one in &metadata.attached {
            let text = match one.scope {
                Scope::Rule => continue,
                Scope::Package if packages.insert(one.path.as_slice()) => continue,
                Scope::Document | Scope::Subpackages => {
                    let mut below = paths.range(one.path.as_slice()..);
                    let is_above = one.scope == Scope::Document
                        && below
                            .next()
                            .is_some_and(|path| path.len() > one.path.len() && path.starts_with(&one.path));
                    if paths.insert(&one.path) && !is_above {
                        continue;
                    }
                    if is_above {
                        "of a document comes after metadata of a document below it: put it first"
                    } else {
                        "is duplicated for this scope and path: remove one"
                    }
                }
                Scope::Package => "is duplicated for this package: remove one",
            };
            faults.push(fault(metadata.module, one.annotation.line, text));
        }
    }
    faults
}

/// The fault of `call`, in the module with the metadata `own`. `all` has the metadata of all modules.
fn fault_of_call(own: &Metadata<'_>, call: &Call<'_>, all: &[Metadata<'_>]) -> Option<Fault> {
    let (module, name) = (own.module, call.function.name());
    let fault = |text: String| Some(module.fault(tree::start(call.expr), text));
    if matches!(call.expr, Expr::Call { params, .. } if !params.is_empty()) {
        return fault(format!("{name} takes no arguments: write x := {name}()"));
    }
    if matches!(call.rule, Rule::Default { .. }) {
        return fault(format!("{name} may not be called in a default rule"));
    }
    if call.is_shared() {
        return fault(format!(
            "{name} has a different result for each body of this rule: write a rule for each body"
        ));
    }
    let (_, steps) = tree::steps(tree::reference(call.rule));
    let is_variable = |expr: &Expr| {
        matches!(expr, Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } | Expr::Call { .. })
    };
    if let Some(Step::Index(index)) = steps.iter().find(|step| matches!(step, Step::Index(_)))
        && !is_variable(index)
    {
        return fault(format!(
            "{name} in a rule with a constant key that is not a string: assign it in another rule"
        ));
    }
    if call.function == Function::Rule {
        return None;
    }
    let path = path_of(module, call.rule);
    let others = all.iter().filter(|other| !std::ptr::eq(other.module, module));
    let mut foreign = others.flat_map(|other| other.attached.iter().map(move |one| (other.module, one)));
    let (other, _) = foreign.find(|(_, one)| match one.scope {
        Scope::Rule => false,
        Scope::Package => one.path == module.package,
        Scope::Document | Scope::Subpackages => one.path == path || module.package.starts_with(&one.path),
    })?;
    fault(format!(
        "{name} has metadata of another module, {}: write the metadata of the package in one module, and call {name} there",
        other.id().as_str()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loaded_module::LoadedModule;
    use crate::module::{ModuleId, Text};

    fn module(text: &str) -> Module {
        Module::parse(&Text { id: ModuleId::new("a"), text: text.into() }).unwrap()
    }

    #[test]
    fn calls_become_constants_and_places_stay() {
        let text = "package a\nimport rego.v1\n# METADATA\n# title: p\np if {\n\t[rego.metadata.rule(\n), not_there] == rego.metadata.chain()[input.x]\n}\n";
        let module = module(text);
        let expected = "package a\nimport rego.v1\n# METADATA\n# title: p\np if {\n\t[policysync_constant({\"scope\":\"rule\",\"title\":\"p\"}\n), not_there] == policysync_constant([{\"annotations\":{\"scope\":\"rule\",\"title\":\"p\"},\"path\":[\"a\",\"p\"]}])[input.x]\n}\n";
        assert_eq!(replaced(&module).text().as_ref(), expected);
        let (loaded, _) = LoadedModule::of(&module).unwrap();
        let rewritten = loaded.rewritten.text();
        for name in ["not_there", "input.x"] {
            let place = |text: &str| super::super::edit::place_of(text, text.rfind(name).unwrap());
            assert_eq!(loaded.rewritten.original(place(rewritten)), place(text), "{rewritten}");
        }
    }

    #[test]
    fn constants_have_a_limit() {
        let text = |calls: usize| {
            let title = "t".repeat(4_000);
            let calls = "x contains rego.metadata.chain()\n".repeat(calls);
            format!("# METADATA\n# title: {title}\npackage a\nimport rego.v1\n{calls}")
        };
        let faults = |calls| super::faults(&[module(&text(calls))]);
        assert_eq!(faults(200), []);
        assert_eq!(faults(300).len(), 1);
        assert!(faults(300)[0].text.contains("takes more than 1 MiB"));
    }
}
