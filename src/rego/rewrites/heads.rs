//! A rule's value is evaluated in its body as well: `deny contains c.name if { some c in cs }` counts as if its body ended with
//! `policysync_given_0 := c.name`.
//!
//! If a head is undefined for one of the solutions of its body, OPA skips that solution. The embedded engine would drop the values of the
//! other solutions: one container without a name would hide all others.
//!
//! A head may look up its value, as in `names contains input.containers[_].name`. It becomes
//! `names contains policysync_given_0 if { policysync_given_0 := input.containers[_].name }`.

use std::collections::BTreeSet;

use regorus::unstable::{Expr, Rule, RuleBody, RuleHead};

use super::render::Renderer;
use super::{Changes, Defined, may_be_undefined, replaced};
use crate::rego::edit::Edit;
use crate::rego::module::Syntax;
use crate::rego::tree::{self, Part, Step};

/// The prefix of the variables for values.
const GIVEN: &str = "policysync_given";

/// Changes the values of `rule` for a solution of `body`: appends those that may be undefined to the body, and replaces a lookup by its
/// variable. Returns the lookup.
pub(super) fn rewrite<'t>(
    text: &mut Changes<'_>,
    rule: &'t Rule,
    body: &'t RuleBody,
    defined: &Defined<'t>,
) -> Option<&'t Expr> {
    let renderer = Renderer { defined };
    let lookup = lookup(rule, Some(body), defined);
    let (mut statements, mut values) = (String::new(), given(rule, body));
    values.retain(|value| may_be_undefined(value, defined));
    for (nth, value) in values.into_iter().enumerate() {
        let name = format!("{GIVEN}_{nth}");
        statements += &format!("; {name} := {}", renderer.expr(value));
        if lookup.is_some_and(|lookup| std::ptr::eq(lookup, value)) {
            text.edits.push(replaced(text.module, value, &name));
        }
    }
    text.append(&body.query, &statements);
    lookup
}

/// Gives `rule`, which has none, a body with its lookup. Returns the lookup.
pub(super) fn rewrite_without_body<'t>(
    text: &mut Changes<'_>,
    rule: &'t Rule,
    arguments: &Defined<'t>,
) -> Option<&'t Expr> {
    let value = lookup(rule, None, arguments)?;
    let Rule::Spec { head, .. } = rule else { return None };
    let (RuleHead::Compr { span, .. } | RuleHead::Set { span, .. } | RuleHead::Func { span, .. }) = head;
    let name = format!("{GIVEN}_0");
    let keyword = if text.module.syntax == Syntax::V1 { "if " } else { "" };
    let body = format!(" {keyword}{{ {name} := {} }}", Renderer { defined: arguments }.expr(value));
    text.edits.push(replaced(text.module, value, &name));
    text.edits.push(Edit::insert(span.end, body));
    Some(value)
}

/// The value of `rule` for a solution of `body` if it is a lookup, such as `volumes contains pod.spec.volumes[_]`: an index in it is a
/// variable that has no value in the body. OPA evaluates such a value in the body. The embedded engine cannot evaluate it in the head.
pub(in crate::rego) fn lookup<'t>(
    rule: &'t Rule,
    body: Option<&'t RuleBody>,
    bound: &BTreeSet<&str>,
) -> Option<&'t Expr> {
    let Rule::Spec { bodies, .. } = rule else { return None };
    let value = match body {
        Some(RuleBody { query, assign, is_else: true, .. }) if !query.stmts.is_empty() => {
            assign.as_ref().map(|assign| assign.value.as_ref())
        }
        Some(RuleBody { is_else: true, .. }) => None,
        Some(_) if bodies.iter().filter(|body| !body.is_else).count() > 1 => None,
        _ => tree::given(rule),
    }?;
    let has_ends = matches!(
        value,
        Expr::RefDot { .. }
            | Expr::RefBrack { .. }
            | Expr::Call { .. }
            | Expr::Array { .. }
            | Expr::Object { .. }
            | Expr::Set { .. }
    );
    (has_ends && has_free_index(value, bound)).then_some(value)
}

/// Whether an index in `expr` is a variable that is not `bound`.
fn has_free_index(expr: &Expr, bound: &BTreeSet<&str>) -> bool {
    let mut indexes = BTreeSet::new();
    if matches!(expr, Expr::RefDot { .. } | Expr::RefBrack { .. }) {
        for step in tree::steps(expr).1 {
            if let Step::Index(index) = step {
                tree::pattern(index, &mut indexes);
            }
        }
    }
    let is_free = |name: &&str| !bound.contains(*name) && !matches!(*name, "data" | "input");
    indexes.iter().any(is_free) || any_part(expr, |part| has_free_index(part, bound))
}

fn any_part(expr: &Expr, is: impl Fn(&Expr) -> bool) -> bool {
    tree::parts(expr).into_iter().any(|part| match part {
        Part::Expr(part) => is(part),
        Part::Comprehension(..) => false,
    })
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
                "package a\nimport rego.v1\np := \"a\" in input.list[_]\nf(x) := x[_]",
                "package a\nimport rego.v1\np := policysync_member(\"a\" , input.list[_])\nf(x) := policysync_given_0 if { policysync_given_0 := x[_] }",
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
