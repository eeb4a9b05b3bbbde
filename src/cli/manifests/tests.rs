use super::*;

fn names(text: &str) -> Vec<String> {
    let manifests = parse("file", text).unwrap();
    manifests
        .iter()
        .map(|m| format!("{} {} {}", m.object.api_version, m.object.kind, m.object.metadata.name))
        .collect()
}

fn fault(text: &str) -> String {
    format!("{:#}", parse("file.yaml", text).unwrap_err())
}

#[test]
fn lists_are_split_into_their_items() {
    let list = "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: A, metadata: {name: a}}]}";
    assert_eq!(names(list), ["v1 A a"]);
    assert_eq!(names("{apiVersion: x/v1, kind: BList, items: [{metadata: {name: b}}]}"), ["x/v1 B b"]);
    assert_eq!(names("{apiVersion: v1, kind: List, items: []}"), [""; 0]);
}

#[test]
fn nulls_in_metadata_are_ignored() {
    let text = "apiVersion: v1\nkind: A\nmetadata: {name: a, labels: null, creationTimestamp: null}";
    assert_eq!(names(text), ["v1 A a"]);
}

#[test]
fn spec_keeps_its_nulls() {
    let text = "apiVersion: v1\nkind: A\nmetadata: {name: a}\nspec: {b: null, c: [1.0, 0.5, x]}";
    let manifest = parse("file", text).unwrap().remove(0);
    assert_eq!(manifest.object.spec.unwrap().get(), r#"{"b":null,"c":[1,0.5,"x"]}"#);
}

#[test]
fn invalid_object_is_reported_with_its_place() {
    assert_eq!(fault("a: 1"), "file.yaml:1: an object without apiVersion");
    assert_eq!(
        fault("apiVersion: v1\nkind: A\nmetadata: {}"),
        "file.yaml:1: an object without metadata.name"
    );
    assert_eq!(fault("---\n---\n- 1"), "file.yaml:3: expected a Kubernetes object");
    assert_eq!(
        fault("{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: A}]}"),
        "file.yaml:1: items[0]: an object without metadata.name"
    );
    assert_eq!(
        fault("apiVersion: v1\nkind: A\nmetadata: {name: a, labels: {x: 1}}"),
        "file.yaml:1: metadata.labels.x: invalid type: integer `1`, expected a string"
    );
}
