use serde_json::json;

use super::*;

fn read(text: &str) -> Vec<(u64, Value)> {
    documents(text).unwrap().into_iter().map(|document| (document.line, document.value)).collect()
}

fn number(text: &str) -> Value {
    read(&format!("k: {text}")).remove(0).1["k"].clone()
}

#[test]
fn each_document_has_the_number_of_its_first_line() {
    assert_eq!(
        read("# first\na: 1\n---\n---\n\n# second\nb: 2\n"),
        [(2, json!({"a": 1})), (7, json!({"b": 2}))]
    );
    assert_eq!(read("\n{\"a\": 1}\n\n{\n\"b\": 2}"), [(2, json!({"a": 1})), (4, json!({"b": 2}))]);
    assert_eq!(read(""), []);
}

#[test]
fn yaml_in_braces_is_yaml() {
    assert_eq!(read("{a: 1}"), [(1, json!({"a": 1}))]);
}

#[test]
fn anchors_and_merge_keys_are_resolved() {
    let text = "a: &a {x: 1}\nb:\n  <<: *a\n  z: 2\n";
    assert_eq!(read(text), [(1, json!({"a": {"x": 1}, "b": {"x": 1, "z": 2}}))]);
}

#[test]
fn numbers_are_normalized_as_by_the_api_server() {
    assert_eq!(number("9223372036854775807"), json!(i64::MAX));
    assert_eq!(number("-9223372036854775808"), json!(i64::MIN));
    assert_eq!(number("1.0"), json!(1));
    assert_eq!(number("0.1"), json!(0.1));
    assert_eq!(number("18446744073709551615"), json!(18_446_744_073_709_551_615_f64));
    assert_eq!(number("0755"), json!(493));
    assert_eq!(number("'0755'"), json!("0755"));
}

fn fault(text: &str) -> String {
    let fault = documents(text).unwrap_err();
    format!("{}: {fault}", fault.line)
}

#[test]
fn fault_names_its_document_and_line() {
    assert_eq!(fault("a: 1\n---\nb: [\n"), "3: document 2: unclosed bracket '[' at column 4");
    assert_eq!(fault("{\"a\": 1}\n{\"b\": }"), "2: document 2: expected value at column 7");
    assert_eq!(fault("a: 1\n---\n# b\n---\nc:\n  d: 1\n  d: 2"), "7: document 3: duplicate key \"d\"");
    assert_eq!(fault("a: 1\n---\n{\"b\":\n\n1]}"), "5: document 2: expected `,` or `}` at column 2");
}

#[test]
fn fault_leaves_the_other_documents() {
    let read = documents_each("a: 1\n---\nb: 'x\n---\nc: 3\n...\nd: [\n...\n%YAML 1.1\n---\ne: 5\n");
    let read: Vec<_> =
        read.into_iter().map(|read| read.map_err(|fault| (fault.document, fault.line))).collect();
    let good = |line, value| Ok(Document { line, value });
    let expected = [
        good(1, json!({"a": 1})),
        Err((2, 3)),
        good(5, json!({"c": 3})),
        Err((4, 7)),
        good(11, json!({"e": 5})),
    ];
    assert_eq!(read, expected);
}

#[test]
fn text_that_go_yaml_reads_against_the_specification_is_read() {
    assert_eq!(
        read("a: \"it\\'s \\\\'\"#c\nb: [1,#c\n-]#d\n"),
        [(1, json!({"a": "it's \\'", "b": [1, "-"]}))]
    );
    assert_eq!(read("a: |#c\n  x\n"), [(1, json!({"a": "x\n"}))]);
}

#[test]
fn keys_are_as_kubectl_converts_them() {
    let keys = |text: &str| read(text).remove(0).1.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys("yes: 1\n'no': 1\n1.10: 1\n0x10: 1\n"), ["1.1", "16", "no", "true"]);
    assert_eq!(fault("? [a]\n: 1\n"), "1: document 1: a list or an object cannot be a key");
    assert_eq!(fault("b: 1\n~: 1\n"), "2: document 1: null cannot be a key");
}

#[test]
fn aliases_are_limited() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let below = format!("*a{}", level - 1);
        bomb += &format!("a{level}: &a{level} [{}]\n", vec![below; 10].join(", "));
    }
    assert!(fault(&bomb).ends_with("anchors and aliases take too much memory"));
    assert!(fault("a: &a [*a]").ends_with("the value of an anchor contains itself"));
    let mut deep = "a0: &a0 [x]\n".to_owned();
    for level in 1..200 {
        deep += &format!("a{level}: &a{level} [*a{}]\n", level - 1);
    }
    assert!(fault(&deep).ends_with("lists and objects are nested more than 128 deep"));
}

#[test]
fn nesting_is_limited() {
    let nested = |depth| documents(&("[".repeat(depth) + &"]".repeat(depth)));
    assert!(nested(128).is_ok());
    assert!(nested(129).unwrap_err().to_string().ends_with("nested more than 128 deep"));
    assert!(nested(100_000).is_err());
}

#[test]
fn corrections_of_a_text_are_limited() {
    let text = "a: [".to_owned() + &"1,#\n".repeat(100_000) + "1]\n";
    assert!(documents(&text).is_err());
}

#[test]
fn quoted_scalar_may_end_at_the_indentation_of_its_key() {
    assert_eq!(read("a: '[\n  x\n]'\nb: 1\n"), [(1, json!({"a": "[ x ]", "b": 1}))]);
    assert_eq!(read("k:\n  a: \"x\n  y\"\n"), [(1, json!({"k": {"a": "x y"}}))]);
}
