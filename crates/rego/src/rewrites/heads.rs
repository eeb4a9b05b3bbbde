//! Moves values from heads into bodies: `deny contains c.name if { some c in cs }` becomes `deny contains
//! policysync_given_0 if { some c in cs; policysync_given_0 := c.name }`.
//!
//! If a head is undefined for one of the solutions of its body, OPA skips that solution. The embedded engine behaves
//! differently:
//!
//! - It drops the values of the other solutions, too: one container without a name would hide all others.
//! - In a rule with `else`, it evaluates the next body.
//! - It cannot evaluate lookups in heads, as in `names contains input.containers[_].name`.
//! - A comprehension in the head of a rule with `else` does not see the variables of the body.

use std::collections::BTreeSet;
use std::rc::Rc;

use regorus::unstable::{Expr, Rule, RuleBody, RuleHead};

use super::quantified::Meanings;
use super::render::Renderer;
use super::{Changes, Defined, closed, may_be_undefined, replaced};
use crate::edit::Edit;
use crate::module::Syntax;
use crate::tree;

/// The prefix of the variables for values that are moved from heads.
const GIVEN: &str = "policysync_given";

/// Moves the values of `rule` that may be undefined, or that may use variables of `body` in a comprehension, into
/// `body`. Returns the values that a variable replaces in the head.
pub(super) fn rewrite<'t>(
    text: &mut Changes<'_>,
    rule: &'t Rule,
    body: &'t RuleBody,
    defined: &Defined<'t>,
) -> Vec<&'t Expr> {
    let mut values = head_values(rule, Some(body));
    let loses_variables = has_else(rule) && !body.is_else;
    values.retain(|value| {
        may_be_undefined(value, defined) || loses_variables && tree::has_comprehension(value)
    });
    let statements = assigned(&values, defined, &text.meanings);
    text.append(
        &body.query,
        &statements.iter().map(|statement| format!("; {statement}")).collect::<String>(),
    );
    if has_own_head(rule, body) { in_head(text, values) } else { Vec::new() }
}

/// Adds a body to `rule`, which has none, for its lookups. Returns the values that a variable replaces in the head.
pub(super) fn rewrite_without_body<'t>(
    text: &mut Changes<'_>,
    rule: &'t Rule,
    arguments: &Defined<'t>,
) -> Vec<&'t Expr> {
    let Rule::Spec { head, .. } = rule else { return Vec::new() };
    if lookups(rule, None, arguments).is_empty() {
        return Vec::new();
    }
    let mut values = head_values(rule, None);
    values.retain(|value| may_be_undefined(value, arguments));
    let (RuleHead::Compr { span, .. } | RuleHead::Set { span, .. } | RuleHead::Func { span, .. }) = head;
    let keyword = if text.module.syntax == Syntax::V1 { "if " } else { "" };
    let body = format!(" {keyword}{{ {} }}", assigned(&values, arguments, &text.meanings).join("; "));
    let end = closed(text.module, span.end);
    let values = in_head(text, values);
    text.edits.push(Edit::insert(end, body));
    values
}

/// The statements that assign `values` to variables.
fn assigned(values: &[&Expr], defined: &Defined<'_>, meanings: &Rc<Meanings>) -> Vec<String> {
    let renderer = Renderer::new(defined, meanings);
    let assigned = |(nth, value): (usize, &&Expr)| format!("{GIVEN}_{nth} := {}", renderer.expr(value));
    values.iter().enumerate().map(assigned).collect()
}

/// Replaces `values` in the head by their variables.
fn in_head<'t>(text: &mut Changes<'_>, values: Vec<&'t Expr>) -> Vec<&'t Expr> {
    for (nth, value) in values.iter().enumerate() {
        text.edits.push(replaced(text.module, value, &format!("{GIVEN}_{nth}")));
    }
    values
}

/// Whether the head of `rule` belongs to `body` alone, and `body` has statements.
fn has_own_head(rule: &Rule, body: &RuleBody) -> bool {
    let Rule::Spec { bodies, .. } = rule else { return false };
    let is_alone = body.is_else || bodies.iter().filter(|body| !body.is_else).count() == 1;
    is_alone && !body.query.stmts.is_empty()
}

fn has_else(rule: &Rule) -> bool {
    matches!(rule, Rule::Spec { bodies, .. } if bodies.iter().any(|body| body.is_else))
}

/// The lookups among the values in the head of `rule`, for example `pod.spec.volumes[_]` in `volumes contains
/// pod.spec.volumes[_]`. In a lookup, an index is a variable that is not bound in `body`. OPA evaluates lookups in the
/// body. The embedded engine cannot evaluate them in the head.
pub(crate) fn lookups<'t>(
    rule: &'t Rule,
    body: Option<&'t RuleBody>,
    bound: &BTreeSet<&str>,
) -> Vec<&'t Expr> {
    if body.is_some_and(|body| !has_own_head(rule, body)) {
        return Vec::new();
    }
    let mut values = head_values(rule, body);
    values.retain(|value| has_free_index(value, bound));
    values
}

/// Whether an index in `expr` is a variable that is not `bound`.
fn has_free_index(expr: &Expr, bound: &BTreeSet<&str>) -> bool {
    let mut indexes = BTreeSet::new();
    tree::indexes(expr).for_each(|index| tree::pattern(index, &mut indexes));
    // Each `_` is a distinct variable, so it is never bound.
    let is_free = |name: &&str| *name == "_" || !(bound.contains(*name) || matches!(*name, "data" | "input"));
    indexes.iter().any(is_free) || tree::any_part(expr, |part| has_free_index(part, bound))
}

/// The values in the head of `rule`: its value, and the keys in its name that are references or calls. For a `body`
/// with `else`, the value after `else`.
fn head_values<'t>(rule: &'t Rule, body: Option<&'t RuleBody>) -> Vec<&'t Expr> {
    if let Some(RuleBody { assign, is_else, .. }) = body {
        if let Some(assign) = assign {
            return vec![&assign.value];
        }
        if *is_else {
            return Vec::new();
        }
    }
    let Rule::Spec { .. } = rule else { return Vec::new() };
    // For example, the key `key.name` of `labels[key.name] := value`.
    let is_lookup =
        |index: &&Expr| matches!(index, Expr::RefDot { .. } | Expr::RefBrack { .. } | Expr::Call { .. });
    let keys = tree::indexes(tree::reference(rule)).filter(is_lookup);
    tree::head_value(rule).into_iter().chain(keys).collect()
}

#[cfg(test)]
mod tests {
    use super::super::of_text;

    #[test]
    fn values_that_may_be_undefined_are_evaluated_in_the_body() {
        for (text, expected) in [
            (
                "package a\nimport rego.v1\ndeny contains c.name if {\n\tsome c in input.cs # each\n\tc.bad == \"x\" # yes\n}\n",
                "package a\nimport rego.v1\ndeny contains policysync_given_0 if {\n\tsome c in input.cs # each\n\tc.bad == \"x\"; policysync_given_0 := c.name # yes\n}\n",
            ),
            (
                "package a\ndeny[{\n\t\"id\": f(x), # its \"id\n\t\"m\": `a\nb`,\n}] { x := input.a }",
                "package a\ndeny[\n\n\n\npolicysync_given_0] { x := input.a; policysync_given_0 := {\"id\": f(x), \"m\": \"a\\nb\"} }",
            ),
            (
                "package a\nimport rego.v1\nallow := c.ok if some c in input.cs\nelse := d.ok if \"a\" in input.d\n",
                "package a\nimport rego.v1\nallow := policysync_given_0 if { some c in input.cs; policysync_given_0 := c.ok }\nelse := policysync_given_0 if { policysync_member(\"a\" , input.d); policysync_given_0 := d.ok }\n",
            ),
            (
                "package a\nimport rego.v1\nlabels[c.key] := count([x |\n\tsome x in c.l\n\tx > 1 # one\n\tx < \"9\"\n]) if some c in input.cs",
                "package a\nimport rego.v1\nlabels[policysync_given_1] := \n\n\n\npolicysync_given_0 if { some c in input.cs; policysync_given_0 := count([x | some x in c.l; x > 1; x < \"9\"]); policysync_given_1 := c.key }",
            ),
            (
                "package a\np = {\"k\": [y | y = input.b]} { y := 3 } else = [y | y = input.b] { y := 4 }",
                "package a\np = policysync_given_0 { y := 3; policysync_given_0 := {\"k\": [y | y = input.b]} } else = [y | y = input.b] { y := 4 }",
            ),
            (
                "package a\nimport rego.v1\nf(x) := x.y + 1 if {\n\tx.z == `q`\n}",
                "package a\nimport rego.v1\nf(x) := policysync_given_0 if {\n\tx.z == `q`; policysync_given_0 := x.y + 1\n}",
            ),
        ] {
            assert_eq!(of_text(text), expected);
        }
    }

    #[test]
    fn lookups_in_heads_are_evaluated_in_the_body() {
        for (text, expected) in [
            (
                "package a\nimport rego.v1\nnames contains input.cs[_].name if input.on # yes\n",
                "package a\nimport rego.v1\nnames contains policysync_given_0 if { input.on; policysync_given_0 := input.cs[_].name } # yes\n",
            ),
            (
                "package a\nfirst := input.list[_]",
                "package a\nfirst := policysync_given_0 if { policysync_given_0 := input.list[_] }",
            ),
            (
                "package a\nnames[i] = [input.list[i], i] { input.on }",
                "package a\nnames[i] = policysync_given_0 { input.on; policysync_given_0 := [input.list[i], i] }",
            ),
            (
                "package a\nf(x) = x[_] { x.on } else = x.list[_] { x.off }",
                "package a\nf(x) = policysync_given_0 { x.on; policysync_given_0 := x[_] } else = policysync_given_0 { x.off; policysync_given_0 := x.list[_] }",
            ),
            (
                "package a\nimport rego.v1\np[input.l[_].name] := x.y if x := input.a[_]\nq := (input.n[_] + 1) * 2",
                "package a\nimport rego.v1\np[policysync_given_1] := policysync_given_0 if { x := input.a[_]; policysync_given_0 := x.y; policysync_given_1 := input.l[_].name }\nq := policysync_given_0 if { policysync_given_0 := (input.n[_] + 1) * 2 }",
            ),
            (
                "package a\nimport rego.v1\np := \"a\" in input.list[_]\nf(x) := x[_]",
                "package a\nimport rego.v1\np := policysync_given_0 if { policysync_given_0 := policysync_member(\"a\", input.list[_]) }\nf(x) := policysync_given_0 if { policysync_given_0 := x[_] }",
            ),
        ] {
            assert_eq!(of_text(text), expected);
        }
    }

    #[test]
    fn defined_values_stay_in_the_head() {
        for rule in [
            "deny contains msg if { msg := input.a }",
            "deny contains \"a\" if input.b",
            "deny contains {\"id\": \"a\", \"m\": [msg, 1, true]} if some msg in input.a",
            "p := [x | some x in input.a] if input.b",
            "p if input.b",
            "p := input.a.b",
            "default p := false",
            "f(x) := x if input.b",
            "l[key] := value if some key, value in input.a",
        ] {
            let text = format!("package a\nimport rego.v1\n{rule}\n");
            assert_eq!(of_text(&text), text);
        }
    }
}
