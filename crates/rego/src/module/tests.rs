use super::*;

fn parse(text: &str) -> Result<Module, Fault> {
    Module::parse(&Text { id: ModuleId::new("shop/policy/main.rego"), text: text.into() })
}

fn fault(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn newer_syntax_is_preferred() {
    for (text, syntax) in [
        ("package a\np contains 1 if { input.x }", Syntax::V1),
        ("package a\np := 1", Syntax::V1),
        ("package a\np[1] { input.x }", Syntax::V0),
        ("package a\nimport future.keywords.if\np if { input.x }\nq { input.y }", Syntax::V0),
    ] {
        assert_eq!(parse(text).unwrap().syntax, syntax, "{text}");
    }
}

#[test]
fn package_has_the_parts_of_its_declaration() {
    assert_eq!(
        parse("package io.k8s.federation.admission").unwrap().package(),
        "io.k8s.federation.admission"
    );
    assert_eq!(parse("package a[\"b\"].c").unwrap().package(), "a.b.c");
}

#[test]
fn declared_package_is_that_of_the_parsed_module() {
    for text in [
        "package admission",
        "package io.k8s.federation.admission\np := 1",
        "\u{feff}# first\n\n  package\ta._b1 # last\r\np := {",
        "package a.if",
    ] {
        let begin = text.strip_suffix("p := {").unwrap_or(text);
        assert_eq!(declared_package(text), Some(parse(begin).unwrap().package()), "{text}");
    }
    for text in [
        "",
        "# package a",
        "p := 1\npackage a",
        "packages a",
        "package",
        "package\na",
        "package a[\"b\"]",
        "package a[\"#\"]",
        "package a.",
        "package a .b",
        "package a; p := 1",
        "package 1a",
    ] {
        assert_eq!(declared_package(text), None, "{text}");
    }
}

#[test]
fn parse_errors_have_their_place() {
    for (text, expected) in [
        ("", "1:1: a module must begin with its package: write package NAME first"),
        ("p := 1", "1:1: a module must begin with its package: write package NAME first"),
        // The fault that occurs later in the text.
        (
            "package a\np contains x if {\n  x := )\n}",
            "3:5: expected }: a construct is not closed, or two statements are on one line",
        ),
        (
            "package a\np[x] {\n  x := )\n}",
            "2:6: expected }: a construct is not closed, or two statements are on one line",
        ),
        // The older syntax parses these as rules named `p`, `if`, `contains` and `x`.
        ("package a\np if { input := 1 }", "2:14: a variable cannot have the name input"),
        (
            "package a\np contains x if { x := 1 } else := 2 if { input.y }",
            "2:28: a rule that adds to a set cannot have else: write another rule",
        ),
        ("package a\np", "2:1: a rule must have a value or a body"),
        ("package a\np := \"open", "2:6: the string does not end"),
    ] {
        assert_eq!(fault(text), format!("shop/policy/main.rego:{expected}"), "{text}");
    }
}

#[test]
fn module_size_is_limited() {
    let lines = "package a\n".to_owned() + &"#\n".repeat(20_000);
    assert_eq!(fault(&lines), "shop/policy/main.rego: has 20,001 lines, at most 20,000 are allowed");
    let bytes = "package a\n".to_owned() + &format!("# {}\n", "x".repeat(1000)).repeat(1100);
    assert_eq!(fault(&bytes), "shop/policy/main.rego: has 1,103,310 bytes, at most 1,048,576 are allowed");
    let columns = format!("package a\np := \"{}\"", "x".repeat(5000));
    assert_eq!(fault(&columns), "shop/policy/main.rego:2:7: the line has more than 4,096 bytes: split it");
    assert!(parse(&format!("package a\np := \"{}\"", "x".repeat(4000))).is_ok());
}

#[test]
fn faults_quote_at_most_one_line() {
    let fault = Fault::new(&ModuleId::new("a"), None, "x".repeat(5000));
    assert!(fault.text.len() <= 1024 && fault.text.ends_with('…'));
}

#[test]
fn element_without_a_body_belongs_to_its_set() {
    let text = "package a\nexempt[\"a\"]\nexempt.b # no other\ndefault p = false\nkeys[\"a\"][\"b\"]\ndefault q = false\n";
    let module = parse(text).unwrap();
    assert_eq!(module.original.as_ref(), text);
    let elements = module
        .tree
        .policy
        .iter()
        .filter(|rule| matches!(rule.as_ref(), Rule::Spec { head: RuleHead::Set { .. }, .. }));
    assert_eq!(elements.count(), 2);
    // Line numbers and columns are those of the original.
    assert_eq!(module.text.as_ref(), text.replace("exempt.b", "exempt.b { true }"));
    let places = module.tree.policy.iter().map(|rule| place(rule.span()).line);
    assert_eq!(places.collect::<Vec<_>>(), [2, 3, 4, 5, 6]);
}

#[test]
fn further_bodies_of_sets_become_rules() {
    for (text, expected) in [
        (
            "package a\ndeny[x] { x := input.a } { x := input.b } # two",
            "package a\ndeny[x] { x := input.a } deny[x] { x := input.b } # two",
        ),
        (
            "package a\nimport rego.v1\ndeny contains \"a\" if { input.a } {\n  input.b\n} { input.c }\np := 1",
            "package a\nimport rego.v1\ndeny contains \"a\" if { input.a } deny contains \"a\" if {\n  input.b\n} deny contains \"a\" if { input.c }\np := 1",
        ),
        (
            "package a\np[x] { x := $\"{input.a}\" } { x := 1 }\nq[x] { x := 2 } { x := 3 }",
            "package a\np[x] { x := internal.template_string([\"\", {policysync_part | policysync_part := input.a}, \"\"]) } p[x] { x := 1 }\nq[x] { x := 2 } q[x] { x := 3 }",
        ),
    ] {
        let module = parse(text).unwrap();
        assert_eq!(module.text.as_ref(), expected, "{text}");
    }
    let module = parse("package a\ndeny[x] { x := input.a } { x := y }").unwrap();
    let Rule::Spec { bodies, .. } = module.tree.policy[1].as_ref() else { panic!() };
    assert_eq!(module.place(&bodies[0].query.stmts[0].span), Position { line: 2, column: 28 });
    let fault =
        |bodies: usize| fault(&format!("package a\n{}", "p[x] { x := 1 } { x := 2 }\n".repeat(bodies)));
    assert!(parse(&format!("package a\n{}", "p[x] { x := 1 } { x := 2 }\n".repeat(64))).is_ok());
    assert_eq!(
        fault(65),
        "shop/policy/main.rego:66:17: a rule for a set can have only one body: write the rule twice"
    );
    for text in [
        "package a\np[{\n\"a\": x}] { x := 1 } { x := 2 }",
        "package a\npolicysync_repair[x] { x := 1 } { x := 2 }",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn functions_without_a_value_and_a_body_are_true() {
    let module = parse("package a\nf(\"x\") # (y)\nf(\"z\")\np if f(1)").unwrap();
    assert_eq!(module.syntax, Syntax::V1);
    assert_eq!(module.text.as_ref(), "package a\nf(\"x\") := true # (y)\nf(\"z\") := true\np if f(1)");
    assert_eq!(parse("package a\nf(\"x\")").unwrap().syntax, Syntax::V0);
    for (text, expected) in [
        ("package a\np # f(x)\nq := 1", "2:1: a rule must have a value or a body"),
        ("package a\np\nf(x)", "2:1: a rule must have a value or a body"),
    ] {
        assert_eq!(fault(text), format!("shop/policy/main.rego:{expected}"), "{text}");
    }
}

#[test]
fn byte_order_mark_is_skipped() {
    let module = parse("\u{feff}package a\np := 1").unwrap();
    assert_eq!(module.text.as_ref(), "package a\np := 1");
    assert_eq!(fault("\u{feff}package a\np := )"), "shop/policy/main.rego:2:6: expected an expression");
}
