use json_patch::PatchOperation;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const WEB: ResourceRef<'_> = ResourceRef { kind: "pods", namespace: "shop", name: "web" };

/// Denials with these patches and the ids `a`, `b` and so on.
fn denials(patches: &[serde_json::Value]) -> Vec<Denial> {
    let ids = ["a", "b", "c", "d"];
    let elements =
        patches.iter().zip(ids).map(|(patches, id)| json!({"id": id, "resolution": {"patches": patches}}));
    Denial::read(&serde_json::Value::from(elements.collect::<Vec<_>>()).into(), WEB).unwrap()
}

fn merged(patches: &[serde_json::Value]) -> Result<String, String> {
    let denials = denials(patches);
    assert!(denials.iter().all(|denial| !denial.is_fault), "{denials:?}");
    let object = json!({"spec": {"a": 1, "b": {"c": 2}, "list": [{"x": 1}, {"x": 2}]}});
    let patch = merge(&denials.iter().collect::<Vec<_>>(), &object)?;
    let text =
        |operation: &PatchOperation| Operation { id: String::new(), operation: operation.clone() }.text();
    Ok(patch.0.iter().map(text).collect::<Vec<_>>().join(", "))
}

fn replace(path: &str, value: i64) -> serde_json::Value {
    json!({"op": "replace", "path": path, "value": value})
}

#[test]
fn patches_are_merged_and_equal_operations_applied_once() {
    let of = |patches: &[serde_json::Value]| merged(patches).unwrap();
    assert_eq!(
        of(&[json!([replace("/spec/b/c", 1)]), json!([replace("spec/a", 2)])]),
        "replace /spec/b/c, replace /spec/a"
    );
    assert_eq!(of(&[json!([replace("/spec/a", 2)]), json!([replace("/spec/a", 2)])]), "replace /spec/a");
    let one = json!([{"op": "test", "path": "/spec/a", "value": 1}, replace("/spec/a", 2)]);
    assert_eq!(of(&[one]), "test /spec/a, replace /spec/a", "of one denial, one after the other");
    let made = json!([{"op": "add", "path": "/spec/d", "value": {}}, {"op": "add", "path": "/spec/d/e", "value": 1}]);
    assert_eq!(of(&[made]), "add /spec/d, add /spec/d/e");
}

#[test]
fn conflict_errors_name_both_operations() {
    for (one, other, expected) in [
        (
            replace("/spec/a", 2),
            replace("/spec/a", 3),
            "a: replace /spec/a conflicts with b: replace /spec/a",
        ),
        (
            json!({"op": "remove", "path": "/spec/b"}),
            replace("/spec/b/c", 3),
            "a: remove /spec/b conflicts with b: replace /spec/b/c",
        ),
        (
            replace("/spec/b/c", 3),
            json!({"op": "remove", "path": "/spec/b"}),
            "b: remove /spec/b conflicts with a: replace /spec/b/c",
        ),
        (
            json!({"op": "move", "from": "/spec/a", "path": "/spec/z"}),
            replace("/spec/a", 3),
            "a: move to /spec/z conflicts with b: replace /spec/a",
        ),
        (
            json!({"op": "remove", "path": "/spec/list/0"}),
            replace("/spec/list/1/x", 3),
            "a: remove /spec/list/0 conflicts with b: replace /spec/list/1/x",
        ),
    ] {
        assert_eq!(merged(&[json!([one]), json!([other])]).unwrap_err(), expected);
    }
    let later = [json!([{"op": "remove", "path": "/spec/list/1"}]), json!([replace("/spec/list/0/x", 3)])];
    assert!(merged(&later).is_ok(), "what is before it stays where it is");
    assert!(
        merged(&[json!([replace("/spec/a", 1)]), json!([replace("/spec/ab", 1)])])
            .unwrap_err()
            .contains(" failed: ")
    );
}

#[test]
fn failed_and_excessive_operations_are_reported() {
    let error = |patch: serde_json::Value| merged(&[json!([patch])]).unwrap_err();
    assert!(error(replace("/spec/none", 1)).starts_with("a: replace /spec/none failed: "));
    let test = json!({"op": "test", "path": "/spec/a", "value": 9});
    assert!(error(test).starts_with("a: test /spec/a failed: "));
    let many: Vec<_> = (0..1_001)
        .map(|number| json!({"op": "add", "path": format!("/spec/n{number}"), "value": 1}))
        .collect();
    assert_eq!(merged(&[many.into()]).unwrap_err(), "patches with 1001 operations, at most 1000 are allowed");
    let large = json!({"op": "add", "path": "/spec/x", "value": "x".repeat(1 << 20)});
    assert!(error(large).ends_with("1048576 are allowed"));
}

#[test]
fn invalid_operations_are_reported_with_their_location() {
    for (patch, expected) in [
        (json!({"path": "/a"}), "[0]: expected an operation of a JSON Patch"),
        (json!({"op": "put", "path": "/a"}), "[0]: expected an operation of a JSON Patch"),
        (json!({"op": "replace", "value": 1}), "[0]: expected an operation of a JSON Patch"),
        (json!({"op": "replace", "path": "/a~b", "value": 1}), r#"[0].path: "/a~b" is not a JSON pointer"#),
        (replace("", 1), "[0].path: a Rego policy cannot replace the whole object"),
        (replace("/metadata/name", 1), "[0].path: a Rego policy cannot change /metadata/name"),
        (replace("metadata", 1), "[0].path: a Rego policy cannot change /metadata"),
        (replace("/kind/x", 1), "[0].path: a Rego policy cannot change /kind/x"),
        (
            json!({"op": "copy", "from": "/metadata/uid", "path": "/a"}),
            "[0].from: a Rego policy cannot change /metadata/uid",
        ),
    ] {
        let denial = denials(&[json!([patch])]).remove(0);
        assert!(denial.is_fault, "{patch}");
        assert!(
            denial.message.starts_with(&format!("resolution.patches{expected}")),
            "{patch}: {}",
            denial.message
        );
    }
}

proptest! {
    /// If patches can be merged, the order of their denials does not change the result.
    #[test]
    fn merged_patches_do_not_depend_on_the_order_of_denials(
        changes in prop::collection::vec((0usize..4, prop::sample::select(vec!["/spec/a", "/spec/b", "/spec/b/c", "/spec/new"]), 0i64..3), 1..6)
    ) {
        let mut of: Vec<Vec<serde_json::Value>> = vec![Vec::new(); 4];
        for (denial, path, value) in &changes {
            of[*denial].push(json!({"op": "add", "path": path, "value": value}));
        }
        let patches: Vec<serde_json::Value> = of.into_iter().filter(|patches| !patches.is_empty()).map(Into::into).collect();
        let object = json!({"spec": {"a": 1, "b": {"c": 2}}});
        let result = |denials: &[Denial]| {
            let patch = merge(&denials.iter().collect::<Vec<_>>(), &object)?;
            let mut patched = object.clone();
            json_patch::patch(&mut patched, &patch).map_err(|error| error.to_string())?;
            Ok::<_, String>(patched)
        };
        let (mut reversed, all) = (denials(&patches), denials(&patches));
        reversed.reverse();
        let (one, other) = (result(&all), result(&reversed));
        prop_assert_eq!(one.is_ok(), other.is_ok());
        if let (Ok(one), Ok(other)) = (one, other) {
            prop_assert_eq!(one, other);
        }
    }
}
