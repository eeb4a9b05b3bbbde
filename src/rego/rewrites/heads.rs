//! A rule's value is evaluated in its body as well: `deny contains c.name if { some c in cs }` counts as if its body ended with
//! `policysync_given_0 := c.name`.
//!
//! If a head is undefined for one of the solutions of its body, OPA skips that solution. The embedded engine would drop the values of the
//! other solutions: one container without a name would hide all others.

use regorus::unstable::{Expr, Rule, RuleBody, RuleHead};

use super::render::Renderer;
use super::{Changes, Defined, may_be_undefined};
use crate::rego::tree::{self, Step};

/// The prefix of the variables for values.
const GIVEN: &str = "policysync_given";

/// Appends the values of `rule` to its `body` that may be undefined.
pub(super) fn rewrite(text: &mut Changes<'_>, rule: &Rule, body: &RuleBody, defined: &Defined<'_>) {
    let renderer = Renderer { defined };
    let values = given(rule, body).into_iter().filter(|value| may_be_undefined(value, defined));
    let statements: String = values
        .enumerate()
        .map(|(nth, value)| format!("; {GIVEN}_{nth} := {}", renderer.expr(value)))
        .collect();
    text.append(&body.query, &statements);
}

/// The values of `rule` for a solution of `body`: its value, and the keys in its head.
fn given<'t>(rule: &'t Rule, body: &'t RuleBody) -> Vec<&'t Expr> {
    if let Some(assign) = &body.assign {
        return vec![&assign.value];
    }
    let Rule::Spec { head, .. } = rule else { return Vec::new() };
    if body.is_else {
        return Vec::new();
    }
    let value = match head {
        RuleHead::Compr { assign, .. } | RuleHead::Func { assign, .. } => {
            assign.as_ref().map(|assign| assign.value.as_ref())
        }
        RuleHead::Set { key, .. } => key.as_deref(),
    };
    // The keys of `labels[key.name] := value`.
    let (_, steps) = tree::steps(tree::reference(rule));
    let keys = steps.into_iter().filter_map(|step| match step {
        Step::Index(index @ (Expr::RefDot { .. } | Expr::RefBrack { .. } | Expr::Call { .. })) => Some(index),
        _ => None,
    });
    value.into_iter().chain(keys).collect()
}

#[cfg(test)]
mod tests {
    use super::super::of_text;

    #[test]
    fn values_that_may_be_undefined_are_evaluated_in_the_body() {
        for (text, expected) in [
            (
                "package a\nimport rego.v1\ndeny contains c.name if {\n\tsome c in input.cs # each\n\tc.bad == \"x\" # yes\n}\n",
                "package a\nimport rego.v1\ndeny contains c.name if {\n\tsome c in input.cs # each\n\tc.bad == \"x\"; policysync_given_0 := c.name # yes\n}\n",
            ),
            (
                "package a\ndeny[{\n\t\"id\": f(x), # its \"id\n\t\"m\": `a\nb`,\n}] { x := input.a }",
                "package a\ndeny[{\n\t\"id\": f(x), # its \"id\n\t\"m\": `a\nb`,\n}] { x := input.a; policysync_given_0 := {\"id\": f(x), \"m\": \"a\\nb\"} }",
            ),
            (
                "package a\nimport rego.v1\nallow := c.ok if some c in input.cs\nelse := d.ok if \"a\" in input.d\n",
                "package a\nimport rego.v1\nallow := c.ok if { some c in input.cs; policysync_given_0 := c.ok }\nelse := d.ok if { policysync_member(\"a\" , input.d); policysync_given_0 := d.ok }\n",
            ),
            (
                "package a\nimport rego.v1\nlabels[c.key] := count([x |\n\tsome x in c.l\n\tx > 1 # one\n\tx < \"9\"\n]) if some c in input.cs",
                "package a\nimport rego.v1\nlabels[c.key] := count([x |\n\tsome x in c.l\n\tx > 1 # one\n\tx < \"9\"\n]) if { some c in input.cs; policysync_given_0 := count([x | some x in c.l; x > 1; x < \"9\"]); policysync_given_1 := c.key }",
            ),
            (
                "package a\nimport rego.v1\nf(x) := x.y + 1 if {\n\tx.z == `q`\n}",
                "package a\nimport rego.v1\nf(x) := x.y + 1 if {\n\tx.z == `q`; policysync_given_0 := x.y + 1\n}",
            ),
        ] {
            assert_eq!(of_text(text), expected);
        }
    }

    #[test]
    fn values_that_are_defined_are_not() {
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
