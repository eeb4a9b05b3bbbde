//! `policy-sync rego`, which works on files only.

use std::fs;

use policy_sync_testenv::bad_input::{self, code};
use tempfile::TempDir;

use crate::run::{CommandOutput, command, finish, run, run_with};

/// Checks `text` on standard input.
fn check(text: &str) -> CommandOutput {
    run_with(&["rego", "check", "-"], text)
}

#[test]
fn published_rego_policies_load_and_pass_their_tests() {
    let ran = run(&["rego", "check", "policies"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "20 modules: ok\n", ""));
    let ran = run(&["rego", "test", "policies"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "32 tests, 0 failed\n", ""));
}

#[test]
fn eval_places_an_app_with_card_data_on_the_certified_eu_cluster() {
    let eval = |query: &str| {
        let files = ["--data", "policies/clusters.yaml", "--input", "policies/app.yaml"];
        run(&[&["rego", "eval", query, "-f", "policies"], &files[..]].concat())
    };
    let ran = eval("data.io.k8s.federation.admission");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let answer: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let preferences = &answer["annotations"]["federation.kubernetes.io/replica-set-preferences"];
    assert_eq!(*preferences, serde_json::json!({"clusters": {"c1": {"weight": 1}}, "rebalance": true}));

    let ran = eval("name := input.metadata.name; count(data.kubernetes.clusters, n)");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\n  \"n\": 2,\n  \"name\": \"shop\"\n}\n"));
    let ran = eval("data.nothing");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (1, "", "undefined\n"));
    let ran = eval("input.metadata.[");
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.starts_with("<query.rego>:1:"), "{}", ran.stderr);
}

/// A description, a rejected module, and the part of its message after the module's name.
const REFUSED: [(&str, &str, &str); 40] = [
    ("an empty module", "", ":1:1: a module must begin with its package: write package NAME first"),
    ("no package", "p := 1", ":1:1: a module must begin with its package: write package NAME first"),
    ("JSON", "{\"a\": 1}", ":1:1: a module must begin with its package: write package NAME first"),
    (
        "a body with a syntax error",
        "package a\np if { x := ) }",
        ":2:10: expected }: a construct is not closed, or two statements are on one line",
    ),
    (
        "a v0 rule body in a v1 module",
        "package a\nimport rego.v1\np { input.x }",
        ":3:3: Rego version 1 requires if before a body: write if, or the whole module in version 0",
    ),
    ("an unterminated string", "package a\np := \"open", ":2:6: the string does not end"),
    ("an invalid character", "package a\np := ü", ":2:6: a character that is not allowed in Rego"),
    (
        "an import of an unknown path",
        "package a\nimport x.y\np := 1",
        ":2:8: only data, input, rego.v1 and future.keywords can be imported",
    ),
    ("a line of 5,000 characters", "", ":2:7: the line has more than 4,096 bytes: split it"),
    ("20,001 lines", "", ": has 20,001 lines, at most 20,000 are allowed"),
    ("1,100,010 bytes", "", ": has 1,100,010 bytes, at most 1,048,576 are allowed"),
    ("40 nested parentheses", "", ":2:38: more than 32 nested expressions: assign some to variables"),
    (
        "a package that OPA reserves",
        "package system.authz\nallow := true",
        ":1:9: package system.authz: this path is reserved for OPA",
    ),
    (
        "the package that the controller reserves",
        "package policysync\np := 1",
        ":1:9: package policysync: this path is reserved for the controller",
    ),
    (
        "a package for which the controller loads objects",
        "package kubernetes\np := 1",
        ":1:9: package kubernetes: objects of the hub have this path",
    ),
    (
        "a call of an unknown function",
        "package a\np if { input.never; nothing.at_all(1) }",
        ":2:21: unknown function nothing.at_all",
    ),
    (
        "a call of a function in another package without an import",
        "package a\np if { lib.f(1) }",
        ":2:8: unknown function lib.f",
    ),
    (
        "too many arguments for a built-in function",
        "package a\np if { count(1, 2, 3) }",
        ":2:8: count takes 1 argument, found 3",
    ),
    (
        "too few arguments for a function",
        "package a\nf(x, y) := x + y\np := f(1)",
        ":3:6: f takes 2 arguments, found 1",
    ),
    (
        "too many arguments in an expression",
        "package a\np := numbers.range(1, 2, 3)",
        ":2:6: numbers.range takes 2 arguments, found 3",
    ),
    (
        "an HTTP request",
        "package a\np := http.send({\"url\": \"http://example.com\"})",
        ":2:6: http.send may not be called: a Rego policy cannot access the network",
    ),
    (
        "a DNS lookup",
        "package a\np := net.lookup_ip_addr(\"example.com\")",
        ":2:6: net.lookup_ip_addr may not be called: a Rego policy cannot access the network",
    ),
    (
        "a read of the environment",
        "package a\np := opa.runtime().env",
        ":2:6: opa.runtime may not be called: a Rego policy cannot read the environment",
    ),
    (
        "a random number",
        "package a\np := rand.intn(\"a\", 6)",
        ":2:6: rand.intn may not be called: a Rego policy must be deterministic",
    ),
    (
        "a random UUID",
        "package a\np := uuid.rfc4122(\"a\")",
        ":2:6: uuid.rfc4122 may not be called: a Rego policy must be deterministic",
    ),
    (
        "a built-in function that the embedded engine lacks",
        "package a\np := rego.parse_module(`a`, input.text)",
        ":2:6: rego.parse_module is not available in the embedded engine: use OPA (--opa-url)",
    ),
    ("a recursive rule", "package a\np if q\nq if not p", ":2:1: a.p is recursive, through a.q"),
    ("a recursive function", "package a\nf(x) := f(x - 1)", ":2:1: a.f is recursive"),
    (
        "a variable that is bound only inside `not`",
        "package a\np if { not input.x[y] }",
        ":2:20: variable y is unsafe: no statement outside of not gives it a value",
    ),
    (
        "an unbound variable",
        "package a\ndeny contains x if { input.y }",
        ":2:15: variable x is unsafe: no statement gives it a value",
    ),
    (
        "a variable that is used before its declaration",
        "package a\np if { x == 1; x := 1 }",
        ":2:8: variable x is used before its definition",
    ),
    (
        "a second body of a set rule, if its head has several lines and so cannot be repeated automatically",
        "package a\np[{\n  \"a\": x}] { x := input.x } { x := input.y }",
        ":3:29: a rule for a set can have only one body: write the rule twice",
    ),
    (
        "a `some` variable with the name of a rule",
        "package a\nname := 1\np if {\n  some name\n  input[name]\n}",
        ":4:8: variable name has the name of a rule or an import: rename it",
    ),
    (
        "two values for one complete rule",
        "package a\np := 1\np := 2",
        ":3:1: rule conflicts with rule at stdin:2:1",
    ),
    (
        "a rule that is both a value and a set",
        "package a\np := 1\np contains 2",
        ":3:1: conflicting values of a rule or a function",
    ),
    (
        "`data.k8s.matches` inside an expression",
        "package admission\nimport data.k8s.matches\nx := matches[[\"pods\", a, b, c]]",
        ":3:6: matches can only be a statement of four variables or constants, matches[[kind, namespace, name, object]]: read data.kubernetes instead",
    ),
    (
        "a range with too many numbers",
        "package a\np := numbers.range(1, 10000000000)",
        ":2:19: numbers.range: more than 100000 elements",
    ),
    ("25 nested lists", "", ": the check took more than 0.5 s"),
    (
        "a rule that reads the contents of a Secret under review",
        DENIES_WITH_SECRET,
        ":5:27: reads the contents of a Secret: this needs --replicate secrets",
    ),
    (
        "Secrets, without `--replicate secrets`",
        "package a\np if { data.kubernetes.secrets[_][_].type == \"x\" }",
        ":2:8: secrets are only available if --replicate lists them",
    ),
];

/// Generates the module of a case whose text is too large to write out.
fn text(what: &str, text: &str) -> String {
    match what {
        "a line of 5,000 characters" => format!("package a\np := \"{}\"", "x".repeat(5_000)),
        "20,001 lines" => format!("package a\n{}", "#\n".repeat(20_000)),
        "1,100,010 bytes" => format!("package a\n{}", format!("#{}\n", "x".repeat(998)).repeat(1_100)),
        "40 nested parentheses" => format!("package a\np := {}1{}", "(".repeat(40), ")".repeat(40)),
        "25 nested lists" => format!("package a\np := {}1{}", "[".repeat(25), "]".repeat(25)),
        _ => text.to_owned(),
    }
}

#[test]
fn messages_of_rejected_modules_are_documented() {
    let mut table = "| module | message |\n|---|---|\n".to_owned();
    for (what, written, expected) in REFUSED {
        let ran = check(&text(what, written));
        assert_eq!((ran.code, ran.stderr.as_str()), (1, ""), "{what}: {}", ran.stdout);
        assert_eq!(ran.stdout, format!("stdin{expected}\n"), "{what}");
        table += &format!("| {what} | {} |\n", code(&format!("ID{}", expected.replace("stdin", "ID"))));
    }
    bad_input::holds("rego", &table).unwrap();
}

#[test]
fn module_that_ends_its_check_is_named_and_affects_no_others() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("fine.rego", "package fine\np := 1");
    // Adding 1 fails, because the result of `n` is a nested list. The engine's error message quotes this large list,
    // and so exceeds the memory limit of the check.
    let large = format!(
        "package large\nn(v) := [v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v]\np := n(n(n(n(n(\"{}\"))))) + 1",
        "x".repeat(2_000)
    );
    write("large.rego", &large);
    write("slow.rego", &text("25 nested lists", ""));
    let path = folder.path().to_str().unwrap();
    let ran = run(&["rego", "check", path]);
    let expected = format!(
        "{path}/large.rego: the check ended by signal 6\n{path}/slow.rego: the check took more than 0.5 s\n"
    );
    assert_eq!((ran.code, ran.stdout), (1, expected));
    let ran = run(&["rego", "eval", "data.fine.p", "-f", path]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(ran.stderr.contains("/slow.rego: the check took more than 0.5 s"), "{}", ran.stderr);
}

#[test]
fn deeply_nested_modules_overflow_no_stack() {
    // Each index is a level of the syntax tree.
    let deep = format!("package a\np := {}1{}", "input[".repeat(31), "]".repeat(31));
    let long = format!("package a\np := input{}", ".a".repeat(2_000));
    for text in [deep, long] {
        let ran = run_with(&["rego", "eval", "data.a.p", "-f", "-"], &text);
        assert!(ran.code == 1 && !ran.stderr.contains("signal"), "{}", ran.stderr);
    }
}

#[test]
fn likely_mistakes_cause_warnings_only() {
    let ran = check("package a\np if data.kubernetes[input.kind]\nq if data.kubernetes.Pod");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1 module: ok\n"));
    let expected = "stdin:1:9: warning: package a is neither evaluated nor imported\n\
        stdin:2:6: warning: reads objects of kinds that it does not name: only kinds in --replicate are available\n\
        stdin:3:6: warning: \"Pod\": use the plural: pods\n";
    assert_eq!(ran.stderr, expected);
}

#[test]
fn strict_check_fails_on_a_misspelt_package() {
    let rules = "import rego.v1\ndeny contains \"no\" if input.request.kind.kind == \"Pod\"";
    let check = |package: &str, more: &[&str]| {
        run_with(&[&["rego", "check", "-"], more].concat(), &format!("package {package}\n{rules}"))
    };
    let warning = "stdin:1:9: warning: package admision is neither evaluated nor imported\n";
    let ran = check("admision", &[]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "1 module: ok\n", warning));
    let ran = check("admision", &["--strict"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (1, "1 module: 1 warning\n", warning));
    let ran = check("admission", &["--strict"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "1 module: ok\n", ""));
}

#[test]
fn duplicate_test_names_fail() {
    let tests = "package a_test\n\ntest_limit if 1 == 1\n\ntest_limit if 1 == 2\n\ntest_other if 1 == 1\n";
    let ran = run_with(&["rego", "test", "-"], tests);
    let expected =
        "stdin:3:1: test_limit is defined 2 times: each test needs its own name\n2 tests, 1 failed\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (1, expected));
}

#[test]
fn failed_tests_are_listed_with_their_places() {
    let tests = "package a_test\n\ntest_true if 1 == 1\n\ntest_false if 1 == 2\n\ntest_value := 3\n\ntest_fails if { numbers.range(1, input.x) }\n";
    let ran = run_with(&["rego", "test", "-"], tests);
    let expected = "stdin:5:1: test_false is not true\nstdin:7:1: test_value is not true\n\
                    stdin:9:1: test_fails is not true\n4 tests, 3 failed\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (1, expected, ""));
    let ran = run_with(&["rego", "test", "-"], "package a\np := 1");
    assert_eq!((ran.code, ran.stderr.as_str()), (1, "no rule is called test_… or sample_…\n"));
}

#[test]
fn conflicting_patches_of_a_sample_fail_its_test() {
    let wants = |id: &str, replicas: u32| {
        format!(
            "deny contains {{\"id\": \"{id}\", \"resolution\": {{\"patches\": [{{\"op\": \"replace\", \"path\": \
             \"/spec/replicas\", \"value\": {replicas}}}]}}}} if input.reviewed[3].spec.replicas > 5\n"
        )
    };
    let samples = "sample_small := {\"reviewed\": [\"deployments\", \"shop\", \"web\", {\"spec\": {\"replicas\": 3}}]}\n\
        sample_large := {\"reviewed\": [\"deployments\", \"shop\", \"web\", {\"spec\": {\"replicas\": 9}}]}\n\
        sample_none := {\"reviewed\": \"web\"}\n";
    let ask = |policies: String| {
        run_with(&["rego", "test", "-"], &format!("package admission\n{policies}{samples}"))
    };
    let none = "stdin:LINE:1: sample_none: expected {\"reviewed\": [kind, namespace, name, object]}, found an object\n";
    let ran = ask(wants("limits", 5) + &wants("quota", 4));
    let conflict =
        "sample_large: limits: replace /spec/replicas conflicts with quota: replace /spec/replicas";
    let expected = format!("stdin:5:1: {conflict}\n{}3 tests, 2 failed\n", none.replace("LINE", "6"));
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (1, expected.as_str(), ""));
    let ran = ask(wants("limits", 5) + &wants("quota", 5));
    let expected = format!("{}3 tests, 1 failed\n", none.replace("LINE", "6"));
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (1, expected.as_str(), ""));
}

#[test]
fn modules_in_manifests_are_checked() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("policies.yaml");
    let check = |manifests: &str| {
        fs::write(&file, manifests).unwrap();
        let mut check = command(&["rego", "check"]);
        check.arg(&file);
        let ran = finish(check, "");
        (ran.code, ran.stdout, ran.stderr)
    };
    let manifests = "apiVersion: v1
kind: ConfigMap
metadata: {name: pci, namespace: policies, labels: {openpolicyagent.org/policy: rego}}
data:
  main: |
    package io.k8s.federation.admission
    errors contains \"no\" if not input.metadata.name in data.policies.settings.names
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: policies, labels: {openpolicyagent.org/data: opa}}
data: {names: '[\"shop\"]'}
---
apiVersion: policysync.kuadrant.io/v1alpha1
kind: RegoPolicy
metadata: {name: labels}
spec: {rego: \"package admission\\ndeny contains 1 if input.x\"}
---
apiVersion: v1
kind: Namespace
metadata: {name: policies}
";
    assert_eq!(check(manifests), (0, "2 modules: ok\n".to_owned(), String::new()));
    let eval = |name: &str| {
        let mut eval = command(&["rego", "eval", "data.io.k8s.federation.admission.errors", "-f"]);
        eval.arg(&file).args(["--input", "-"]);
        finish(eval, &format!("{{\"metadata\": {{\"name\": \"{name}\"}}}}")).stdout
    };
    assert_eq!((eval("shop").as_str(), eval("other").as_str()), ("[]\n", "[\n  \"no\"\n]\n"));

    let wrong = manifests
        .replace("if not input", "if not unput")
        .replace("[\"shop\"]", "[")
        .replace("spec: {rego", "spec: {text");
    let expected = "policies/settings/names: not JSON: EOF while parsing a list at line 1 column 1\n\
        regopolicies/labels: spec.rego is required\n\
        policies/pci/main:2:29: variable unput is unsafe: no statement outside of not gives it a value\n";
    assert_eq!(check(&wrong), (1, expected.to_owned(), String::new()));
    let (code, stdout, stderr) = check("{apiVersion: v1, kind: Namespace, metadata: {name: a}}");
    assert!(code == 2 && stdout.is_empty() && stderr.contains("there is no module in "), "{stderr}");
}

#[test]
fn output_of_print_goes_to_standard_error() {
    let ran = run_with(&["rego", "eval", "data.a.p", "-f", "-"], "package a\np := 1 if { print(\"seen\") }");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1\n"));
    assert!(ran.stderr.contains("seen"), "{}", ran.stderr);
}

#[test]
fn unreadable_files_are_reported() {
    let folder = TempDir::new().unwrap();
    let empty = folder.path().to_str().unwrap();
    for (arguments, expected) in [
        (
            &["rego", "check", empty][..],
            format!("policy-sync: there is no module in {empty}: files of modules end in .rego\n"),
        ),
        (
            &["rego", "check", "nowhere.rego"],
            "policy-sync: cannot read nowhere.rego: No such file or directory (os error 2)\n".to_owned(),
        ),
        (
            &["rego", "eval", "data", "-f", "-", "--data", "-"],
            "policy-sync: standard input can only be one of these\n".to_owned(),
        ),
    ] {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr), (2, "", expected));
    }
    let data = folder.path().join("data.json");
    for (text, expected) in
        [("[1]", "--data: data must be an object"), ("", "is empty"), ("{} {}", "has more than one document")]
    {
        fs::write(&data, text).unwrap();
        let mut eval = command(&["rego", "eval", "data", "-f", "policies", "--data"]);
        eval.arg(&data);
        let ran = finish(eval, "");
        assert!(ran.code == 2 && ran.stderr.contains(expected), "{text}: {}", ran.stderr);
    }
}

#[test]
fn rego_commands_in_the_documentation_work() {
    let page = include_str!("../../docs/rego.md");
    let commands = page.lines().filter_map(|line| line.strip_prefix("    policy-sync "));
    // The page's commands other than `policy-sync rego` run in tests/rego and in the demo.
    let commands: Vec<&str> = commands.filter(|command| command.starts_with("rego ")).collect();
    assert_eq!(commands.len(), 3, "{commands:#?}");
    for line in commands {
        let mut command = command(&line.split(' ').collect::<Vec<_>>());
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/examples/rego"));
        let ran = finish(command, "");
        assert!(ran.code == 0 && ran.stderr.is_empty() && !ran.stdout.is_empty(), "{line}: {ran:?}");
    }
    // The message on the page for a fault in `pci.rego`.
    let policy = include_str!("../../docs/examples/rego/placement/pci.rego");
    let ran = check(&policy.replace("json.unmarshal", "json.parse"));
    let fault = ran.stdout.replacen("stdin", "    placement/pci.rego", 1);
    assert!(ran.code == 1 && page.contains(&fault), "{fault}");
}

/// A module whose denial has the contents of a Secret in its message. The controller copies such messages to Events.
const DENIES_WITH_SECRET: &str = "package admission\nimport rego.v1\ndeny contains msg if {\n\tinput.request.kind.kind == \"Secret\"\n\
                     \tmsg := sprintf(\"%v\", [input.request.object.data])\n}\n";

#[test]
fn check_rejects_reads_of_secrets_without_replicate() {
    let reads = "package admission\nimport rego.v1\ndeny contains \"no\" if data.kubernetes.secrets[_][_].type == \"x\"\n";
    let more = reads.strip_prefix("package admission\nimport rego.v1\n").unwrap();
    let both =
        run_with(&["rego", "check", "--replicate", "secrets", "-"], &format!("{DENIES_WITH_SECRET}{more}"));
    assert_eq!((both.code, both.stdout.as_str()), (0, "1 module: ok\n"), "{both:?}");
    let refused = [
        (DENIES_WITH_SECRET, "stdin:5:27: reads the contents of a Secret: this needs --replicate secrets\n"),
        (reads, "stdin:3:23: secrets are only available if --replicate lists them\n"),
    ];
    for (text, expected) in refused {
        let ran = check(text);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (1, expected, ""));
        let ran = run_with(&["rego", "check", "--replicate", "pods", "-"], text);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, expected));
    }
    // A rule for all kinds gets a warning.
    let any = DENIES_WITH_SECRET.replace("\tinput.request.kind.kind == \"Secret\"\n", "");
    let ran = check(&any);
    let warning = "stdin:4:27: warning: may read the contents of a Secret under review: without --replicate secrets, Secrets cannot be \
                   written. Restrict the rule to other kinds\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "1 module: ok\n", warning));
}

/// `count` modules of 400 bytes, each with a distinct rule, helper and message.
fn small_modules(count: usize) -> impl Iterator<Item = (String, String)> {
    (0..count).map(|number| {
        let text = format!(
            "package admission\n\nimport data.k8s.matches\n\ndeny[{{\n\t\"id\": \"owner-{number}\",\n\t\"resource\": {{\"kind\": \"pods\", \
             \"namespace\": namespace, \"name\": name}},\n\t\"resolution\": {{\"message\": message}},\n}}] {{\n\tmatches[[\"pods\", \
             namespace, name, pod]]\n\tnot owned_{number}(pod)\n\tmessage := sprintf(\"%s has no owner {number}\", \
             [name])\n}}\n\nowned_{number}(pod) {{ pod.metadata.labels[\"owner-{number}\"] }}\n"
        );
        (format!("m{number:04}.rego"), text)
    })
}

#[test]
fn two_thousand_small_modules_are_checked() {
    let folder = TempDir::new().unwrap();
    for (name, text) in small_modules(2_000) {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let ran = run(&["rego", "check", folder.path().to_str().unwrap()]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "2000 modules: ok\n"), "{}", ran.stderr);
}

#[test]
fn bundle_over_the_module_limit_is_rejected_with_both_numbers() {
    let folder = TempDir::new().unwrap();
    for number in 0..=4_000 {
        fs::write(folder.path().join(format!("{number:04}.rego")), "package a\n").unwrap();
    }
    let ran = run(&["rego", "check", folder.path().to_str().unwrap()]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let expected = "4000.rego: all Rego policies together can have at most 4,000 modules of 2,097,152 bytes, and would have 4,001 modules of 40,010 bytes";
    assert!(ran.stdout.contains(expected), "{}", ran.stdout);
}

const TEMPLATE: &str = include_str!("data/gatekeeper/template.yaml");

const CONSTRAINT: &str = include_str!("data/gatekeeper/constraint.yaml");

const SUITE: &str = include_str!("data/gatekeeper/suite.yaml");

const POD: &str = include_str!("data/gatekeeper/not-owned.yaml");
const OWNED_POD: &str = include_str!("data/gatekeeper/owned.yaml");

#[test]
fn constraint_templates_become_modules_that_pass_their_suite() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("template.yaml", TEMPLATE);
    write("constraint.yaml", CONSTRAINT);
    write("suite.yaml", SUITE);
    write("owned.yaml", OWNED_POD);
    write("not-owned.yaml", POD);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (suite, to) = (path("suite.yaml"), path("modules"));
    let convert = || run(&["rego", "convert", &suite, "--to", &to]);
    let ran = convert();
    let warning = format!(
        "warning: {}:1: RequiredOwner pods-have-owners: annotate the ConfigMap of the module with kuadrant.io/enforcement: warn\n",
        path("constraint.yaml")
    );
    assert_eq!((ran.code, ran.stdout, ran.stderr), (0, format!("4 modules in {to}\n"), warning));
    let ran = run(&["rego", "test", &to]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "2 tests, 0 failed\n"), "{}", ran.stderr);
    let ran = run(&["audit", "-f", &path("not-owned.yaml"), "-p", &to, "-o", "json"]);
    assert!(ran.code == 1 && ran.stdout.contains("no owner: web"), "{ran:?}");
    let ran = run(&["audit", "-f", &path("owned.yaml"), "-p", &to]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // Existing files are not overwritten.
    let ran = convert();
    assert!(ran.code == 2 && ran.stderr.contains("File exists"), "{ran:?}");
    let ran = run(&["rego", "check", &path("template.yaml")]);
    let expected = format!(
        "{}:1: ConstraintTemplate requiredowner: convert it to modules with policy-sync rego convert\n",
        path("template.yaml")
    );
    assert_eq!((ran.code, ran.stdout), (1, expected));
    // `convert` rejects a constraint without a template of its kind, and a template that reads replicated objects.
    write("constraint.yaml", &CONSTRAINT.replace("kind: RequiredOwner", "kind: Other"));
    write("template.yaml", &TEMPLATE.replace("input.parameters.message", "data.inventory.cluster"));
    let ran = run(&["rego", "convert", &suite, "--to", &path("others")]);
    assert_eq!(ran.code, 1);
    for expected in
        ["there is no ConstraintTemplate of this kind", "requiredowner:7:29: data.inventory is not converted"]
    {
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    }
}
