//! What the embedded engine reads otherwise than OPA, without a word: each would let something pass.

use regorus::unstable::{Expr, Literal, Rule};

use super::Rules;
use crate::rego::fault::Fault;
use crate::rego::module::{Module, place};
use crate::rego::names::Names;
use crate::rego::tree::{self, Step};

pub(super) fn faults(module: &Module, rules: &Rules<'_>) -> Vec<Fault> {
    let (names, mut faults) = (Names::of(module), Vec::new());
    for rule in &module.tree.policy {
        faults.extend(second_body(module, rule));
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
