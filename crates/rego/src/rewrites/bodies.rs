//! Splits rules with a value and several bodies, `size(x) := y if { … } { … }`. The embedded engine evaluates the value
//! for the first body only. Each further body becomes a rule with the same head.

use regorus::unstable::{AssignOp, Expr, Rule, RuleBody, RuleHead};

use super::render::Renderer;
use super::{Changes, Defined, objects};
use crate::edit::Edit;
use crate::module::Syntax;
use crate::tree;

/// The bodies of `rule` that become rules.
pub(super) fn further(rule: &Rule) -> &[RuleBody] {
    let Rule::Spec { head: RuleHead::Compr { .. } | RuleHead::Func { .. }, bodies, .. } = rule else {
        return &[];
    };
    let [_, further @ ..] = bodies.as_slice() else { return &[] };
    // A body needs no separate rule if all bodies yield true. This is so if the rule has no value, or if the rule is
    // not a function and its value is true.
    let gives_true = tree::head_value(rule).is_none_or(|value| {
        tree::arity(rule).is_none() && matches!(value, Expr::Bool { value, .. } if *value == true.into())
    });
    // A rule with an index in its name defines an object, which has the keys from all bodies.
    let is_object = tree::indexes(tree::reference(rule)).next().is_some();
    // A rule has further bodies or alternatives with `else`, but not both.
    if gives_true || is_object || further.iter().any(|body| body.is_else) { &[] } else { further }
}

/// The edits that insert a head before each further body.
pub(super) fn edits(text: &Changes<'_>, rule: &Rule, arguments: &Defined<'_>) -> Vec<Edit> {
    let further = further(rule);
    if further.is_empty() {
        return Vec::new();
    }
    let Rule::Spec {
        head: RuleHead::Compr { refr, assign, .. } | RuleHead::Func { refr, assign, .. }, ..
    } = rule
    else {
        return Vec::new();
    };
    let renderer = Renderer::new(arguments, &text.meanings);
    let mut head = renderer.expr(refr);
    if tree::arity(rule).is_some() {
        let has_variable = |argument| objects::has_object(argument) && objects::can_compare(rule);
        let argument = |argument| {
            if has_variable(argument) { objects::value(argument) } else { renderer.expr(argument) }
        };
        let arguments: Vec<String> = tree::arguments(rule).iter().map(|expr| argument(expr)).collect();
        head += &format!("({})", arguments.join(", "));
    }
    if let Some(assign) = assign {
        let operator = if assign.op == AssignOp::Eq { "=" } else { ":=" };
        head += &format!(" {operator} {}", renderer.expr(&assign.value));
    }
    let keyword = if text.module.syntax == Syntax::V1 { " if " } else { " " };
    let insert = |body: &RuleBody| Edit::insert(body.span.start, format!("{head}{keyword}"));
    further.iter().map(insert).collect()
}

#[cfg(test)]
mod tests {
    use super::super::of_text;

    #[test]
    fn each_further_body_of_a_value_becomes_a_rule() {
        for (text, expected) in [
            (
                "package a\nallow = false { input.a } { input.b }",
                "package a\nallow = false { input.a } allow = false { input.b }",
            ),
            (
                "package a\nimport rego.v1\nsize(x, [y]) := {\n\t\"a\": y,\n} if { x > 10 } { x < 5\n} {\n\tx == 7 }",
                "package a\nimport rego.v1\nsize(x, [y]) := {\n\t\"a\": y,\n} if { x > 10 } size(x, [y]) := {\"a\": y} if { x < 5\n} size(x, [y]) := {\"a\": y} if {\n\tx == 7 }",
            ),
            (
                "package a\nf(x) = true { x > 1 } { x < 0 }",
                "package a\nf(x) = true { x > 1 } f(x) = true { x < 0 }",
            ),
            (
                "package a\nf(x) = y { y := x.a } { y = x.b }",
                "package a\nf(x) = y { y := x.a } f(x) = y { y = x.b }",
            ),
        ] {
            assert_eq!(of_text(text), expected);
        }
    }

    #[test]
    fn other_rules_keep_their_bodies() {
        for rule in [
            "p { input.a } { input.b }",
            "f(x) { x > 1 } { x < 0 }",
            "p = true { input.a } { input.b }",
            "l[k] = v { v := input[k] } { v := input.a[k] }",
            "p = 1 { input.a } else = 2 { input.b }",
        ] {
            let text = format!("package a\n{rule}\n");
            assert_eq!(of_text(&text), text);
        }
    }
}
