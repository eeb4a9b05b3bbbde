use super::*;

fn fault(text: &str) -> String {
    Params::parse(text).unwrap_err().to_string()
}

#[test]
fn defaults_are_those_of_the_contract() {
    assert_eq!(Params::parse("{}").unwrap(), Params::default());
    assert_eq!(Params::default().downstream_class, "istio");
}

#[test]
fn every_key_is_read() {
    let params = Params::parse(
        r#"{"downstreamClass": "nginx", "policiesToSync": [{"group": "kuadrant.io", "version": "v1",
            "resource": "authpolicies", "statusFields": [{"name": "generation", "path": ".status.observedGeneration"}]}],
            "tlsSecrets": "copy", "conflicts": "overwrite", "policyWaitSeconds": 3, "policyWaitAction": "serve",
            "metadataToSkip": ["team.example.com/*"]}"#,
    )
    .unwrap();
    assert_eq!(
        params.policies_to_sync[0].gvr(),
        GroupVersionResource::new("kuadrant.io", "v1", "authpolicies")
    );
    assert_eq!(params.conflicts, Conflicts::Overwrite);
    assert_eq!(params.policy_wait_seconds, 3);
}

#[test]
fn the_old_name_is_read_but_not_beside_the_new_one() {
    let old = r#"{"experimentalPolicySync": [{"group": "g", "version": "v1", "resource": "ps"}]}"#;
    assert_eq!(Params::parse(old).unwrap().policies_to_sync.len(), 1);
    assert_eq!(
        fault(r#"{"experimentalPolicySync": [], "policiesToSync": []}"#),
        "experimentalPolicySync: is an old name of policiesToSync: only one of them may be there"
    );
}

#[test]
fn a_fault_names_its_place() {
    let kind = r#"{"group": "g", "version": "v1", "resource": "ps"}"#;
    for (text, place) in [
        ("nonsense".to_owned(), "expected ident"),
        ("{} x".to_owned(), "trailing characters"),
        (r#"{"downstreamClass": ""}"#.to_owned(), "downstreamClass: must not be empty"),
        (r#"{"unknown": 1}"#.to_owned(), "unknown: unknown field `unknown`"),
        (r#"{"policiesToSync": [{"group": "g", "version": 2, "resource": "ps"}]}"#.to_owned(), "policiesToSync[0].version: invalid type: integer `2`, expected a string"),
        (r#"{"policiesToSync": [{"group": "g", "resource": "ps"}]}"#.to_owned(), "policiesToSync[0]: missing field `version`"),
        (r#"{"policiesToSync": [{"group": "", "version": "v1", "resource": "ps"}]}"#.to_owned(), "policiesToSync[0].group: must not be empty"),
        (r#"{"conflicts": "keep", "conflicts": "keep"}"#.to_owned(), "duplicate field `conflicts` at line 1"),
        (format!(r#"{{"policiesToSync": [{kind}, {kind}]}}"#), "policiesToSync[1]: g/v1 ps is listed twice"),
        (r#"{"policiesToSync": [{"group": "g", "version": "v1", "resource": "ps", "statusFields": [{"name": "_x", "path": ".a"}]}]}"#.to_owned(), "policiesToSync[0].statusFields[0].name: must not start with `_`"),
        (r#"{"policiesToSync": [{"group": "g", "version": "v1", "resource": "ps", "statusFields": [{"name": "x", "path": "a"}]}]}"#.to_owned(), "policiesToSync[0].statusFields[0].path: expected `.` or `[` at character 1"),
    ] {
        let found = fault(&text);
        assert!(found.starts_with(place), "{text}: {found}");
    }
}

#[test]
fn more_than_a_hundred_kinds_are_refused() {
    let kinds: Vec<String> =
        (0..101).map(|n| format!(r#"{{"group": "g", "version": "v1", "resource": "p{n}"}}"#)).collect();
    assert_eq!(
        fault(&format!(r#"{{"policiesToSync": [{}]}}"#, kinds.join(","))),
        "policiesToSync: has 101 kinds, at most 100 are allowed"
    );
}
