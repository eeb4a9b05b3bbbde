//! The limit of an evaluation's memory.

#![allow(clippy::unwrap_used)]

use std::process::Command;

use policy_sync::rego::bundle::Bundle;
use policy_sync::rego::embedded::Embedded;
use policy_sync::rego::engine_error::Failure;
use policy_sync::rego::module::{ModuleId, Text};
use regorus::Value;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::json;

fn engine(text: &str) -> Embedded {
    let text = Text { id: ModuleId::new("m.rego"), text: text.into() };
    Embedded::new(&Bundle::read(&[text]).unwrap(), json!({}).into()).unwrap()
}

/// Of a label of 63 bytes, each level makes 16 copies: 16 GiB in all.
const DOUBLING: &str = "package a
d(s) := concat(\"\", [s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s])
deny contains msg if msg := d(d(d(d(d(d(d(input.label)))))))
";

/// Why `deny` has no answer for a label of 63 bytes.
fn over_limit(text: &str) -> Failure {
    let input = json!({"label": "x".repeat(63)});
    let failure = engine(text).ask("data.a.deny", &input.into()).unwrap_err();
    assert!(failure.too_large && !failure.too_long, "{failure:?}");
    failure
}

#[test]
fn an_evaluation_that_takes_too_much_memory_ends_before_it_is_allocated() {
    let failure = over_limit(DOUBLING);
    assert_eq!(failure.to_string(), "m.rego:2:15: the evaluation took more than 32 MiB of memory");
}

#[test]
fn memory_is_limited_whatever_takes_it() {
    let none = "m.rego: data.a.deny took more than 32 MiB of memory";
    for (rules, expected) in [
        // Builtins, each by itself and all together.
        ("deny := sprintf(\"%v\", [big])", "m.rego:3:"),
        ("deny := json.marshal(big)", "m.rego:3:"),
        ("deny := [x | some i in range; x := replace(long, \"y\", \"\")]", "m.rego:3:"),
        // Of another type, which the engine's error would repeat.
        ("deny := startswith(big, \"x\")", "m.rego:3:"),
        // What the interpreter gathers.
        ("deny := [x | some i in range; x := many | {i}]", none),
        ("deny contains x if { some i in range; x := many | {0 - i} }", none),
        ("deny := {i: x | some i in range; x := many | {i}}", none),
        // An answer of few parts that are many once they are written out.
        ("deny := big", none),
        ("deny := {\"big\": big}", none),
    ] {
        let text = format!(
            "package a\nrange := numbers.range(1, 1000)\n{rules}\nlong := d(d(d(input.label)))\nd(x) := concat(\"\", f(x))\n\
             many := {{x | some x in numbers.range(1, 20000)}}\n\
             big := f(f(f(f(f(f(f(input.label)))))))\nf(x) := [x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x]\n"
        );
        let failure = over_limit(&text).to_string();
        assert!(failure.starts_with(expected), "{rules}: {failure}");
        assert!(failure.ends_with("took more than 32 MiB of memory"), "{rules}: {failure}");
    }
}

#[test]
fn an_error_that_the_engine_drops_ends_the_evaluation() {
    // The second rule has a value, with which the engine would go on.
    let text = format!("{DOUBLING}f(x) := count(d(d(d(d(d(d(x)))))))\nf(x) := 1\n");
    let text = text.replace("d(d(d(d(d(d(d(input.label)))))))", "sprintf(\"%d\", [f(input.label)])");
    over_limit(&text);
}

#[test]
fn an_evaluation_that_takes_little_memory_at_a_time_may_take_much_in_all() {
    // 12 texts of 4 MB, one after the other: 48 MB.
    let text = DOUBLING.to_owned()
        + "long := d(d(d(d(input.label))))\nn := count([1 | some x in input.all; count(concat(x, [long, x])) > 0])\n";
    let input = json!({"label": "x".repeat(63), "all": vec!["0123456789abcdef"; 12]});
    assert_eq!(engine(&text).ask("data.a.n", &input.into()).unwrap(), Some(Value::from(12)));
}

/// An array of 16 copies of a value, and so on, for seven levels: 4 GiB of text of a few KiB of memory.
const NESTED: &str = "nested := n(n(n(n(n(n(n(input.label)))))))
n(x) := [x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x]
";

/// Rules for which the engine would format `nested`, and how their failures end.
const FORMATTED: [(&str, &str); 17] = [
    ("p := nested + 1", MEMORY),
    ("p := 1 % nested", MEMORY),
    ("p := nested - {1}", MEMORY),
    ("p := {1} - nested", MEMORY),
    ("p := {1} | nested", MEMORY),
    ("p := nested & {1}", MEMORY),
    ("p := [1 | some i in [1, 2]; x := nested; x & {i}]", MEMORY),
    ("p if print(\"a\", nested)", MEMORY),
    ("p if print({\"a\": {nested}})", MEMORY),
    ("default p := {1: [nested, i] | some i in [1, 2]}", MEMORY),
    ("p := {1: [nested, i] | some i in [1, 2]}", "more than one value for a key of an object"),
    ("p := data.b[nested]", MEMORY),
    ("p := data.b[x] if { x := nested }", MEMORY),
    ("p := data.b[nested].c", MEMORY),
    ("f(_) := [nested, y] if { some y in [1, 2] }; p := f(1)", MEMORY),
    ("f(x) := [nested, y] if { y := [1, 2][_] }; p := f(1)", MEMORY),
    ("f(x) := 1 if { x == 2 } else := [nested, y] if { some y in [1, 2] }; p := f(1)", MEMORY),
];
const MEMORY: &str = "the evaluation took more than 32 MiB of memory";

/// Variables of the process that evaluates one rule: the rule, and how its failure ends.
const RULE: &str = "POLICY_SYNC_TEST_RULE";
const FAILURE: &str = "POLICY_SYNC_TEST_FAILURE";

/// Evaluates the rule that the test below sets, in a process with little memory.
#[test]
fn rule_of_the_environment_fails_within_a_data_segment_of_one_gibibyte() {
    let (Ok(rule), Ok(expected)) = (std::env::var(RULE), std::env::var(FAILURE)) else { return };
    let limit = Some(1 << 30);
    setrlimit(Resource::Data, Rlimit { current: limit, maximum: limit }).unwrap();
    let text = format!("package a\n{}\n{NESTED}", rule.replace("; p := f", "\np := f"));
    let failure = engine(&text).ask("data.a.p", &json!({"label": "0123456789abcdef"}).into()).unwrap_err();
    assert!(failure.too_large == (expected == MEMORY), "{failure:?}");
    let text = failure.to_string();
    assert!(text.starts_with("m.rego:2:") && text.ends_with(&format!(": {expected}")), "{text}");
}

#[test]
fn engine_formats_no_value_over_the_memory_limit() {
    let test = "memory::rule_of_the_environment_fails_within_a_data_segment_of_one_gibibyte";
    let mut failed = Vec::new();
    for (rule, failure) in FORMATTED {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let run = command.args(["--exact", test]).env(RULE, rule).env(FAILURE, failure).output().unwrap();
        let output = String::from_utf8_lossy(&run.stdout);
        if !run.status.success() || !output.contains("1 passed") {
            failed.push(format!("{rule}: {} {output} {}", run.status, String::from_utf8_lossy(&run.stderr)));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Rules with a variable that nothing binds: the engine's error would quote all variables, one of which is `nested`.
const UNBOUND: [&str; 9] = [
    "p := unbound if { x := nested }",
    "p := [unbound | x := nested]",
    "p := [{unbound} | x := nested]",
    "p contains unbound if { x := nested }",
    "p[unbound] { x := nested }",
    "p = unbound { x := nested }",
    "p := {unbound: 1 | x := nested}",
    "p := f(1)\nf(x) := unbound if { y := nested }",
    "p if { false } else := unbound if { y := nested }",
];

#[test]
fn variable_that_nothing_binds_is_found_when_a_module_is_loaded() {
    for rule in UNBOUND {
        let text = Text { id: ModuleId::new("m.rego"), text: format!("package a\n{rule}\n{NESTED}").into() };
        let fault = Embedded::new(&Bundle::read(&[text]).unwrap(), json!({}).into()).unwrap_err().to_string();
        assert!(fault.contains("use of undefined variable `unbound` is unsafe"), "{rule}: {fault}");
    }
}

#[test]
fn number_that_json_lacks_fails_the_evaluation() {
    let text = "package a\np := {1} | bits.lsh(1, 5000)\n";
    let failure = engine(text).ask("data.a.p", &json!({}).into()).unwrap_err();
    assert!(!failure.too_large && !failure.too_long, "{failure:?}");
}
