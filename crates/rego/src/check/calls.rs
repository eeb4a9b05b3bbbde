//! Finds calls of undefined functions, and calls with a wrong number of arguments.

use std::collections::{HashMap, HashSet};

use regorus::unstable::{Expr, Literal};

use super::Rules;
use super::variables::declared;
use crate::builtins::{Builtin, builtin};
use crate::engine::EngineKind;
use crate::fault::Fault;
use crate::module::{Module, name_of};
use crate::names::{Names, Path};
use crate::tree;

/// The function that a call refers to.
pub(super) struct Callee<'t> {
    /// The name as written.
    pub(super) name: &'t str,
    kind: Option<CalleeKind>,
}

/// The context of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallContext {
    /// The call is a statement.
    Statement,
    /// The call is a negated statement.
    Negated,
    /// The call is a part of an expression.
    Value,
}

enum CalleeKind {
    /// A function of the bundle, with the numbers of arguments of its definitions.
    BundleFunction(Vec<usize>),
    Builtin(Builtin),
}

/// Resolves the call of `function` in the module with these `names`.
pub(super) fn callee<'t>(names: &Names<'_>, rules: &Rules<'_>, function: &'t Expr) -> Callee<'t> {
    let name = function.span().text();
    let arities = names.path_of_rule(function).and_then(|path| rules.arities(&path.constants));
    let kind = match arities {
        Some(arities) => Some(CalleeKind::BundleFunction(arities.iter().copied().collect())),
        None => builtin(&tree::constants(function).join(".")).map(CalleeKind::Builtin),
    };
    Callee { name, kind }
}

impl Callee<'_> {
    /// Whether the last argument of a call with this number of arguments receives the result.
    pub(super) fn has_output(&self, arguments: usize) -> bool {
        match &self.kind {
            Some(CalleeKind::BundleFunction(arities)) => arities.iter().any(|arity| arity + 1 == arguments),
            Some(CalleeKind::Builtin(Builtin::Known { arity, .. })) => arity + 1 == arguments,
            _ => false,
        }
    }

    /// The fault of a call with this number of arguments in this context. A call that is a statement may have one more
    /// argument, for the result.
    fn fault(&self, arguments: usize, context: CallContext, evaluator: EngineKind) -> Option<String> {
        let name = self.name;
        let takes = |arity: usize| format!("{name} takes {}, found {arguments}", counted(arity));
        match &self.kind {
            None => Some(format!("unknown function {name}")),
            Some(CalleeKind::Builtin(Builtin::Forbidden(why))) => {
                Some(format!("{name} may not be called: {why}"))
            }
            Some(CalleeKind::Builtin(Builtin::Lacking)) => (evaluator == EngineKind::Embedded)
                .then(|| format!("{name} is not available in the embedded engine: use OPA (--opa-url)")),
            Some(CalleeKind::Builtin(Builtin::Variadic)) => None,
            Some(CalleeKind::Builtin(Builtin::Known { arity, output })) => {
                let may_have_output = match context {
                    CallContext::Statement => true,
                    CallContext::Negated => *output,
                    CallContext::Value => false,
                };
                let fits = arguments == *arity || (may_have_output && arguments == arity + 1);
                (!fits).then(|| takes(*arity))
            }
            Some(CalleeKind::BundleFunction(arities)) => {
                let output = usize::from(context != CallContext::Value);
                let fits = arities.iter().any(|arity| arguments == *arity || arguments == arity + output);
                (!fits).then(|| takes(arities.first().copied().unwrap_or_default()))
            }
        }
    }
}

fn counted(arguments: usize) -> String {
    if arguments == 1 { "1 argument".to_owned() } else { format!("{arguments} arguments") }
}

/// Finds references to functions without a call. OPA rejects such references; in the embedded engine they are
/// undefined.
fn uncalled(module: &Module, rules: &Rules<'_>, names: &Names<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for rule in &module.tree.policy {
        let declared = declared(rule);
        let mut replacements = HashSet::new();
        tree::each_statement(rule, &mut |statement| {
            // In `with f as g`, the name of a function is valid without a call.
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

pub(super) fn faults(module: &Module, rules: &Rules<'_>, evaluator: EngineKind) -> Vec<Fault> {
    let names = Names::of(module);
    let (mut faults, mut statements) = (uncalled(module, rules, &names), HashMap::new());
    for rule in &module.tree.policy {
        tree::each_statement(rule, &mut |statement| {
            let (expr, context) = match &statement.literal {
                Literal::Expr { expr, .. } => (expr, CallContext::Statement),
                Literal::NotExpr { expr, .. } => (expr, CallContext::Negated),
                _ => return,
            };
            statements.insert(std::ptr::from_ref::<Expr>(expr), context);
        });
    }
    tree::each(&module.tree, &mut |expr| {
        let context = statements.get(&std::ptr::from_ref(expr)).copied().unwrap_or(CallContext::Value);
        if let Expr::Call { fcn, params, .. } = expr
            && let Some(fault) = callee(&names, rules, fcn).fault(params.len(), context, evaluator)
        {
            faults.push(module.fault(tree::start(fcn), fault));
        }
    });
    faults
}
