use serde_json::json;

use super::*;

fn read(text: &str) -> Vec<(u64, Value)> {
    documents(text).unwrap().into_iter().map(|document| (document.line, document.value)).collect()
}

fn number(text: &str) -> Value {
    read(&format!("n: {text}")).remove(0).1["n"].clone()
}

#[test]
fn each_document_knows_its_line() {
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
    let text = "a: &a {x: 1}\nb:\n  <<: *a\n  y: 2\n";
    assert_eq!(read(text), [(1, json!({"a": {"x": 1}, "b": {"x": 1, "y": 2}}))]);
}

#[test]
fn numbers_are_as_the_server_keeps_them() {
    assert_eq!(number("9223372036854775807"), json!(i64::MAX));
    assert_eq!(number("-9223372036854775808"), json!(i64::MIN));
    assert_eq!(number("1.0"), json!(1));
    assert_eq!(number("0.1"), json!(0.1));
    assert_eq!(number("18446744073709551615"), json!(18_446_744_073_709_551_615_f64));
    assert_eq!(number("0755"), json!(493));
    assert_eq!(number("'0755'"), json!("0755"));
}

#[test]
fn a_fault_names_its_line() {
    assert!(documents("a: 1\n---\nb: [\n").unwrap_err().contains("line 3"));
    assert!(documents("{\"a\": 1}\n{\"b\": }").unwrap_err().contains("line 2"));
    assert!(documents("a: 1\na: 2").unwrap_err().contains("duplicate"));
}
