use super::*;

fn fault(text: &str) -> String {
    Params::parse(text).unwrap_err().to_string()
}

#[test]
fn empty_parameters_have_the_documented_defaults() {
    assert_eq!(Params::parse("{}").unwrap(), Params::default());
    assert_eq!(Params::default().downstream_class, "istio");
}

#[test]
fn all_keys_are_parsed() {
    let params = Params::parse(
        r#"{"downstreamClass": "nginx", "policiesToSync": [{"group": "kuadrant.io", "version": "v1",
            "resource": "authpolicies", "statusFields": [{"name": "generation", "path": ".status.observedGeneration"}]}],
            "tlsSecrets": "copy", "conflicts": "overwrite", "policyWaitSeconds": 3, "policyWaitAction": "serve", "maxGraceSeconds": 60,
            "metadataToSkip": ["team.example.com/*"]}"#,
    )
    .unwrap();
    assert_eq!(
        params.listed(Role::Policy).next().unwrap(),
        GroupVersionResource::new("kuadrant.io", "v1", "authpolicies")
    );
    assert_eq!(params.conflicts, Conflicts::Overwrite);
    assert_eq!(params.policy_wait_seconds, 3);
    assert_eq!(params.max_grace_seconds, 60);
}

#[test]
fn old_name_is_accepted_unless_the_new_one_is_present() {
    let old = r#"{"experimentalPolicySync": [{"group": "g", "version": "v1", "resource": "ps"}]}"#;
    assert_eq!(Params::parse(old).unwrap().policies_to_sync.len(), 1);
    assert_eq!(
        fault(r#"{"experimentalPolicySync": [], "policiesToSync": []}"#),
        "experimentalPolicySync: is an old name of policiesToSync: only one of them is allowed"
    );
}

#[test]
fn faults_have_their_place() {
    let kind = r#"{"group": "g", "version": "v1", "resource": "ps"}"#;
    for (text, place) in [
        ("nonsense".to_owned(), "not JSON: expected ident at line 1 column 2"),
        ("{} x".to_owned(), "not JSON: trailing characters at line 1 column 4"),
        ("[]".to_owned(), "expected an object, found a list"),
        (r#"{"downstreamClass": ""}"#.to_owned(), "downstreamClass: must not be empty"),
        (r#"{"unknown": 1}"#.to_owned(), "unknown: unknown key, expected one of downstreamClass, policiesToSync, resourcesToSync, gatewayStatusFields, tlsSecrets, conflicts, policyWaitSeconds, policyWaitAction, maxGraceSeconds, metadataToSkip"),
        (r#"{"policiesToSync": [{"group": "g", "version": 2, "resource": "ps"}]}"#.to_owned(), "policiesToSync[0].version: expected a string, found 2"),
        (r#"{"policiesToSync": [{"group": "g", "resource": "ps"}]}"#.to_owned(), "policiesToSync[0]: version is required"),
        (r#"{"policiesToSync": [{"group": "", "version": "v1", "resource": "ps"}]}"#.to_owned(), "policiesToSync[0].group: must not be empty"),
        (r#"{"conflicts": "keep", "conflicts": "keep"}"#.to_owned(), "conflicts: duplicate key"),
        (r#"{"conflicts": "both"}"#.to_owned(), "conflicts: expected \"keep\" or \"overwrite\", found \"both\""),
        (r#"{"tlsSecrets": true}"#.to_owned(), "tlsSecrets: expected \"none\" or \"copy\", found true"),
        (r#"{"policyWaitSeconds": -1}"#.to_owned(), "policyWaitSeconds: expected a whole number from 0 to 4294967295, found -1"),
        (r#"{"policyWaitSeconds": 1.5}"#.to_owned(), "policyWaitSeconds: expected a whole number from 0 to 4294967295, found 1.5"),
        (r#"{"gatewayStatusFields": [{"name": "_x", "path": ".a"}]}"#.to_owned(), "gatewayStatusFields[0].name: must not start with `_`"),
        (r#"{"gatewayStatusFields": [{"name": "x", "path": "a"}]}"#.to_owned(), "gatewayStatusFields[0].path: expected `.` or `[` at character 1"),
        (r#"{"policiesToSync": {}}"#.to_owned(), "policiesToSync: expected a list, found an object"),
        (r#"{"policiesToSync": [null]}"#.to_owned(), "policiesToSync[0]: expected an object, found null"),
        (r#"{"metadataToSkip": ["a", 1]}"#.to_owned(), "metadataToSkip[1]: expected a string, found 1"),
        (r#"{"resourcesToSync": [{"group": "", "version": "v1", "resource": ""}]}"#.to_owned(), "resourcesToSync[0].resource: must not be empty"),
        (r#"{"resourcesToSync": [{"version": "v1", "resource": "configmaps"}]}"#.to_owned(), "resourcesToSync[0]: group is required"),
        (r#"{"resourcesToSync": [{"group": "", "version": "v1", "resource": "pods/status"}]}"#.to_owned(), "resourcesToSync[0].resource: \"pods/status\" is not a lowercase name"),
        (r#"{"resourcesToSync": [{"group": "", "version": "v1", "resource": "configmaps", "placement": "All"}]}"#.to_owned(), "resourcesToSync[0].placement: \"All\" is not a lowercase name"),
        (r#"{"resourcesToSync": [{"group": "", "version": "v1", "resource": "configmaps", "placement": ""}]}"#.to_owned(), "resourcesToSync[0].placement: must not be empty"),
        (r#"{"resourcesToSync": [{"group": "", "version": "v1", "resource": "configmaps", "cluster": "a"}]}"#.to_owned(), "resourcesToSync[0].cluster: unknown key, expected one of group, version, resource, placement, statusFields"),
        (format!(r#"{{"resourcesToSync": [{kind}, {kind}]}}"#), "resourcesToSync[1]: g/v1 ps is listed twice"),
        (r#"{"policiesToSync": [{"gruop": "g", "version": "v1", "resource": "ps"}]}"#.to_owned(), "policiesToSync[0].gruop: unknown key, expected one of group, version, resource, statusFields, merge"),
        (format!(r#"{{"policiesToSync": [{kind}, {kind}]}}"#), "policiesToSync[1]: g/v1 ps is listed twice"),
        (r#"{"policiesToSync": [{"group": "g", "version": "v1", "resource": "ps", "statusFields": [{"name": "_x", "path": ".a"}]}]}"#.to_owned(), "policiesToSync[0].statusFields[0].name: must not start with `_`"),
        (r#"{"policiesToSync": [{"group": "g", "version": "v1", "resource": "ps", "statusFields": [{"name": "x", "path": "a"}]}]}"#.to_owned(), "policiesToSync[0].statusFields[0].path: expected `.` or `[` at character 1"),
    ] {
        let found = fault(&text);
        let exact = found == place || (place.contains("must not start") && found.starts_with(place));
        assert!(exact, "{text}: {found}");
    }
}

#[test]
fn faults_name_the_accepted_values() {
    for (key, takes, values) in [
        ("tlsSecrets", r#""none" or "copy""#, [r#""Copy""#, r#""both""#, r#"["copy"]"#, "1", "false"]),
        ("conflicts", r#""keep" or "overwrite""#, [r#""force""#, r#""Keep""#, r#"["keep"]"#, "1", "false"]),
        ("policyWaitAction", r#""hold" or "serve""#, [r#""wait""#, r#""Hold""#, r#"["hold"]"#, "0", "true"]),
        (
            "policyWaitSeconds",
            "a whole number from 0 to 4294967295",
            [r#""10""#, "4294967296", "-1", "1.5", "[10]"],
        ),
        ("metadataToSkip", "a list", [r#""team/*""#, "7", "true", "1.5", r#""x""#]),
    ] {
        for value in values {
            let shown = if value.starts_with('[') { "a list" } else { value };
            let says = format!("{key}: expected {takes}, found {shown}");
            assert_eq!(fault(&format!(r#"{{"{key}": {value}}}"#)), says);
        }
        let twice = format!(r#"{{"{key}": null, "{key}": null}}"#);
        assert_eq!(fault(&twice), format!("{key}: duplicate key"));
    }
}

#[test]
fn invalid_patterns_and_fields_are_reported_with_their_place() {
    for (patterns, says) in [
        ("[null]", "metadataToSkip[0]: expected a string, found null"),
        (r#"["a", ["b"]]"#, "metadataToSkip[1]: expected a string, found a list"),
        (r#"["a", {}]"#, "metadataToSkip[1]: expected a string, found an object"),
    ] {
        assert_eq!(fault(&format!(r#"{{"metadataToSkip": {patterns}}}"#)), says);
    }
    for (fields, says) in [
        ("{}", ": expected a list, found an object"),
        (r#"[".a"]"#, r#"[0]: expected an object, found ".a""#),
        (r#"[{"path": ".a"}]"#, "[0]: name is required"),
        (r#"[{"name": "a"}]"#, "[0]: path is required"),
        (r#"[{"name": "", "path": ".a"}]"#, "[0].name: must not be empty"),
        (r#"[{"name": "a", "jsonPath": ".a"}]"#, "[0].jsonPath: unknown key, expected one of name, path"),
    ] {
        assert_eq!(fault(&listing(&kind("g", fields))), format!("policiesToSync[0].statusFields{says}"));
    }
}

#[test]
fn more_than_100_kinds_are_rejected() {
    let kinds: Vec<String> =
        (0..101).map(|n| format!(r#"{{"group": "g", "version": "v1", "resource": "p{n}"}}"#)).collect();
    assert_eq!(
        fault(&format!(r#"{{"policiesToSync": [{}]}}"#, kinds.join(","))),
        "policiesToSync: has 101 kinds, at most 100 are allowed"
    );
}

#[test]
fn all_faults_are_reported() {
    let checked = Params::check(
        r#"{"conflicts": 1, "extra": null, "policiesToSync": [{"version": "v1"}, {"group": "g", "version": "v1",
            "resource": "ps", "statusFields": [{"name": "a", "path": true}, 7]}]}"#,
    );
    let faults: Vec<String> = checked.faults.iter().map(ToString::to_string).collect();
    let expected = [
        "extra: unknown key",
        "policiesToSync[0]: group is required",
        "policiesToSync[0]: resource is required",
        "policiesToSync[1].statusFields[0].path: expected a string, found true",
        "policiesToSync[1].statusFields[1]: expected an object, found 7",
        "conflicts: expected",
    ];
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.starts_with(expected), "{faults:#?}");
    }
    let checked = Params::check(
        r#"{"downstreamClass": "", "policiesToSync": [{"group": "G", "version": "", "resource": "ps"}]}"#,
    );
    assert_eq!(checked.faults.len(), 3, "{checked:#?}");
}

#[test]
fn null_values_have_their_defaults() {
    let text = r#"{"downstreamClass": null, "policiesToSync": null, "policyWaitSeconds": null}"#;
    assert_eq!(Params::parse(text), Ok(Params::default()));
}

#[test]
fn faults_quote_only_an_excerpt() {
    let long = "x".repeat(1_000_000);
    let field = format!(r#"{{"name": "{long}", "path": ".a"}}"#);
    for text in [
        format!(r#"{{"{long}": 1}}"#),
        format!(r#"{{"conflicts": "{long}"}}"#),
        format!(r#"{{"downstreamClass": {}"#, "[".repeat(1000)),
        listing(&format!(r#"{{"group": "{long}/", "version": "v1", "resource": "ps"}}"#)),
        listing(&[long.as_str(); 2].map(|group| kind(group, "[]")).join(",")),
        listing(&kind("g", &format!(r#"[{field}, {field}]"#))),
        listing(&kind("g", &format!(r#"[{{"name": "a", "path": ".a[{}]"}}]"#, "1".repeat(1_000_000)))),
    ] {
        assert!(fault(&text).len() < 300);
    }
}

fn listing(kinds: &str) -> String {
    format!(r#"{{"policiesToSync": [{kinds}]}}"#)
}

fn kind(group: &str, fields: &str) -> String {
    format!(r#"{{"group": "{group}", "version": "v1", "resource": "ps", "statusFields": {fields}}}"#)
}

#[test]
fn faults_are_one_line() {
    let odd = kind(r"a\n", "[]");
    for (text, expected) in [
        (r#"{"a\nb\u0000": 1}"#.to_owned(), r"a\nb\0: unknown key"),
        (r#"{"": 1}"#.to_owned(), r#""": unknown key"#),
        (r#"{"conflicts": "a\nb"}"#.to_owned(), r#"conflicts: expected "keep" or "overwrite", found "a\nb""#),
        (listing(&odd), r#"policiesToSync[0].group: "a\n" is not a lowercase name"#),
    ] {
        assert!(fault(&text).starts_with(expected), "{}", fault(&text));
    }
    let faults = Params::check(&listing(&[odd.as_str(); 2].join(","))).faults;
    assert_eq!(faults[2].to_string(), r"policiesToSync[1]: a\n/v1 ps is listed twice");
}

#[test]
fn names_that_could_change_a_request_path_are_rejected() {
    for name in [".", "..", "-", "a.", ".a", "-a", "a-"] {
        let expected = format!(r#"policiesToSync[0].group: "{name}" is not a lowercase name"#);
        assert_eq!(fault(&listing(&kind(name, "[]"))), expected);
    }
}

#[test]
fn old_name_gives_a_warning() {
    let checked = Params::check(r#"{"experimentalPolicySync": []}"#);
    assert!(checked.faults.is_empty());
    assert_eq!(checked.warnings[0].to_string(), "experimentalPolicySync: is an old name of policiesToSync");
    assert!(Params::check(r#"{"policiesToSync": []}"#).warnings.is_empty());
}

#[test]
fn merge_settings_are_parsed() {
    let params = |merge: &str| {
        Params::parse(&format!(
            r#"{{"policiesToSync": [{{"group": "g", "version": "v1", "resource": "ps", "merge": {merge}}}]}}"#
        ))
    };
    let merge = |text: &str| params(text).unwrap().policies_to_sync.remove(0).merge;
    let read = merge(r#"{"level": "listener", "rules": [".limits", ".rules['x\\.y']"]}"#).unwrap();
    assert_eq!(read.level, Level::Listener);
    let paths = [("limits", vec!["limits"]), ("rules['x\\.y']", vec!["rules", "x.y"])];
    let paths = paths.map(|(path, names)| (path.to_owned(), names.into_iter().map(str::to_owned).collect()));
    assert_eq!(read.rule_paths(), paths);
    assert!(merge(r#"{"level": "rule"}"#).unwrap().rules.is_empty());
    assert_eq!(merge("null"), None);
    let many: Vec<String> = (0..33).map(|index| format!("\".a{index}\"")).collect();
    for (text, fault) in [
        ("7", "merge: expected an object, found 7"),
        ("{}", "merge: level is required"),
        (
            r#"{"level": "service"}"#,
            r#"merge.level: expected "gateway", "listener", "route" or "rule", found "service""#,
        ),
        (r#"{"level": "rule", "rules": ".a"}"#, r#"merge.rules: expected a list, found ".a""#),
        (r#"{"level": "rule", "rules": [7]}"#, "merge.rules[0]: expected a string, found 7"),
        (r#"{"level": "rule", "rules": ["a"]}"#, "merge.rules[0]: expected `.` or `[` at character 1"),
        (
            r#"{"level": "rule", "rules": [".a[0]"]}"#,
            "merge.rules[0]: expected only names, found an index or a filter",
        ),
        (r#"{"level": "rule", "rules": [".b", ".a.c", ".a"]}"#, r#"merge.rules[2]: ".a" and ".a.c" overlap"#),
        (
            &format!(r#"{{"level": "rule", "rules": [{}]}}"#, many.join(",")),
            "merge.rules: has 33 paths, at most 32 are allowed",
        ),
        (
            r#"{"level": "rule", "strategy": "merge"}"#,
            "merge.strategy: unknown key, expected one of level, rules",
        ),
    ] {
        assert_eq!(params(text).unwrap_err().to_string(), format!("policiesToSync[0].{fault}"));
    }
}
