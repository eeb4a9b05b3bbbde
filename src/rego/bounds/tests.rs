use serde_json::json;

use super::*;
use crate::rego::bundle::Bundle;
use crate::rego::embedded::Embedded;
use crate::rego::module::{ModuleId, Text};

fn module(text: &str) -> Module {
    Module::parse(&Text { id: ModuleId::new("m.rego"), text: text.into() }).unwrap()
}

fn edited(rules: &str) -> String {
    let text = format!("package a\nimport rego.v1\n{rules}\n");
    let edited = bounded(&module(&text));
    assert_eq!(edited.text().lines().count(), text.lines().count(), "{}", edited.text());
    let prefix = "package a\nimport rego.v1\n";
    edited.text().strip_prefix(prefix).unwrap().trim_end().replace("policysync_bounded", "B")
}

#[test]
fn expressions_whose_values_may_be_quoted_are_bounded() {
    for (text, expected) in [
        ("p := input.a + 1", "p := B(input.a) + 1"),
        ("p := (f(1) - x[\"y\"]) * 2", "p := (B(B_set(f(1)) - B_set(x[\"y\"]))) * 2"),
        ("p := {1} | q | {x | some x in q}", "p := {1} | B_set(q) | {x | some x in q}"),
        ("p := { # {\n\t(\"a\"): 1, \"b\": 2} + set()", "p := B({ # {\n\t(\"a\"): 1, \"b\": 2}) + set()"),
        (
            "p := {{\"a\": 1, \"b\": 2}: 1, \"c\": 2} + {}",
            "p := B({{\"a\": 1, \"b\": 2}: 1, \"c\": 2}) + B({})",
        ),
        ("p := [1] & q", "p := B_set([1]) & B_set(q)"),
        ("p if print(\"a\", input.b, 1)", "p if print(\"a\", B(input.b), 1)"),
        ("p := data.b[input.c]", "p := data.b[B(input.c)]"),
        ("p := data.b[c] if { some c in q }", "p := data.b[B(c)] if { some c in q }"),
        (
            "p := {k: v |\n\tsome k, v in q # : |\n\tv > 1\n}",
            "p := B_object([[k, v ]|\n\tsome k, v in q # : |\n\tv > 1\n])",
        ),
        ("p := {\"a:|\": f(x - 1)|some x in q}", "p := B_object([[\"a:|\", f(B_set(x) - 1)]|some x in q])"),
        ("p := data.b[c] if { c = q }", "p := B_value(data.b)[c] if { c = q }"),
        (
            "p if { data.b[q[_]].d[c] == [y | q[y]] }",
            "p if { data.b[B(q[_])].d[c] == [B_value(y) | q[y]; B_0 := B_value(y)] }",
        ),
        ("p := c if { d[c]; x := c }", "p := B_value(c) if { d[c]; x := B_value(c); B_0 := B_value(c) }"),
        ("p := [c, 1] if { d[c] }", "p := [c, 1] if { d[c]; B_0 := B_value(c) }"),
        (
            "p := {f(c.d): x[y] | x[y]}",
            "p := B_object([[f(c.d), x[y] ]| x[y]; B_0 := B_value(c); B_1 := B_value(x)])",
        ),
        (
            "f(x, [y, _]) := \"a\" if { some y in x } else := x.y - 1 if { x[_] }",
            "f(x, [y, _]) := B_result(\"m.rego:41\", [x, y], \"a\") if { some y in x } else := B_result(\"m.rego:72\", [x, y], B_set(x.y) - 1) if { x[_] }",
        ),
        ("default p := {k: 1 | some k in q}", "default p := {B(k): 1 | some k in q}"),
    ] {
        assert_eq!(edited(text), expected);
        module(&format!("package a\nimport rego.v1\n{expected}\n"));
    }
}

#[test]
fn other_expressions_are_not() {
    for text in [
        "p := 1 + 2",
        "p if input.a == input.b",
        "p contains x if { some x in q; x != \"+\" }",
        "p := data.b.c",
        "p := data[i] if i > 1",
        "p := [[x, input, data.b[_]] | some x in q]",
        "p := input.b[input.c]",
        "f(x) := x.a if { x.b == 1 }",
        "import data.lib\np := lib.x if { lib.y }",
        "p := [c, e] if { [c, _] = input.d; e = f(c) }",
    ] {
        assert_eq!(edited(text), text);
    }
}

#[test]
fn bounded_expressions_have_the_same_values() {
    let text = "package a
p := [input.n + 1, {1} | input_set, {1, 2} - input_set, 7 - input.n, data.b[input.k], {k: v | some k, v in data.b}]
q contains [i, x] if { x := data.b[i] }
r := data.b[i] if { i = input.k }
s := {1: x | some x in [1, 1]}
t := input.n + input.missing
input_set := {2}
";
    let text = Text { id: ModuleId::new("m.rego"), text: text.into() };
    let engine =
        Embedded::new(&Bundle::read(&[text]).unwrap(), json!({"b": {"c": 1, "d": 2}}).into()).unwrap();
    let ask = |query: &str| {
        let value = engine.ask(query, &json!({"n": 2, "k": "c"}).into()).unwrap();
        value.map(|value| value.to_string())
    };
    assert_eq!(ask("data.a.p").as_deref(), Some(r#"[3,[1,2],[1],5,1,{"c":1,"d":2}]"#));
    assert_eq!(ask("data.a.q").as_deref(), Some(r#"[["c",1],["d",2]]"#));
    assert_eq!(ask("data.a.r").as_deref(), Some("1"));
    assert_eq!(ask("data.a.s").as_deref(), Some(r#"{"1":1}"#));
    assert_eq!(ask("data.a.t"), None);
}

#[test]
fn a_module_cannot_replace_the_bounds() {
    for (text, expected) in [
        ("policysync_bounded(x) := x", "m.rego:3:1: names that begin with policysync_bounded are reserved"),
        (
            "p := policysync_bounded_set(1)",
            "m.rego:3:6: names that begin with policysync_bounded are reserved",
        ),
        ("p if { walk(1, x) with walk as {1} }", "m.rego:3:24: with: walk cannot be replaced"),
    ] {
        let text = format!("package a\nimport rego.v1\n{text}");
        let text = Text { id: ModuleId::new("m.rego"), text: text.into() };
        assert_eq!(Bundle::read(&[text]).unwrap_err()[0].to_string(), expected);
    }
}
