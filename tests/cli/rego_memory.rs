//! Rego modules that exceed the memory limit of an evaluation.

use std::fs;

use tempfile::TempDir;

use crate::run::run;

#[test]
fn evaluation_over_the_memory_limit_is_reported_with_its_place() {
    const LARGE: &str = "package a\nd(s) := concat(\"\", [s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s])\n\
                         p := d(d(d(d(d(d(d(input.label)))))))\n";
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (module, input) = (write("a.rego", LARGE), write("input.json", "{\"label\": \"0123456789abcdef\"}"));
    let expected = "/a.rego:2:15: the evaluation took more than 32 MiB of memory\n";
    let ran = run(&["rego", "eval", "data.a.p", "-f", &module, "--input", &input]);
    assert!(ran.code == 1 && ran.stderr.ends_with(expected), "{} {}", ran.code, ran.stderr);
    // `rego check` evaluates each package once with an empty input.
    write("a.rego", &LARGE.replace("input.label", "\"0123456789abcdef\""));
    let ran = run(&["rego", "check", &module]);
    assert!(ran.code == 1 && ran.stdout.ends_with(expected), "{} {}", ran.code, ran.stdout);
    let tests = write("a_test.rego", "package a_test\ntest_p if count(data.a.p) > 0\n");
    let ran = run(&["rego", "test", &module, &tests]);
    assert!(ran.code == 1 && ran.stderr.contains(expected), "{} {}", ran.code, ran.stderr);
}
