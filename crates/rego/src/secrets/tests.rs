use super::*;
use crate::bundle;
use crate::module::Text;

/// Analyses `texts`, in which Secrets have these `names`.
fn of_texts(texts: &[Text], names: &BTreeSet<String>) -> SecretReads {
    let (modules, faults) = bundle::parsed(texts, &Default::default(), drop);
    let mut edited = Vec::new();
    let bundle = Bundle::of(modules, faults, |module| edited.extend(module.ok())).unwrap();
    SecretReads::of(&bundle, &edited, names)
}

fn reads(modules: &[&str]) -> SecretReads {
    let text = |(number, text): (usize, &&str)| Text {
        id: ModuleId::new(&format!("m{number}")),
        text: (*text).into(),
    };
    let texts: Vec<Text> = modules.iter().enumerate().map(text).collect();
    of_texts(&texts, &names(&BTreeMap::new()))
}

/// The result for a rule `deny` with this body, and these other rules.
fn of(body: &str, rules: &str) -> &'static str {
    let text =
        format!("package admission\nimport rego.v1\ndeny contains \"no\" if {{\n{body}\n}}\n{rules}\n");
    certainty(&reads(&[&text]))
}

fn certainty(reads: &SecretReads) -> &'static str {
    match (reads.certain.is_empty(), reads.possible.is_empty()) {
        (true, true) => "clean",
        (true, false) => "possible",
        (false, _) => "certain",
    }
}

#[test]
fn rules_for_secrets_that_read_contents_are_certain() {
    for body in [
        r#"input.request.kind.kind == "Secret"; sprintf("%v", [input.request.object.data])"#,
        r#""Secret" == input.request.kind.kind; input.request.oldObject.stringData.password"#,
        r#"input.request.kind.kind == "Secret"; sprintf("%v", [input.request.object])"#,
        r#"input.request.kind.kind == "Secret"; sprintf("%v", [input.request])"#,
        r#"input.request.kind.kind == "Secret"; sprintf("%v", [input])"#,
        r#"input.request.resource.resource == "secrets"; input.request.object["data"]"#,
        r#"input.request.object.kind == "Secret"; some field; input.request.object[field].password"#,
        r#"input.request.kind.kind == "Secret"; some value in input.request.object; value.password"#,
        r#"input.request.kind.kind == "Secret"; walk(input.request.object, [path, value]); value == "x""#,
        r#"input.request.kind.kind == "Secret"; walk(input, [_, "x"])"#,
        r#"input.request.kind.kind in {"Secret"}; object.get(input.request.object, "data", {})"#,
        r#"kind := input.request.kind.kind; kind == "Secret"; object := input.request.object; object.data"#,
        r#"object.data; kind == "Secret"; object := input.request.object; kind := object.kind"#,
        r#"["secrets", namespace, name, object] = input.reviewed; object.data.password"#,
        r#"input.reviewed[0] == "secrets"; count(input.reviewed[3]) > 4"#,
        r#"input.request.kind == {"group": "", "kind": "Secret", "version": "v1"}; input.request.object.data"#,
        r#"input.request.kind.kind == "Secret"; data.kubernetes[kind][namespace][name].data"#,
        r#"input.request.kind.kind == "Secret"; x := [o | o := input.request.object]; x[0].data"#,
        r#"input.request.kind.kind == "Secret"; input.request.object == {"a": 1}"#,
        r#"input.request.kind.kind == "Secret"; {"data": found} = input.request.object; found.password"#,
        r#"input.request.kind.kind == "Secret"; every _, value in input.request.object.data { value != "" }"#,
        r#"input.request.kind.kind == "Secret"; not input.request.object.data.password"#,
        r#"input.request.kind.kind == "Secret"; json.marshal(input.request.object)"#,
    ] {
        assert_eq!(of(body, ""), "certain", "{body}");
    }
}

#[test]
fn contents_are_tracked_through_rules_and_functions() {
    let secret = r#"input.request.kind.kind == "Secret"; "#;
    for (body, rules) in [
        ("has(input.request.object)", "has(object) if object.data.password"),
        ("has(input.request, \"object\")", "has(request, name) if request[name].data.password"),
        ("object.data.password", "object := input.request.object"),
        ("object(input).data", "object(review) := review.request.object"),
        ("bad", "bad if input.request.object.data.password == \"hunter2\""),
        ("not good", "good if { not bad }\nbad if input.request.object.data.password"),
        ("seen[\"data\"]", "seen[name] if { some name, _ in input.request.object }"),
        ("some object in objects; object.data", "objects contains input.request.object"),
        ("last(input.request.object, found); found.data", "last(object) := object"),
    ] {
        assert_eq!(of(&format!("{secret}{body}"), rules), "certain", "{body}");
        assert_eq!(of(body, rules), "possible", "{body}");
    }
    let library = "package lib\nimport rego.v1\nheld(object) := object.data";
    let policy = "package admission\nimport rego.v1\nimport data.lib\nimport input.request.object as secret\n\
                  deny contains \"no\" if count(lib.held(secret)) > 1";
    let found = reads(&[policy, library]);
    assert_eq!(found.advice().len(), 1, "{found:?}");
    assert_eq!(found.advice()[0].module, ModuleId::new("m1"), "in the library");
}

#[test]
fn rules_about_names_labels_and_types_are_clean() {
    for (body, rules) in [
        ("not input.request.object.metadata.labels.owner", ""),
        (
            "startswith(input.request.object.metadata.name, \"x\"); input.request.object.type == \"Opaque\"",
            "",
        ),
        ("some key, value in input.request.object.metadata.annotations; value == key", ""),
        ("input.request.oldObject == null; input.request.object.immutable", ""),
        ("is_object(input.request.object)", ""),
        ("input.request.object", ""),
        ("count(input.request.object.metadata.labels) > 1", ""),
        ("object.get(input.request.object.metadata, \"labels\", {}) == {}", ""),
        ("object.get(input.request.object, [\"metadata\", \"labels\"], {}) == {}", ""),
        ("labels(input.request.object).owner", "labels(object) := object.metadata.labels"),
        (
            "[kind, namespace, name, object] = input.reviewed; object.metadata.labels.x; kind; namespace; name",
            "",
        ),
        ("input.request.userInfo.username == \"a\"", ""),
        ("count(data.kubernetes.configmaps[input.request.namespace]) > 2", ""),
    ] {
        assert_eq!(of(body, rules), "clean", "{body}");
    }
    let matches = "package admission\nimport rego.v1\nimport data.k8s.matches\n\
                   deny contains {\"id\": \"a\", \"resource\": {\"kind\": kind, \"namespace\": ns, \"name\": n}} if {\n\
                   matches[[kind, ns, n, object]]\n not object.metadata.labels.owner }";
    assert_eq!(certainty(&reads(&[matches])), "clean");
    let data = matches.replace("not object.metadata.labels.owner", "object.data.x");
    assert_eq!(certainty(&reads(&[&data])), "possible");
    assert_eq!(certainty(&reads(&[&data.replace("kind\": kind", "kind\": \"secrets\"")])), "certain");
    assert_eq!(certainty(&reads(&[&data.replace("kind\": kind", "kind\": \"configmaps\"")])), "clean");
}

#[test]
fn guards_on_the_kind_exclude_secrets() {
    let data = "input.request.object.data.x";
    for (guard, rules) in [
        (r#"input.request.kind.kind == "ConfigMap""#, ""),
        (r#""ConfigMap" = input.request.kind.kind"#, ""),
        (r#"input.request.kind.kind != "Secret""#, ""),
        (r#"not input.request.kind.kind == "Secret""#, ""),
        (r#"input.request.kind.kind in {"ConfigMap", "Pod"}"#, ""),
        (r#"not input.request.kind.kind in ["Secret", "Pod"]"#, ""),
        (r#"input.request.kind.kind in kinds"#, "kinds := {\"ConfigMap\"}"),
        (r#"kinds[input.request.kind.kind]"#, "kinds := {\"ConfigMap\"}"),
        (r#"kind := input.request.kind.kind; kind == "ConfigMap""#, ""),
        (r#"input.request.object.kind == "ConfigMap""#, ""),
        (r#"input.request.resource.resource == "configmaps""#, ""),
        (r#"input.request.kind.group == "apps""#, ""),
        (r#"input.request.kind == {"group": "", "kind": "ConfigMap", "version": "v1"}"#, ""),
        (r#"input.reviewed[0] == "configmaps""#, ""),
        ("is_map", "is_map if input.request.kind.kind == \"ConfigMap\""),
        ("is_map", "default is_map := false\nis_map if input.request.kind.kind == \"ConfigMap\""),
        ("not is_secret", "is_secret if input.request.kind.kind == \"Secret\""),
        ("input.request.object.spec.replicas > 1", ""),
        ("some container in input.request.object.spec.containers; container.image", ""),
        ("named(input.request.object)", "named(object) if object.spec.name"),
    ] {
        assert_eq!(of(&format!("{guard}; {data}"), rules), "clean", "{guard}");
        assert_eq!(of(&format!("{data}; {guard}"), rules), "clean", "{guard} at the end");
    }
    for (guard, rules) in [
        ("input.request.operation == \"CREATE\"", ""),
        (r#"input.request.kind.kind in {"ConfigMap", "Secret"}"#, ""),
        (r#"input.request.kind.kind != "ConfigMap""#, ""),
        (r#"not input.request.kind.kind == "ConfigMap""#, ""),
        (r#"input.request.kind.group == """#, ""),
        ("is_map", "default is_map := true\nis_map if input.request.kind.kind == \"ConfigMap\""),
        (
            "is_map",
            "is_map if input.request.kind.kind == \"ConfigMap\"\nis_map if input.request.name == \"a\"",
        ),
        ("not is_map", "is_map if input.request.kind.kind == \"ConfigMap\""),
        (
            "not is_secret",
            "is_secret if { input.request.kind.kind == \"Secret\"; input.request.name == \"a\" }",
        ),
        ("count([1 | input.request.kind.kind == \"ConfigMap\"]) == 0", ""),
        ("not input.request.object.spec.replicas > 1", ""),
        ("object.get(input.request.object, \"spec\", {}) == {}", ""),
        ("x := input.request.kind.kind == \"ConfigMap\"; x == false", ""),
        ("input.request.kind.kind == \"ConfigMap\" with input as {}", ""),
    ] {
        assert_eq!(of(&format!("{guard}; {data}"), rules), "possible", "{guard}");
    }
}

#[test]
fn guards_of_comprehensions_apply_inside_only() {
    let guarded = "count([1 | input.request.kind.kind == \"ConfigMap\"; input.request.object.data.x]) == 1";
    assert_eq!(of(guarded, ""), "clean");
    assert_eq!(of("count([1 | input.request.object.data.x]) == 1", ""), "possible");
    let other = "count([1 | kind := input.request.kind.kind; kind == \"x\"]) == 0; kind == \"ConfigMap\"; \
                 some kind in input.request.object.metadata.labels; input.request.object.data.x";
    assert_eq!(of(other, ""), "possible", "another variable of that name");
}

#[test]
fn rules_that_deny_does_not_use_do_not_count() {
    let of_package = |package: &str| {
        let text = format!(
            "package {package}\nimport rego.v1\ndeny contains \"no\" if input.request.object.data.x\n"
        );
        certainty(&reads(&[&text]))
    };
    assert_eq!(of_package("admission"), "possible");
    assert_eq!(of_package("authorization"), "clean", "its input has no object");
    assert_eq!(of_package("other"), "clean");
    assert_eq!(of("input.request.name == \"a\"", "unused if input.request.object.data.x"), "clean");
    assert_eq!(
        of("input.request.name == \"a\"", "test_a if { deny with input as {\"request\": {}} }"),
        "clean"
    );
}

#[test]
fn example_policies_are_clean() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/rego/gates");
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "rego") {
            let text = std::fs::read_to_string(&path).unwrap();
            texts.push(Text { id: ModuleId::new(path.to_str().unwrap()), text: text.into() });
        }
    }
    assert!(texts.len() > 10);
    let found = of_texts(&texts, &names(&BTreeMap::new()));
    assert_eq!(found, SecretReads::default());
}

#[test]
fn aliases_are_names_of_secrets() {
    let aliases = BTreeMap::from([("passwords".to_owned(), "secrets".to_owned())]);
    let names = names(&aliases);
    let of = |text: &str| {
        let text = Text { id: ModuleId::new("m"), text: text.into() };
        certainty(&of_texts(&[text], &names))
    };
    let named =
        "package admission\ndeny[\"no\"] { input.reviewed[0] == \"passwords\"; input.reviewed[3].data }";
    assert_eq!(of(named), "certain");
    assert_eq!(of(&named.replace("passwords", "pods")), "clean");
}

#[test]
fn places_refer_to_the_original_text() {
    let text = "package admission\ndeny[{\"id\": \"a\", \"resource\": {\"kind\": \"secrets\", \"namespace\": ns, \"name\": n}}] {\n\
                matches[[\"secrets\", ns, n, secret]]; secret.data.x\n}\n";
    let found: Vec<String> = reads(&[text]).faults().iter().map(ToString::to_string).collect();
    assert_eq!(found, [format!("m0:3:38: {CERTAIN}")]);
}
