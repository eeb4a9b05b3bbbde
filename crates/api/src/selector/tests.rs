use std::collections::BTreeMap;

use kube::core::SelectorExt;

use super::*;

fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
    let labels: BTreeMap<String, String> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    parse(selector).unwrap().matches(&labels)
}

#[test]
fn label_selector_syntaxes_match_labels() {
    let us = [("region", "us"), ("example.com/tier", "edge")];
    for selector in [
        "",
        "region=us",
        "region == us",
        "region!=eu",
        "region in (eu, us)",
        "zone notin (a)",
        "example.com/tier",
        "!gpu",
        "region=us,example.com/tier in (edge),!gpu",
    ] {
        assert!(selects(selector, &us), "{selector}");
    }
    for selector in
        ["region=eu", "region!=us", "region in (eu)", "region notin (us)", "gpu", "!region", "region=us,gpu"]
    {
        assert!(!selects(selector, &us), "{selector}");
    }
}

#[test]
fn invalid_label_selectors_are_rejected_with_the_reason() {
    for (selector, error) in [
        ("region=us,", r#"a requirement is missing before or after a comma in "region=us,""#),
        ("a,,b", r#"a requirement is missing before or after a comma in "a,,b""#),
        (
            &vec!["!a"; 101].join(","),
            &format!("more than 100 requirements in {:?}", excerpt(&vec!["!a"; 101].join(","))),
        ),
        ("region in us)", r#"expected `(` in "region in us)""#),
        ("region in (us, e u)", r#"not a label value in "region in (us, e u)""#),
        ("region in us", r#"not a label key in "region in us""#),
        ("region in (us", r#"not a label key in "region in (us""#),
        ("in (us)", r#"expected `key in (…)` or `key notin (…)` in "in (us)""#),
        ("region=u s", r#"not a label value in "region=u s""#),
        ("region>1", r#"not a label key in "region>1""#),
        ("=us", r#"not a label key in "=us""#),
    ] {
        assert_eq!(parse(selector).unwrap_err().to_string(), error, "{selector}");
    }
}

/// Whether the federation selector `text` matches a cluster with the labels in this function.
fn federation(text: &str) -> Result<bool, String> {
    let labels = [("region", "eu"), ("pci", "true"), ("cores", "16")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let annotations = [(FEDERATION_SELECTOR.to_owned(), text.to_owned())].into();
    let read = ClusterSelector::read(&annotations);
    read.map(|selector| selector.unwrap().matches(&labels))
        .map_err(|BadSelector { place, fault, .. }| format!("{place}: {fault}"))
}

#[test]
fn federation_selectors_match_labels() {
    for requirements in [
        "[]",
        r#"[{"key": "region", "operator": "In", "values": ["us", "eu"]}]"#,
        r#"[{"key": "region", "operator": "notin", "values": ["us"]}, {"key": "pci", "operator": "exists"}]"#,
        r#"[{"key": "absent", "operator": "NotIn", "values": ["us"]}]"#,
        r#"[{"key": "region", "operator": "=", "values": ["eu"]}, {"key": "region", "operator": "==", "values": "eu"}]"#,
        r#"[{"key": "region", "operator": "!=", "values": ["us"]}, {"key": "gpu", "operator": "!"}]"#,
        r#"[{"key": "gpu", "operator": "DoesNotExist", "values": null}]"#,
        r#"[{"key": "cores", "operator": "Gt", "values": ["8"]}, {"key": "cores", "operator": "lt", "values": [17]}]"#,
        // Some published policies write a list as a string.
        r#"[{"key": "pci", "operator": "=", "values": "[true]"}]"#,
        r#"[{"key": "pci", "operator": "=", "values": "[\"true\"]"}]"#,
        r#"[{"key": "region", "operator": "In", "values": "[us, eu]"}]"#,
        r#"[{"key": "pci", "operator": "In", "values": [true]}]"#,
    ] {
        assert_eq!(federation(requirements), Ok(true), "{requirements}");
    }
    for requirements in [
        r#"[{"key": "region", "operator": "In", "values": ["us"]}]"#,
        r#"[{"key": "region", "operator": "In", "values": ["eu"]}, {"key": "gpu", "operator": "Exists"}]"#,
        r#"[{"key": "region", "operator": "NotIn", "values": ["eu"]}]"#,
        r#"[{"key": "absent", "operator": "=", "values": [""]}]"#,
        r#"[{"key": "pci", "operator": "DoesNotExist"}]"#,
        r#"[{"key": "cores", "operator": "Gt", "values": ["16"]}]"#,
        r#"[{"key": "region", "operator": "Gt", "values": ["1"]}]"#,
        r#"[{"key": "absent", "operator": "Lt", "values": ["1"]}]"#,
    ] {
        assert_eq!(federation(requirements), Ok(false), "{requirements}");
    }
}

#[test]
fn invalid_federation_selectors_are_rejected_with_their_place() {
    let many = format!("[{}]", vec![r#"{"key": "a", "operator": "Exists"}"#; 101].join(","));
    for (requirements, fault) in [
        ("region=eu", ": not JSON: expected value at line 1 column 1"),
        ("{}", ": expected a list, found an object"),
        ("[3]", "[0]: expected an object, found 3"),
        (many.as_str(), ": has 101 requirements, at most 100 are allowed"),
        (r#"[{"operator": "Exists"}]"#, "[0]: key is required"),
        (r#"[{"key": "a"}]"#, "[0]: operator is required"),
        (r#"[{"key": 3, "operator": "Exists"}]"#, "[0].key: expected a string, found 3"),
        (r#"[{"key": "a b", "operator": "Exists"}]"#, r#"[0].key: "a b" is not a label key"#),
        (r#"[{"key": "a", "key": "b"}]"#, "[0].key: duplicate key"),
        (
            r#"[{"key": "a", "operator": "Exists", "value": "b"}]"#,
            "[0].value: unknown key, expected one of key, operator, values",
        ),
        (
            r#"[{"key": "a", "operator": "Near", "values": ["b"]}]"#,
            r#"[0].operator: expected In, NotIn, Exists, DoesNotExist, Gt, Lt, =, ==, != or !, found "Near""#,
        ),
        (r#"[{"key": "a", "operator": "In"}]"#, "[0].values: operator In takes one value or more, found 0"),
        (
            r#"[{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "!", "values": ["b"]}]"#,
            "[1].values: operator ! takes no values, found 1",
        ),
        (
            r#"[{"key": "a", "operator": "==", "values": ["b", "c"]}]"#,
            "[0].values: operator == takes one value, found 2",
        ),
        (
            r#"[{"key": "a", "operator": "Gt", "values": ["b"]}]"#,
            r#"[0].values: expected a whole number, found "b""#,
        ),
        (
            r#"[{"key": "a", "operator": "In", "values": 3}]"#,
            "[0].values: expected a list, or a string, found 3",
        ),
        (
            r#"[{"key": "a", "operator": "In", "values": ["b", {}]}]"#,
            "[0].values[1]: expected a string, found an object",
        ),
        (
            r#"[{"key": "a", "operator": "In", "values": "[b c]"}]"#,
            r#"[0].values: "b c" is not a label value"#,
        ),
    ] {
        assert_eq!(federation(requirements), Err(fault.to_owned()), "{requirements}");
    }
}

#[test]
fn cluster_must_match_both_annotations() {
    let both = |text: &str, federation: &str| {
        let annotations: BTreeMap<String, String> =
            [(CLUSTER_SELECTOR, text), (FEDERATION_SELECTOR, federation)]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into();
        let labels = [("region".to_owned(), "eu".to_owned())].into();
        ClusterSelector::read(&annotations).unwrap().unwrap().matches(&labels)
    };
    let [eu, us] =
        ["eu", "us"].map(|region| format!(r#"[{{"key": "region", "operator": "=", "values": "{region}"}}]"#));
    assert!(both("region=eu", &eu));
    assert!(!both("region=us", &eu));
    assert!(!both("region=eu", &us));
    assert!(ClusterSelector::read(&BTreeMap::new()).unwrap().is_none());
}
