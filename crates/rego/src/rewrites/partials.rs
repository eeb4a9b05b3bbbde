//! Defines the object of rules with a variable in their path, such as `p[k] contains v` and `p[k].b := v`. If no rule
//! has a solution, `p` is undefined in the embedded engine and `{}` in OPA. An added rule `p[k] := v`, which never has
//! a solution, makes `p` at least `{}`.

use std::collections::BTreeSet;
use std::rc::Rc;

use regorus::unstable::{Expr, Ref, Rule, RuleHead};

use super::quantified::Meanings;
use super::render::Renderer;
use super::{Defined, closed};
use crate::edit::Edit;
use crate::module::{Module, Syntax};
use crate::tree;

/// The variable of the added rules.
const NONE: &str = "policysync_none";

/// The rules of `policy` after which another rule is added, each with its path before the first variable. If several
/// rules have the same path, only the first is returned.
pub(super) fn followed(policy: &[Ref<Rule>]) -> Vec<(&Rule, String)> {
    let (defined, mut paths, mut followed) = (Defined::new(), BTreeSet::new(), Vec::new());
    for rule in policy {
        let Some(object) = object(rule) else { continue };
        let path = Renderer::new(&defined, &Rc::new(Meanings::plain())).expr(object);
        if paths.insert(path.clone()) {
            followed.push((rule.as_ref(), path));
        }
    }
    followed
}

/// The edits that add the rules `p[k] := v`.
pub(super) fn edits(module: &Module) -> Vec<Edit> {
    let (assign, keyword) = if module.syntax == Syntax::V1 { (":=", "if ") } else { ("=", "") };
    let followed = followed(&module.tree.policy).into_iter();
    followed
        .map(|(rule, path)| {
            let text = format!(" {path}[{NONE}] {assign} 1 {keyword}{{ {NONE} := 1; false }}");
            Edit::insert(closed(module, rule.span().end), text)
        })
        .collect()
}

/// The path before the first variable in the path of `rule`. `None` if the engine itself sets the object at this path
/// to `{}`.
fn object(rule: &Rule) -> Option<&Expr> {
    let Rule::Spec { head, .. } = rule else { return None };
    let is_set = match head {
        RuleHead::Set { .. } => true,
        RuleHead::Compr { .. } => false,
        RuleHead::Func { .. } => return None,
    };
    let head = tree::reference(rule);
    let (mut expr, mut found) = (head, None);
    loop {
        match expr {
            Expr::RefBrack { refr, index, .. } => {
                if !is_constant(index) {
                    found = Some((expr, refr.as_ref()));
                }
                expr = refr;
            }
            Expr::RefDot { refr, .. } => expr = refr,
            _ => break,
        }
    }
    let (index, object) = found?;
    (is_set || !std::ptr::eq(index, head)).then_some(object)
}

fn is_constant(index: &Expr) -> bool {
    matches!(
        index,
        Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::super::of_text;

    #[test]
    fn a_rule_without_a_solution_makes_an_object_empty() {
        for (text, expected) in [
            (
                "package a\nimport rego.v1\np[k] contains v if some k, v in input.o # all\np[k] contains 1 if k := 2\n",
                "package a\nimport rego.v1\np[k] contains v if some k, v in input.o p[policysync_none] := 1 if { policysync_none := 1; false } # all\np[k] contains 1 if k := 2\n",
            ),
            (
                "package a\nimport rego.v1\np.a[1][k].b[j] := k.x if { some k, j in input.o }\n",
                "package a\nimport rego.v1\np.a[1][k].b[j] := policysync_given_0 if { some k, j in input.o; policysync_given_0 := k.x } p.a[1][policysync_none] := 1 if { policysync_none := 1; false }\n",
            ),
            (
                "package a\np[k][j] { k := \"a\"; j := 1 }\n",
                "package a\np[k][j] { k := \"a\"; j := 1 } p[policysync_none] = 1 { policysync_none := 1; false }\n",
            ),
        ] {
            assert_eq!(of_text(text), expected);
        }
    }

    #[test]
    fn other_rules_get_no_further_rule() {
        for text in [
            "package a\np[k] { k := 1 }\nq[k] = 1 { k := 1 }\nr.a[k] = 1 { k := 1 }\n",
            "package a\nimport rego.v1\np contains 1\nq.a contains 1\nr[1].b := 1\nf.g(x) := x\ndefault s := 1\n",
        ] {
            assert_eq!(of_text(text), text);
        }
    }
}
