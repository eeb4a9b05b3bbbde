use super::*;
use crate::module::{ModuleId, Text};

/// The faults of modules with these texts, named `1.rego` and so on.
fn faults(texts: &[&str]) -> Vec<String> {
    let text = |(number, text): (usize, &&str)| Text {
        id: ModuleId::new(&format!("{}.rego", number + 1)),
        text: (*text).into(),
    };
    let texts = texts.iter().enumerate().map(text);
    let modules: Vec<Module> = texts.map(|text| Module::parse(&text).unwrap()).collect();
    let mut faults: Vec<Fault> = check(&modules, EngineKind::Embedded);
    faults.sort();
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn calls_must_be_of_known_functions_with_the_right_number_of_arguments() {
    for (body, expected) in [
        ("input.never; foo.bar(1)", "1.rego:3:24: unknown function foo.bar"),
        ("count(1, 2, 3)", "1.rego:3:11: count takes 1 argument, found 3"),
        ("f(1, 2, 3)", "1.rego:3:11: f takes 1 argument, found 3"),
        ("data.a.f(1, 2, 3)", "1.rego:3:11: data.a.f takes 1 argument, found 3"),
        ("data.b.f(1)", "1.rego:3:11: unknown function data.b.f"),
        ("y := numbers.range(1, 2, x)", "1.rego:3:16: numbers.range takes 2 arguments, found 3"),
        ("x := [y | y := nothing(1)]", "1.rego:3:26: unknown function nothing"),
        (
            "http.send({})",
            "1.rego:3:11: http.send may not be called: a Rego policy cannot access the network",
        ),
        (
            "rego.parse_module(`a`, input.text)",
            "1.rego:3:11: rego.parse_module is not available in the embedded engine: use OPA (--opa-url)",
        ),
        ("count(input.pods)", ""),
        ("count(input.pods, n); n > 1", ""),
        ("f(1, y); y > 0", ""),
        ("print(1, 2, 3)", ""),
        ("re_match(`a`, input.name)", ""),
        ("walk(input, [path, value])", ""),
    ] {
        let found = faults(&[&format!("package a\nf(x) := x\ndeny if {{ {body} }}")]);
        let calls: Vec<&String> = found.iter().filter(|fault| !fault.contains("unsafe")).collect();
        assert_eq!(calls, if expected.is_empty() { vec![] } else { vec![expected] }, "{body}");
    }
}

#[test]
fn functions_of_other_modules_are_found_through_imports() {
    let library = "package lib\nf(x) := x\n";
    for call in [
        "import data.lib\ny := lib.f(1)",
        "import data.lib as l\ny := l.f(1)",
        "import data.lib.f\ny := f(1)",
        "y := data.lib.f(1)",
    ] {
        assert_eq!(faults(&[&format!("package a\n{call}"), library]), [""; 0], "{call}");
        assert_eq!(faults(&[&format!("package a\n{call}")]).len(), 1, "{call}");
    }
}

#[test]
fn recursive_rules_are_rejected() {
    let itself = |rules: &[&str], expected: &str| {
        let texts: Vec<String> =
            rules.iter().map(|rules| format!("package a\nimport rego.v1\n{rules}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let expected = if expected.is_empty() { vec![] } else { vec![expected.to_owned()] };
        assert_eq!(faults(&texts), expected, "{rules:?}");
    };
    itself(&["f(x) := f(x)"], "1.rego:3:1: a.f is recursive");
    itself(&["f(x) := y if { y := [z | z := f(x)] }"], "1.rego:3:1: a.f is recursive");
    itself(&["f(x) := g(x)", "g(x) := data.a.f(x)"], "1.rego:3:1: a.f is recursive, through a.g");
    itself(&["p if q\nq if not p"], "1.rego:3:1: a.p is recursive, through a.q");
    itself(&["p if data.a"], "1.rego:3:1: a.p is recursive");
    itself(&["p := {\"x\": 1} if data.a.p.x"], "1.rego:3:1: a.p is recursive");
    itself(&["p contains x if { some x in data.a[input.rule] }"], "1.rego:3:1: a.p is recursive");
    itself(&["p[x] := y if { x := 1; y := p[2] }"], "1.rego:3:1: a.p is recursive");
    // Local variables with the names of rules.
    itself(&["p := x if { p := 1; x := p }"], "");
    itself(&["f(p) := p\np := f(1)"], "");
    itself(&["p contains x if { some p in input.all; x := p }"], "");
    itself(&["p if { every p in input.all { p > 1 } }"], "");
    itself(&["p if q\nq if r\nr if input.x"], "");
    itself(&["p if data.b", "q if data.a.p"], "");
}

#[test]
fn unbound_variables_are_rejected_even_if_negation_uses_them() {
    for (rule, expected) in [
        ("deny contains x if { input.z }", "3:15: variable x is unsafe: no statement gives it a value"),
        (
            "deny contains 1 if { not input.x[y] }",
            "3:34: variable y is unsafe: no statement outside of not gives it a value",
        ),
        (
            "deny contains 1 if { not y = 1 }",
            "3:26: variable y is unsafe: no statement outside of not gives it a value",
        ),
        ("deny contains 1 if { y > 1 }", "3:22: variable y is unsafe: no statement gives it a value"),
        ("deny contains 1 if { count(y) > 1 }", "3:28: variable y is unsafe: no statement gives it a value"),
        ("deny contains 1 if { z := y.name }", "3:27: variable y is unsafe: no statement gives it a value"),
        (
            "deny contains 1 if { x := [y | input.z] }",
            "3:28: variable y is unsafe: no statement gives it a value",
        ),
        (
            "deny contains 1 if { some y; not input[y] }",
            "3:40: variable y is unsafe: no statement outside of not gives it a value",
        ),
        (
            "deny contains 1 if { every x in y { x > 1 } }",
            "3:33: variable y is unsafe: no statement gives it a value",
        ),
        ("f(x) := y", "3:9: variable y is unsafe: no statement gives it a value"),
        ("p[x] := 1 if { input.z }", "3:3: variable x is unsafe: no statement gives it a value"),
        (
            "p := 1 if { input.z } else := y if { input.y }",
            "3:31: variable y is unsafe: no statement gives it a value",
        ),
        ("deny contains x if { x := input.z }", ""),
        ("deny contains x if { x = input.z }", ""),
        ("deny contains x if { {\"a\": [x, _]} = input.z }", ""),
        ("deny contains x if { input.z[x] }", ""),
        ("deny contains x if { input.z[[x, 1]] }", ""),
        ("deny contains x if { count(input.z[x]) > 0 }", ""),
        ("deny contains x if { some x in input.z }", ""),
        ("deny contains x if { some x, y in input.z; y > 1 }", ""),
        ("deny contains x if { input.z[x]; not input.y[x] }", ""),
        (
            "deny contains 1 if { not input.x[_] }",
            "3:34: variable _ is unsafe: no statement outside of not gives it a value",
        ),
        ("deny contains x if { walk(input, [x, _]) }", ""),
        ("deny contains 1 if { every k, v in input.z { k != v } }", ""),
        ("deny contains x if { x := {y: z | some y, z in input.z} }", ""),
        ("f(x, [y, [z]]) := x + y + z", ""),
        ("deny contains x if { other; x := other }\nother := 1", ""),
        ("deny contains x if { x := imported.y }", ""),
        ("p[x] := y if { some x, y in input.z }", ""),
        ("p.a[x] := y if { some x, y in input.z }", ""),
        ("deny contains x if { x := input.z with input.y as 1 }", ""),
        ("deny contains y if { f(1, y) }\nf(x) := x", ""),
        ("deny contains x if { some x in input.z; every y in input.a { y > x } }", ""),
        ("default p := false", ""),
    ] {
        let text = format!("package a\nimport data.lib as imported\n{rule}");
        let expected = if expected.is_empty() { vec![] } else { vec![format!("1.rego:{expected}")] };
        assert_eq!(faults(&[&text]), expected, "{rule}");
    }
}

#[test]
fn function_has_one_arity_and_is_not_a_rule() {
    for (rules, expected) in [
        ("p(x) := x\np := 2", "3:1: p is also defined as a function"),
        ("p := 2\np(x) := x", "3:1: p is also defined as a rule that is not a function"),
        ("p(x) := x\np(x, y) := y", "3:1: p is also defined as a function with another number of arguments"),
        ("p(1) := 2\np(x) := x if x > 1", ""),
        ("default p(_) := 1\np(x) := x if x > 1", ""),
    ] {
        let expected = if expected.is_empty() { vec![] } else { vec![format!("1.rego:{expected}")] };
        assert_eq!(faults(&[&format!("package a\n{rules}")]), expected, "{rules}");
    }
}

#[test]
fn names_in_rules_whose_names_begin_with_keywords_are_unambiguous() {
    for (rules, expected) in [
        ("if.x := y if { y := q }\nq := 1", ""),
        (
            "if.x := r",
            "3:9: the name of this rule begins with a keyword: write data.a.r for the rule r of another module",
        ),
        ("if.x := data.a.r", ""),
        (
            "if.x := 1\nif.y := x if { x := 1 }",
            "4:1: the package a.if has a rule x: give the variable x of this rule another name",
        ),
        (
            "if.count(x) := x\nif.y := count([1])",
            "4:9: the package a.if has a rule count: give it another name",
        ),
        ("p if not[false]", "3:6: variable not is unsafe: write a blank after not to negate an array"),
        ("if.x := if_y\nif_y if if.x", "3:1: a.if.x is recursive, through a.if_y"),
        ("if.f(x) := x\np := y if { if.f(1, 2, 3); y := 1 }", "4:13: data.a.if.f takes 1 argument, found 3"),
    ] {
        let expected = if expected.is_empty() { vec![] } else { vec![format!("1.rego:{expected}")] };
        let texts = [&format!("package a\nimport rego.v1\n{rules}"), "package a\nr := 1"];
        assert_eq!(faults(&texts), expected, "{rules}");
    }
}

#[test]
fn constructs_that_the_engine_evaluates_otherwise_are_rejected() {
    for (rules, expected) in [
        (
            "div(a, b) := 1\np := 7 / 2",
            "4:8: / calls the rule or import div of this package in OPA: rename the rule or import",
        ),
        (
            "walk(x) := x\np if { y := walk(1); y }",
            "4:13: walk calls the rule or import walk of this package in OPA: rename the rule or import",
        ),
        (
            "internal := 1\np if 1 in [1]",
            "4:8: in calls the rule or import internal of this package in OPA: rename the rule or import",
        ),
        ("div(a, b) := 1\np := div(7, 2) * 2", ""),
        (
            "p if { x := 1; y := -x; y < 0 }",
            "3:21: a minus before an expression that is not a number: write 0 - x for -x",
        ),
        (
            "p if { x := 1; not input.l.a[[[x | true]]] }",
            "3:30: a comprehension as an index: assign it to a variable first",
        ),
        ("p if { input.a; true with input as data.b }", "3:17: with has no effect on true: remove with"),
        ("p := -1 - -2", ""),
        ("policysync_a := 1", "3:1: names that begin with policysync_ are reserved: rename policysync_a"),
        (
            "p if { every policysync_x in [1] { input.y } }",
            "3:14: names that begin with policysync_ are reserved: rename policysync_x",
        ),
        ("p if policysync_walk(1)", "3:6: unknown function policysync_walk"),
        (
            "p if regex.match(`a(`, input.x)",
            "3:19: regex.match: the pattern is not a regular expression of Go: a group is not closed",
        ),
        (
            "p if regex.match(`^\\pL{1,253}$`, input.x)",
            "3:19: regex.match: the pattern is too large: compiled, it has more than 1048576 bytes",
        ),
        (
            "p := regex.replace(\"a\", `[`, \"\")",
            "3:26: regex.replace: the pattern is not a regular expression of Go: a class is not closed",
        ),
        ("p if regex.match(`^.{1,253}$`, input.x)", ""),
        ("re_match(a, b) := a == b\np if re_match(`(`, input.x)", ""),
        (
            "p contains walk(input)[1]",
            "3:12: walk may only be in a statement of a body that is not negated: assign its value to a variable there",
        ),
    ] {
        let expected = if expected.is_empty() { vec![] } else { vec![format!("1.rego:{expected}")] };
        assert_eq!(faults(&[&format!("package a\nimport rego.v1\n{rules}")]), expected, "{rules}");
    }
}
