use super::*;
use crate::bundle_check;
use crate::engine::EngineKind;
use crate::fault::Faults;

fn texts(texts: &[&str]) -> Vec<Text> {
    let text = |(number, text): (usize, &&str)| Text {
        id: ModuleId::new(&format!("{}.rego", number + 1)),
        text: (*text).into(),
    };
    texts.iter().enumerate().map(text).collect()
}

fn checked(written: &[&str]) -> Result<Bundle, Faults> {
    let (modules, unread) = parsed(&texts(written), &Default::default(), |_| ());
    let (bundle, _) = bundle_check::check_bundle(modules, unread, EngineKind::Embedded, &Default::default())?;
    Ok(bundle)
}

fn faults(written: &[&str]) -> Vec<String> {
    let faults = checked(written).err().unwrap_or_default();
    faults.listed.iter().map(ToString::to_string).collect()
}

const NEWER: &str =
    "package admission\nimport data.lib\ndeny contains \"no\" if { lib.is_bad(input.request) }";
const OLDER: &str = "package lib\nis_bad(request) { request.bad }";

#[test]
fn bundle_may_mix_both_syntaxes() {
    assert_eq!(faults(&[NEWER, OLDER]), [""; 0]);
    let bundle = checked(&[NEWER, OLDER]).unwrap();
    assert_eq!(bundle.packages().into_iter().collect::<Vec<_>>(), ["admission", "lib"]);
}

#[test]
fn published_matches_module_is_skipped() {
    let matches = "package k8s\nmatches[[k, ns, n, o]] { o := data.kubernetes[k][ns][n] }";
    let deny =
        "package admission\nimport data.k8s.matches\ndeny[\"no\"] { matches[[\"pods\", ns, n, o]]; o.bad }";
    assert_eq!(faults(&[matches, deny]), [""; 0]);
    let bundle = checked(&[matches, deny]).unwrap();
    assert_eq!(bundle.packages().into_iter().collect::<Vec<_>>(), ["admission"]);
    assert_eq!(bundle.reads().into_iter().collect::<Vec<_>>(), ["pods"]);
}

#[test]
fn conflicting_modules_are_rejected() {
    for (written, expected) in [
        (
            &["package a\np := 1", "package a\np := 2"][..],
            "2.rego:2:1: rule conflicts with rule at 1.rego:2:1",
        ),
        (
            &["package a\np := 1", "package a\np contains 2"],
            "2.rego:2:1: conflicting values of a rule or a function",
        ),
        (&["package a\np := data.b.f(1)"], "1.rego:2:6: unknown function data.b.f"),
        (&["package a\np if { x == 1; x := 1 }"], "1.rego:2:8: variable x is used before its definition"),
        (
            &["package a\np := numbers.range(1, 10000000000)"],
            "1.rego:2:19: numbers.range: more than 100000 elements",
        ),
    ] {
        assert_eq!(faults(written), [expected], "{written:?}");
    }
}

#[test]
fn fault_on_an_edited_line_has_its_original_place() {
    let head = "{\"resource\": {\"kind\": \"pods\", \"namespace\": ns, \"name\": n}}";
    let written =
        format!("package admission\ndeny[{head}] {{ matches[[\"pods\", ns, n, pod]]; foo.bar(pod) }}");
    let column = written.lines().nth(1).unwrap().find("foo").unwrap() + 1;
    assert_eq!(faults(&[&written]), [format!("1.rego:2:{column}: unknown function foo.bar")]);
}

#[test]
fn first_20_faults_are_listed() {
    let many = "package a\n".to_owned() + &"p if { foo(1) }\n".repeat(30);
    let faults = checked(&[&many]).unwrap_err();
    assert_eq!((faults.listed.len(), faults.more), (20, 10));
    assert!(faults.to_string().ends_with("1.rego:21:8: unknown function foo\nand 10 more\n"), "{faults}");
}

#[test]
fn rules_with_the_prefix_are_tests() {
    let bundle =
        Bundle::read(&texts(&["package a.b\ntest_one if true\ntest_one if false\np := 1\ntest_f(x) := x"]))
            .unwrap();
    let of = |prefix: &str| -> Vec<_> {
        let rules_with_prefix = bundle.rules_with_prefix(prefix).into_iter();
        rules_with_prefix.map(|rule| (rule.query, rule.fault.to_string())).collect()
    };
    assert_eq!(of("test_"), [("data[\"a\"][\"b\"].test_one".to_owned(), "1.rego:2:1: test_one".to_owned())]);
    assert_eq!(of("sample_"), []);
}

#[test]
fn indirect_references_to_a_package_are_found() {
    let user = "package user\ndenied { data.lib.is_bad(1) }";
    let queried = "package admission\nimport data.user\ndeny[\"no\"] { user.denied }";
    let bundle = checked(&[OLDER, user, queried, "package io.other\np { input.x }"]).unwrap();
    let reaching = |package| {
        let all = ["admission", "io.other", "lib", "missing", "user"].into_iter();
        all.filter(|other| bundle.refers(other, package)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(reaching("lib"), "admission lib user");
    assert_eq!(reaching("io.other"), "io.other");
    assert_eq!(reaching("missing"), "missing");
}

#[test]
fn package_reaches_its_modules_and_their_references() {
    let queried = "package asked\nimport data.lib\np := lib.q";
    let library = "package lib\nq := data.deeper.r\nr := data.kubernetes.pods";
    let deeper = "package deeper\nr := data.kubernetes.nodes";
    let other = "package other\np := data.kubernetes.services\nq := data.asked.p";
    let bundle = checked(&[queried, library, deeper, other]).unwrap();
    let reachable = bundle.reachable("asked");
    let modules: Vec<&str> = reachable.modules.iter().map(ModuleId::as_str).collect();
    assert_eq!(modules, ["1.rego", "2.rego", "3.rego"]);
    assert_eq!(reachable.kinds.into_iter().collect::<Vec<_>>(), ["nodes", "pods"]);
    assert!(!reachable.any);
    let any = "package asked\np[kind] := 1 if data.kubernetes[kind]";
    assert!(checked(&[any]).unwrap().reachable("asked").any);
    assert_eq!(bundle.reachable("nothing"), Reachable::default());
}

#[test]
fn query_belongs_to_the_longest_matching_package() {
    let written = ["package a\np := 1", "package a.b\np := 1", "package c[\"d-e\"]\np := 1"];
    let bundle = Bundle::read(&texts(&written)).unwrap();
    for (query, expected) in [
        ("data.a.deny", Some("a")),
        ("data.a.b.deny with input as {}", Some("a.b")),
        ("data.ab.deny", None),
        ("data[\"a\"]", Some("a")),
        ("data[\"c\"][\"d-e\"]", Some("c.d-e")),
        ("true", None),
    ] {
        assert_eq!(bundle.package_of(query).as_deref(), expected, "{query}");
    }
}
