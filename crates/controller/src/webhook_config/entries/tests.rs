use super::*;
use crate::rego_loading::AdmissionKinds;
use crate::webhook_config::settings::{Authority, Url};

const USER: &str = "system:serviceaccount:ours:policy-sync";

fn settings() -> Settings {
    Settings {
        name: "policy-sync".to_owned(),
        namespace: "ours".to_owned(),
        url: Url::of_service("policy-sync-webhook", "ours"),
        failure_policy: FailurePolicy::Fail,
        exemptions: Exemptions::new(["kube-*", "ours", "policies"].map(str::to_owned)),
        policy_namespaces: BTreeSet::from(["policies".to_owned()]),
        authority: Authority::Own,
    }
}

fn controller() -> ControllerName {
    ControllerName::new("example.com/c")
}

fn covered(classes: &[&str], kinds: &[&str], is_whole: bool) -> ControllerScope {
    ControllerScope {
        classes: classes.iter().map(|class| (*class).into()).collect(),
        kinds: kinds.iter().map(|kind| GroupResource::new("kuadrant.io", kind)).collect(),
        is_whole,
    }
}

fn inputs() -> EntryInputs {
    EntryInputs {
        rego_usage: Some(RegoUsage { placement: true, carriers: true, admission: None }),
        covered: Some(covered(&["multi"], &["limits"], true)),
        user: Some(USER.to_owned()),
    }
}

fn ca_bundle() -> Result<Option<String>, String> {
    Ok(Some("ca".to_owned()))
}

fn planned(kind: ConfigurationKind, stored: &Configuration, inputs: &EntryInputs) -> Plan {
    plan(kind, stored, inputs, &ca_bundle(), &settings(), &controller())
}

/// The single entry planned for an empty configuration.
fn entry(kind: ConfigurationKind, inputs: &EntryInputs) -> Value {
    match planned(kind, &Configuration::default(), inputs) {
        Plan::Apply(mut entries) if entries.len() == 1 => entries.remove(0),
        plan => panic!("{plan:?}"),
    }
}

fn stored(entry: Value) -> Configuration {
    Configuration { uid: "u".to_owned(), entries: vec![(3, entry)], former: Vec::new() }
}

#[test]
fn placement_entry_has_covered_kinds_and_gateways_of_own_classes() {
    let entry = entry(ConfigurationKind::Mutating, &inputs());
    let suffix = entry_suffix(&controller());
    assert_eq!(entry["name"], format!("placement{suffix}"));
    assert_eq!(
        entry["clientConfig"],
        json!({"caBundle": STANDARD.encode("ca"), "service": {"name": "policy-sync-webhook", "namespace": "ours",
            "path": "/placement", "port": 443}})
    );
    let rules: Vec<String> = kinds_of_rules(&entry).iter().map(ToString::to_string).collect();
    assert_eq!(rules, ["gateways.gateway.networking.k8s.io", "limits.kuadrant.io"]);
    for rule in entry["rules"].as_array().unwrap() {
        assert_eq!(
            (&rule["operations"], &rule["apiVersions"]),
            (&json!(["CREATE", "UPDATE"]), &json!(["*"]))
        );
    }
    let names: Vec<&str> =
        entry["matchConditions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["not-released", "not-the-api-servers", "not-exempt", "not-ours", "gateways-of-ours"]);
    assert!(entry["matchConditions"][4]["expression"].as_str().unwrap().ends_with(r#"in ["multi"]"#));
    assert_eq!((&entry["failurePolicy"], &entry["reinvocationPolicy"]), (&json!("Fail"), &json!("IfNeeded")));
}

#[test]
fn policies_entry_covers_policy_namespaces_and_fails_open() {
    let entry = entry(ConfigurationKind::Validating, &inputs());
    assert_eq!(entry["failurePolicy"], "Ignore");
    let kinds: Vec<String> = kinds_of_rules(&entry).iter().map(ToString::to_string).collect();
    assert_eq!(kinds, ["configmaps", "regopolicies.policysync.kuadrant.io"]);
    assert_eq!(entry["namespaceSelector"]["matchExpressions"][0]["values"], json!(["policies"]));
    assert_eq!(entry.get("reinvocationPolicy"), None, "it may not have one");
}

#[test]
fn entries_as_planned_are_unchanged_and_edited_ones_replaced() {
    for kind in ConfigurationKind::ALL {
        let entry = entry(kind, &inputs());
        assert_eq!(planned(kind, &stored(entry.clone()), &inputs()), Plan::Nothing);
        for (field, value) in [
            ("failurePolicy", json!("Whatever")),
            ("matchConditions", json!([])),
            ("objectSelector", json!({"matchLabels": {"a": "b"}})),
            ("rules", json!([])),
            ("timeoutSeconds", json!(30)),
        ] {
            let mut edited = entry.clone();
            edited[field] = value;
            assert_eq!(
                planned(kind, &stored(edited), &inputs()),
                Plan::Replace(vec![(3, entry.clone())]),
                "{field}"
            );
        }
    }
}

#[test]
fn injected_ca_bundle_is_kept() {
    let plan = |stored: &Configuration, ca_bundle: &Result<Option<String>, String>| {
        plan(ConfigurationKind::Mutating, stored, &inputs(), ca_bundle, &settings(), &controller())
    };
    let Plan::Apply(entries) = plan(&Configuration::default(), &Ok(None)) else {
        panic!("nothing is applied")
    };
    assert_eq!(entries[0]["clientConfig"].get("caBundle"), None);
    let mut injected = entries[0].clone();
    injected["clientConfig"]["caBundle"] = "theirs".into();
    assert_eq!(plan(&stored(injected.clone()), &Ok(None)), Plan::Nothing);
    let mut edited = injected.clone();
    edited["failurePolicy"] = "Ignore".into();
    assert_eq!(plan(&stored(edited), &Ok(None)), Plan::Replace(vec![(3, injected.clone())]), "and stays");
    assert!(matches!(plan(&stored(injected), &ca_bundle()), Plan::Replace(_)), "ours is ours");
    assert_eq!(plan(&Configuration::default(), &Err("why".to_owned())), Plan::Wait("why".to_owned()));
}

#[test]
fn entries_are_removed_without_policies() {
    let nothing = EntryInputs { rego_usage: Some(RegoUsage::default()), ..EntryInputs::default() };
    for kind in ConfigurationKind::ALL {
        let existing = stored(entry(kind, &inputs()));
        let name = existing.entries[0].1["name"].as_str().unwrap().to_owned();
        assert_eq!(planned(kind, &existing, &nothing), Plan::Remove(vec![(3, name)]));
        assert_eq!(planned(kind, &Configuration::default(), &nothing), Plan::Nothing);
    }
    let carriers =
        EntryInputs { rego_usage: Some(RegoUsage { carriers: true, ..RegoUsage::default() }), ..inputs() };
    assert_eq!(planned(ConfigurationKind::Mutating, &Configuration::default(), &carriers), Plan::Nothing);
    assert!(matches!(
        planned(ConfigurationKind::Validating, &Configuration::default(), &carriers),
        Plan::Apply(_)
    ));
    let uncovered = EntryInputs { covered: Some(covered(&[], &[], true)), ..inputs() };
    let existing = stored(entry(ConfigurationKind::Mutating, &inputs()));
    assert!(
        matches!(planned(ConfigurationKind::Mutating, &existing, &uncovered), Plan::Remove(_)),
        "nothing is covered"
    );
}

#[test]
fn unknown_inputs_change_nothing() {
    for (unknown, what) in [
        (EntryInputs { rego_usage: None, ..inputs() }, "the Rego policies in use"),
        (EntryInputs { covered: None, ..inputs() }, "the kinds that GatewayClasses list"),
        (EntryInputs { user: None, ..inputs() }, "the user name of this controller"),
    ] {
        for existing in [Configuration::default(), stored(entry(ConfigurationKind::Mutating, &inputs()))] {
            let Plan::Wait(why) = planned(ConfigurationKind::Mutating, &existing, &unknown) else {
                panic!("{what}")
            };
            assert!(why.contains(what), "{why}");
        }
    }
}

#[test]
fn rules_only_grow_while_a_class_cannot_be_read() {
    let existing = stored(entry(ConfigurationKind::Mutating, &inputs()));
    let grown = |is_whole| {
        let inputs = EntryInputs { covered: Some(covered(&["multi"], &["routes"], is_whole)), ..inputs() };
        match planned(ConfigurationKind::Mutating, &existing, &inputs) {
            Plan::Replace(entries) => {
                kinds_of_rules(&entries[0].1).iter().map(|kind| kind.resource.to_string()).collect::<Vec<_>>()
            }
            plan => panic!("{plan:?}"),
        }
    };
    assert_eq!(grown(false), ["gateways", "limits", "routes"]);
    assert_eq!(grown(true), ["gateways", "routes"]);
}

#[test]
fn only_a_service_account_is_exempt_as_the_controller() {
    let conditions = |user: &str| {
        let inputs = EntryInputs { user: Some(user.to_owned()), ..inputs() };
        entry(ConfigurationKind::Mutating, &inputs)["matchConditions"].to_string()
    };
    assert!(conditions(USER).contains("not-ours"));
    assert!(!conditions("admin").contains("not-ours"), "others may be called so, too");
}

#[test]
fn entry_of_a_former_controller_name_is_removed_if_it_points_here() {
    let mut former = entry(ConfigurationKind::Mutating, &inputs());
    former["name"] = "placement-0123456789abcdef.policysync.kuadrant.io".into();
    let with = |former: Value| Configuration {
        former: vec![(0, former)],
        ..stored(entry(ConfigurationKind::Mutating, &inputs()))
    };
    let gone = Plan::Remove(vec![(0, "placement-0123456789abcdef.policysync.kuadrant.io".to_owned())]);
    assert_eq!(planned(ConfigurationKind::Mutating, &with(former.clone()), &inputs()), gone);
    former["clientConfig"]["service"]["name"] = "theirs".into();
    assert_eq!(
        planned(ConfigurationKind::Mutating, &with(former), &inputs()),
        Plan::Nothing,
        "it is another's"
    );
}

fn gating(admission_kinds: AdmissionKinds) -> EntryInputs {
    EntryInputs {
        rego_usage: Some(RegoUsage { admission: Some(admission_kinds), ..RegoUsage::default() }),
        ..inputs()
    }
}

fn pods() -> AdmissionKinds {
    AdmissionKinds {
        kinds: BTreeSet::from([GroupResource::new("", "pods")]),
        is_whole: true,
        ..AdmissionKinds::default()
    }
}

#[test]
fn both_configurations_have_an_admit_entry_for_denied_kinds() {
    for (kind, path) in
        [(ConfigurationKind::Mutating, "/admit"), (ConfigurationKind::Validating, "/admit/validating")]
    {
        let entry = entry(kind, &gating(pods()));
        assert_eq!(entry["name"], format!("admit{}", entry_suffix(&controller())));
        assert_eq!(entry["clientConfig"]["service"]["path"], path);
        assert_eq!(
            entry["rules"],
            json!([{"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"],
                "scope": "*"}])
        );
        assert_eq!(entry["failurePolicy"], "Fail");
        assert_eq!(entry.get("reinvocationPolicy").is_some(), kind == ConfigurationKind::Mutating, "{path}");
        assert_eq!(entry["namespaceSelector"], Exemptions::selector());
    }
}

#[test]
fn policies_without_a_kind_cover_all_but_essential_kinds() {
    let entry = entry(
        ConfigurationKind::Mutating,
        &gating(AdmissionKinds { any: true, is_whole: true, ..AdmissionKinds::default() }),
    );
    assert_eq!(
        (&entry["rules"][0]["apiGroups"], &entry["rules"][0]["resources"]),
        (&json!(["*"]), &json!(["*"]))
    );
    let conditions = entry["matchConditions"].as_array().unwrap();
    let expression = conditions.last().unwrap()["expression"].as_str().unwrap();
    for part in [
        r#"!(request.resource.group == "" && request.resource.resource == "nodes")"#,
        r#"!(request.resource.group == "coordination.k8s.io" && request.resource.resource == "leases")"#,
        r#"!(request.resource.group == "authorization.k8s.io")"#,
        r#"!(request.resource.group == "policysync.kuadrant.io")"#,
    ] {
        assert!(expression.contains(part), "{part} is missing in {expression}");
    }
}

#[test]
fn kinds_stay_covered_while_a_policy_is_unavailable() {
    let existing = stored(entry(ConfigurationKind::Mutating, &gating(pods())));
    let services = GroupResource::new("", "services");
    let grown = |is_whole| {
        let admission_kinds = AdmissionKinds {
            kinds: BTreeSet::from([services.clone()]),
            is_whole,
            ..AdmissionKinds::default()
        };
        match planned(ConfigurationKind::Mutating, &existing, &gating(admission_kinds)) {
            Plan::Replace(entries) => entries[0].1["rules"][0]["resources"].clone(),
            plan => panic!("{plan:?}"),
        }
    };
    assert_eq!(grown(false), json!(["pods", "services"]));
    assert_eq!(grown(true), json!(["services"]));
    let unknown = AdmissionKinds { kinds: BTreeSet::new(), is_whole: false, ..AdmissionKinds::default() };
    assert_eq!(planned(ConfigurationKind::Mutating, &existing, &gating(unknown)), Plan::Nothing);
    let unresolved = AdmissionKinds { unresolved: Some("quotas".to_owned()), ..pods() };
    let Plan::Wait(why) = planned(ConfigurationKind::Mutating, &existing, &gating(unresolved)) else {
        panic!("it does not wait")
    };
    assert!(why.contains("the kind of quotas"), "{why}");
}
