//! What a rule gives is looked up in its body as well: `deny contains c.name if { some c in cs }` counts as if its body ended with
//! `given := c.name`.
//!
//! Where a head is undefined for one of the ways in which its body holds, OPA leaves that way out. The embedded engine would forget what
//! the others gave: one container without a name would hide all others. This is for its eyes alone, and stands on the line of the
//! last statement, so that every line stays where it is.

use std::collections::BTreeSet;

use regorus::unstable::{Expr, Query, Rule, RuleBody, RuleHead};

use super::edit::{Edit, Edited};
use super::module::Module;
use super::tree::{self, Part, Step};

/// What takes the value. Nobody calls a variable so.
const GIVEN: &str = "policysync_given";

/// `module`, as the embedded engine reads it.
pub(super) fn guarded(module: &Module) -> Edited {
    let mut edits = Vec::new();
    for rule in &module.tree.policy {
        let Rule::Spec { bodies, .. } = rule.as_ref() else { continue };
        let declared = declared(rule);
        for body in bodies {
            let given = given(module, rule, body);
            let texts: Vec<String> = given
                .into_iter()
                .filter(|given| may_be_undefined(given.expr, &declared))
                .enumerate()
                .map(|(nth, given)| format!("; {GIVEN}_{nth} := {}", flat(module, &given)))
                .collect();
            guard(module, &body.query, &texts.concat(), &mut edits);
        }
    }
    Edited::new(&module.text, edits)
}

/// Something that a rule gives, and where its text is, in bytes.
struct Given<'t> {
    expr: &'t Expr,
    start: usize,
    end: usize,
}

/// What `rule` gives where `body` holds: its value, and the key where that is in its head.
fn given<'t>(module: &Module, rule: &'t Rule, body: &'t RuleBody) -> Vec<Given<'t>> {
    let assigned = |value: &'t Expr, start: u32, end: u32| {
        let operator = module.text[start as usize..].find('=').map_or(0, |at| at + 1);
        Given { expr: value, start: start as usize + operator, end: closed(module, end) }
    };
    if let Some(assign) = &body.assign {
        return vec![assigned(&assign.value, assign.span.start, assign.span.end)];
    }
    if body.is_else {
        return Vec::new();
    }
    let Rule::Spec { head, .. } = rule else { return Vec::new() };
    let mut all = Vec::new();
    match head {
        RuleHead::Compr { assign: Some(assign), .. } | RuleHead::Func { assign: Some(assign), .. } => {
            all.push(assigned(&assign.value, assign.span.start, assign.span.end));
        }
        RuleHead::Set { span, key: Some(key), .. } => all.extend(element(module, rule, key, span.end)),
        _ => {}
    }
    // The keys of `labels[key.name] := value`.
    let (_, steps) = tree::steps(tree::reference(rule));
    all.extend(steps.into_iter().filter_map(|step| match step {
        Step::Index(index @ (Expr::RefDot { .. } | Expr::RefBrack { .. } | Expr::Call { .. })) => {
            Some(Given {
                expr: index,
                start: tree::start(index).start as usize,
                end: closed(module, index.span().end),
            })
        }
        _ => None,
    }));
    all
}

/// The element of a set: `deny contains element`, or `deny[element]`.
fn element<'t>(module: &Module, rule: &Rule, key: &'t Expr, end: u32) -> Option<Given<'t>> {
    let name = closed(module, tree::reference(rule).span().end);
    let end = closed(module, end);
    let rest = module.text.get(name..end)?;
    let begins = rest.len() - rest.trim_start().len();
    let rest = rest.trim_start();
    let (start, end) = match rest.strip_prefix("contains") {
        Some(_) => (name + begins + "contains".len(), end),
        None => (name + begins + rest.find('[')? + 1, name + begins + rest.rfind(']')?),
    };
    Some(Given { expr: key, start, end })
}

/// The variables that `rule` declares, which have a value wherever its body holds.
fn declared(rule: &Rule) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    tree::arguments(rule).iter().for_each(|argument| tree::pattern(argument, &mut names));
    tree::each_statement(rule, &mut |statement| tree::declared(statement, &mut names));
    names
}

fn may_be_undefined(expr: &Expr, declared: &BTreeSet<&str>) -> bool {
    match expr {
        Expr::Var { span, .. } => !declared.contains(span.text()),
        Expr::Array { .. } | Expr::Set { .. } | Expr::Object { .. } => {
            tree::parts(expr).into_iter().any(|part| match part {
                Part::Expr(expr) => may_be_undefined(expr, declared),
                Part::Comprehension(..) => false,
            })
        }
        Expr::ArrayCompr { .. } | Expr::SetCompr { .. } | Expr::ObjectCompr { .. } => false,
        Expr::String { .. }
        | Expr::RawString { .. }
        | Expr::Number { .. }
        | Expr::Bool { .. }
        | Expr::Null { .. } => false,
        _ => true,
    }
}

/// Has `query` end with `text`.
fn guard(module: &Module, query: &Query, text: &str, edits: &mut Vec<Edit>) {
    let Some(last) = query.stmts.last().filter(|_| !text.is_empty()) else { return };
    let (start, end) = (opened(module, query.span.start), closed(module, last.span.end));
    let at = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let is_braced = query.stmts.first().is_some_and(|first| first.span.start > query.span.start)
        && module.text[start..].starts_with('{');
    if is_braced {
        edits.push(Edit::insert(at(end), text.to_owned()));
    } else {
        edits.push(Edit::insert(at(start), "{ ".to_owned()));
        edits.push(Edit::insert(at(end), format!("{text} }}")));
    }
}

/// The text of `given` on one line, without comments.
fn flat(module: &Module, given: &Given<'_>) -> String {
    // Between the statements of a comprehension, which may be on lines of their own.
    let mut gaps = Vec::new();
    gaps_of(module, given.expr, &mut gaps);
    gaps.sort_unstable();
    let (mut flat, mut from) = (String::new(), given.start);
    for (start, end) in gaps {
        if start < from || end > given.end {
            continue;
        }
        flat.push_str(&on_one_line(&module.text[from..start]));
        flat.push_str("; ");
        from = end;
    }
    flat.push_str(&on_one_line(&module.text[from..given.end]));
    flat.trim().to_owned()
}

fn gaps_of(module: &Module, expr: &Expr, gaps: &mut Vec<(usize, usize)>) {
    for part in tree::parts(expr) {
        match part {
            Part::Expr(expr) => gaps_of(module, expr, gaps),
            Part::Comprehension(query, terms) => {
                terms.into_iter().for_each(|term| gaps_of(module, term, gaps));
                gaps_of_query(module, query, gaps);
            }
        }
    }
}

fn gaps_of_query(module: &Module, query: &Query, gaps: &mut Vec<(usize, usize)>) {
    for pair in query.stmts.windows(2) {
        gaps.push((closed(module, pair[0].span.end), opened(module, pair[1].span.start)));
    }
    for statement in &query.stmts {
        tree::expressions(statement).into_iter().for_each(|expr| gaps_of(module, expr, gaps));
        if let Some(query) = tree::query_of(statement) {
            gaps_of_query(module, query, gaps);
        }
    }
}

/// `text` without comments, and without line breaks.
fn on_one_line(text: &str) -> String {
    let (mut line, mut chars) = (String::with_capacity(text.len()), text.chars());
    while let Some(char) = chars.next() {
        match char {
            '#' => {
                // The rest of the line is a comment.
                let _ = chars.by_ref().find(|char| *char == '\n');
                line.push(' ');
            }
            '\n' | '\r' => line.push(' '),
            '"' => {
                line.push('"');
                while let Some(char) = chars.next() {
                    line.push(char);
                    match char {
                        '\\' => line.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '`' => {
                let raw: String = chars.by_ref().take_while(|char| *char != '`').collect();
                line.push_str(&serde_json::Value::from(raw).to_string());
            }
            _ => line.push(char),
        }
    }
    line
}

/// Where what ends at `end` does: the tree has the places of strings without their quotes.
fn closed(module: &Module, end: u32) -> usize {
    let end = end as usize;
    end + usize::from(module.text[end..].starts_with(['"', '`']))
}

/// Where what begins at `start` does.
fn opened(module: &Module, start: u32) -> usize {
    let start = start as usize;
    start - usize::from(module.text[..start].ends_with(['"', '`']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rego::module::{ModuleId, Text};

    fn edited(text: &str) -> String {
        let module = Module::parse(&Text { id: ModuleId::new("a"), text: text.into() }).unwrap();
        guarded(&module).text().to_string()
    }

    #[test]
    fn what_a_head_looks_up_is_looked_up_in_the_body() {
        for (text, expected) in [
            (
                "package a\nimport rego.v1\ndeny contains c.name if {\n\tsome c in input.cs # each\n\tc.bad == \"x\" # yes\n}\n",
                "package a\nimport rego.v1\ndeny contains c.name if {\n\tsome c in input.cs # each\n\tc.bad == \"x\"; policysync_given_0 := c.name # yes\n}\n",
            ),
            (
                "package a\ndeny[{\n\t\"id\": f(x), # its \"id\n\t\"m\": `a\nb`,\n}] { x := input.a }",
                "package a\ndeny[{\n\t\"id\": f(x), # its \"id\n\t\"m\": `a\nb`,\n}] { x := input.a; policysync_given_0 := { \t\"id\": f(x),  \t\"m\": \"a\\nb\", } }",
            ),
            (
                "package a\nimport rego.v1\nallow := c.ok if some c in input.cs\nelse := d.ok if \"a\" in input.d\n",
                "package a\nimport rego.v1\nallow := c.ok if { some c in input.cs; policysync_given_0 := c.ok }\nelse := d.ok if { \"a\" in input.d; policysync_given_0 := d.ok }\n",
            ),
            (
                "package a\nimport rego.v1\nlabels[c.key] := count([x |\n\tsome x in c.l\n\tx > 1 # one\n\tx < \"9\"\n]) if some c in input.cs",
                "package a\nimport rego.v1\nlabels[c.key] := count([x |\n\tsome x in c.l\n\tx > 1 # one\n\tx < \"9\"\n]) if { some c in input.cs; policysync_given_0 := count([x | \tsome x in c.l; x > 1; x < \"9\" ]); policysync_given_1 := c.key }",
            ),
            (
                "package a\nimport rego.v1\nf(x) := x.y + 1 if {\n\tx.z == `q`\n}",
                "package a\nimport rego.v1\nf(x) := x.y + 1 if {\n\tx.z == `q`; policysync_given_0 := x.y + 1\n}",
            ),
        ] {
            assert_eq!(edited(text), expected);
            let module = Text { id: ModuleId::new("a"), text: expected.into() };
            assert!(Module::parse(&module).is_ok(), "{expected}");
        }
    }

    #[test]
    fn what_has_a_value_in_any_case_is_not() {
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
            assert_eq!(edited(&text), text);
        }
    }
}
