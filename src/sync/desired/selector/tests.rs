use std::collections::BTreeMap;

use kube::core::SelectorExt;

use super::*;

fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
    let labels: BTreeMap<String, String> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    parse(selector).unwrap().matches(&labels)
}

#[test]
fn both_syntaxes_select() {
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
fn what_cannot_be_read_is_named() {
    for (selector, error) in [
        ("region=us,", r#"a requirement is missing beside a comma in "region=us,""#),
        ("a,,b", r#"a requirement is missing beside a comma in "a,,b""#),
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
