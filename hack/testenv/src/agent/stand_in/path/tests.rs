use serde_json::json;

use super::*;

fn object() -> Value {
    json!({
        "metadata": {"generation": 3, "annotations": {"kuadrant.io/revision": "r1", "it's": "odd", "back\\slash": "b"}},
        "spec": {"list": [1, 2, 3], "none": null},
        "status": {"conditions": [
            {"type": "Accepted", "status": "True", "reason": "Accepted"},
            {"type": "Enforced", "status": "False", "reason": "Overridden"},
            {"type": "Enforced", "status": "True", "reason": "Second"},
        ]},
    })
}

fn first(path: &str) -> Result<Option<Value>, PathError> {
    Path::parse(path)?.all(&object()).map(|values| values.first().copied().cloned())
}

#[test]
fn selects_the_same_values_as_client_go() {
    for (path, expected) in [
        (".metadata.generation", json!(3)),
        ("$.metadata.generation", json!(3)),
        (r".metadata.annotations.kuadrant\.io/revision", json!("r1")),
        (r".metadata.annotations['kuadrant\.io/revision']", json!("r1")),
        (r"['metadata'].annotations['kuadrant\.io/revision']", json!("r1")),
        (".metadata.annotations.it's", json!("odd")),
        (r".metadata.annotations.back\\slash", json!("b")),
        (".spec.list[1]", json!(2)),
        (".spec.list[-1]", json!(3)),
        (r#".status.conditions[?(@.type=="Enforced")].reason"#, json!("Overridden")),
        (".status.conditions[?(@.type=='Accepted')].status", json!("True")),
        (r#".status.conditions[?(@.type == "Accepted")].status"#, json!("True")),
    ] {
        assert_eq!(first(path), Ok(Some(expected)), "{path}");
    }
}

#[test]
fn a_missing_key_gives_nothing() {
    for path in [
        ".status.observedGeneration",
        ".metadata.annotations['kuadrant.io/revision']",
        ".metadata.annotations.kuadrant.io/revision",
        r#".status.conditions[?(@.type=="Programmed")].status"#,
        r#".nothing[?(@.type=="Programmed")].status"#,
        ".metadata.generation.deeper",
        ".nothing[0]",
    ] {
        assert_eq!(first(path), Ok(None), "{path}");
    }
    assert_eq!(first(".spec.none"), Ok(Some(Value::Null)));
}

#[test]
fn a_shape_that_does_not_fit_is_an_error() {
    for (path, message) in [
        (".spec.list[3]", "array index out of bounds: index 3, length 3"),
        (".metadata.annotations[0]", "map[string]interface {} is not array or slice"),
        (r#".metadata.generation[?(@.a=="b")]"#, "3 is not array or slice and cannot be filtered"),
    ] {
        assert_eq!(first(path).map_err(|error| error.to_string()), Err(message.to_owned()), "{path}");
    }
}

#[test]
fn unsupported_syntax_is_rejected_with_its_offset() {
    for (path, at) in [
        ("", 0),
        ("status.x", 0),
        ("..x", 0),
        (".status..x", 7),
        (".spec.list[*]", 11),
        (".spec.*", 7),
        (".spec.list[0:2]", 11),
        (r#".metadata["annotations"]"#, 10),
        (".spec.list[0", 11),
        (".spec.list[?(@.a)]", 13),
        (r#".spec.list[?(@.a!="b")]"#, 16),
        (r#".spec.list[?(@.a=="b" && @.c=="d")]"#, 21),
        (".spec.a b", 7),
        (".", 1),
    ] {
        match Path::parse(path) {
            Err(PathError::Syntax { at: found, .. }) => assert_eq!(found, at, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn the_whole_path_is_rfc_9535() {
    let path = Path::parse(r#".status.conditions[?(@.type=="Enforced")].reason"#).unwrap();
    assert_eq!(path.rfc9535(), "$['status']['conditions'][?@['type']=='Enforced']['reason']");
    let object = object();
    let values = object.query(&path.rfc9535()).unwrap();
    assert_eq!(values, [&json!("Overridden"), &json!("Second")]);
}
