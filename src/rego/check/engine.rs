//! What the embedded engine reads otherwise than OPA, without a word: each would let something pass.

use regorus::unstable::{Expr, Literal, Rule};

use super::Rules;
use crate::rego::extensions::patterns::compiled;
use crate::rego::fault::Fault;
use crate::rego::module::{Module, place};
use crate::rego::names::Names;
use crate::rego::tree::{self, Step};

pub(super) fn faults(module: &Module, rules: &Rules<'_>) -> Vec<Fault> {
    let (names, mut faults) = (Names::of(module), Vec::new());
    for rule in &module.tree.policy {
        faults.extend(second_body(module, rule));
        tree::each_of_rule(rule, &mut |expr| faults.extend(pattern(module, rules, &names, expr)));
        tree::each_statement(rule, &mut |statement| {
            let Literal::SomeVars { vars, .. } = &statement.literal else { return };
            for name in vars {
                if rules.names(module, name.text()) || names.import(name.text()).is_some() {
                    let text = format!(
                        "variable {0} is called like a rule or an import: call it otherwise",
                        name.text()
                    );
                    faults.push(Fault::new(module.id(), place(name), text));
                }
            }
        });
    }
    faults
}

/// A second body of a rule that gives a value: the engine would have it give `true`.
fn second_body(module: &Module, rule: &Rule) -> Option<Fault> {
    let Rule::Spec { bodies, .. } = rule else { return None };
    let second = bodies.iter().skip(1).find(|body| !body.is_else)?;
    let gives_true = tree::given(rule)
        .is_none_or(|given| matches!(given, Expr::Bool { value, .. } if *value == true.into()));
    // An object has each of its keys.
    let is_object = tree::steps(tree::reference(rule)).1.iter().any(|step| matches!(step, Step::Index(_)));
    (!gives_true && !is_object).then(|| {
        Fault::new(
            module.id(),
            place(&second.span),
            "a rule that gives a value has one body: write the rule twice",
        )
    })
}

/// A constant regular expression that cannot be compiled. A call with it would be undefined, or fail.
fn pattern(module: &Module, rules: &Rules<'_>, names: &Names<'_>, expr: &Expr) -> Option<Fault> {
    let Expr::Call { fcn, params, .. } = expr else { return None };
    let constants = tree::constants(fcn);
    let root = constants.first()?;
    if rules.names(module, root) || names.import(root).is_some() {
        return None;
    }
    let name = constants.join(".");
    let pattern = match name.as_str() {
        "regex.match" | "re_match" | "regex.split" | "regex.find_n" | "regex.find_all_string_submatch_n" => {
            params.first()?
        }
        "regex.replace" => params.get(1)?,
        _ => return None,
    };
    let error = compiled(tree::constant(pattern)?).err()?;
    Some(module.fault(pattern.span(), format!("{name}: the pattern {error}")))
}
