//! Finds calls of undefined functions, and calls with a wrong number of arguments.

use std::collections::{HashMap, HashSet};

use regorus::unstable::{Expr, Literal};

use super::Rules;
use super::variables::declared;
use crate::builtins::{Builtin, builtin};
use crate::evaluated_by::EvaluatedBy;
use crate::fault::Fault;
use crate::module::{Module, name_of};
use crate::names::{Names, Path};
use crate::tree;

/// The function that a call refers to.
pub(super) struct Called<'t> {
    /// The name as written.
    pub(super) name: &'t str,
    what: Option<What>,
}

/// The position of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// A statement.
    Statement,
    /// A negated statement.
    Negated,
    /// A part of an expression.
    Value,
}

enum What {
    /// A function of the bundle, with the numbers of arguments of its definitions.
    Written(Vec<usize>),
    Builtin(Builtin),
}

/// Resolves the call of `function` in the module with these `names`.
pub(super) fn called<'t>(names: &Names<'_>, rules: &Rules<'_>, function: &'t Expr) -> Called<'t> {
    let name = function.span().text();
    let written = names.path_of_rule(function).and_then(|path| rules.arities(&path.constants));
    let what = match written {
        Some(arities) => Some(What::Written(arities.iter().copied().collect())),
        None => builtin(&tree::constants(function).join(".")).map(What::Builtin),
    };
    Called { name, what }
}

impl Called<'_> {
    /// Whether the last of this number of arguments is the output of the call.
    pub(super) fn has_output(&self, arguments: usize) -> bool {
        match &self.what {
            Some(What::Written(arities)) => arities.iter().any(|arity| arity + 1 == arguments),
            Some(What::Builtin(Builtin::Known { arity, .. })) => arity + 1 == arguments,
            _ => false,
        }
    }

    /// The fault of a call with this number of arguments at this position. A statement may have one more, for the
    /// result.
    fn fault(&self, arguments: usize, position: Position, evaluator: EvaluatedBy) -> Option<String> {
        let name = self.name;
        let takes = |arity: usize| format!("{name} takes {}, found {arguments}", counted(arity));
        match &self.what {
            None => Some(format!("unknown function {name}")),
            Some(What::Builtin(Builtin::Forbidden(why))) => Some(format!("{name} may not be called: {why}")),
            Some(What::Builtin(Builtin::Lacking)) => (evaluator == EvaluatedBy::Embedded)
                .then(|| format!("{name} is not available in the embedded engine: use OPA (--opa-url)")),
            Some(What::Builtin(Builtin::Variadic)) => None,
            Some(What::Builtin(Builtin::Known { arity, output })) => {
                let may_have_output = match position {
                    Position::Statement => true,
                    Position::Negated => *output,
                    Position::Value => false,
                };
                let fits = arguments == *arity || (may_have_output && arguments == arity + 1);
                (!fits).then(|| takes(*arity))
            }
            Some(What::Written(arities)) => {
                let output = usize::from(position != Position::Value);
                let fits = arities.iter().any(|arity| arguments == *arity || arguments == arity + output);
                (!fits).then(|| takes(arities.first().copied().unwrap_or_default()))
            }
        }
    }
}

fn counted(arguments: usize) -> String {
    if arguments == 1 { "1 argument".to_owned() } else { format!("{arguments} arguments") }
}

/// References to functions without a call. OPA rejects them; in the embedded engine they are undefined.
fn uncalled(module: &Module, rules: &Rules<'_>, names: &Names<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for rule in &module.tree.policy {
        let declared = declared(rule);
        let mut replacements = HashSet::new();
        tree::each_statement(rule, &mut |statement| {
            // `with f as g` names functions.
            replacements
                .extend(statement.with_mods.iter().map(|with| std::ptr::from_ref::<Expr>(&with.r#as)));
        });
        tree::each_of_rule(rule, &mut |expr| {
            let Some(root) = name_of(tree::steps(expr).0) else { return };
            let is_head = std::ptr::eq(expr, tree::reference(rule));
            if is_head || replacements.contains(&std::ptr::from_ref(expr)) || declared.contains(root) {
                return;
            }
            let Some(Path { constants: path, .. }) = names.path_of_rule(expr) else { return };
            // OPA evaluates a function without parameters as a rule.
            let is_function =
                |path: &[String]| rules.arities(path).is_some_and(|arities| !arities.contains(&0));
            if (1..=path.len()).any(|length| is_function(&path[..length])) {
                let text =
                    format!("{} is a function: call it with its arguments", tree::constants(expr).join("."));
                faults.push(module.fault(tree::start(expr), text));
            }
        });
    }
    faults
}

pub(super) fn faults(module: &Module, rules: &Rules<'_>, evaluator: EvaluatedBy) -> Vec<Fault> {
    let names = Names::of(module);
    let (mut faults, mut statements) = (uncalled(module, rules, &names), HashMap::new());
    for rule in &module.tree.policy {
        tree::each_statement(rule, &mut |statement| {
            let (expr, position) = match &statement.literal {
                Literal::Expr { expr, .. } => (expr, Position::Statement),
                Literal::NotExpr { expr, .. } => (expr, Position::Negated),
                _ => return,
            };
            statements.insert(std::ptr::from_ref::<Expr>(expr), position);
        });
    }
    tree::each(&module.tree, &mut |expr| {
        let position = statements.get(&std::ptr::from_ref(expr)).copied().unwrap_or(Position::Value);
        if let Expr::Call { fcn, params, .. } = expr
            && let Some(fault) = called(&names, rules, fcn).fault(params.len(), position, evaluator)
        {
            faults.push(module.fault(tree::start(fcn), fault));
        }
    });
    faults
}
