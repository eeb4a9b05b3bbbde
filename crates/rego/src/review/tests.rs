use std::collections::BTreeSet;

use regorus::{Engine, Value};
use serde_json::json;

use super::*;
use crate::fault::Position;
use crate::module::{ModuleId, Text, engine_for};
use crate::queries::QueriedPackages;

fn module(text: &str) -> Module {
    Module::parse(&Text { id: ModuleId::new("m"), text: text.into() }).unwrap()
}

fn edited(text: &str) -> String {
    edit(&module(text)).unwrap().text().to_string()
}

/// The edited `text` of package `admission`, without its first line.
fn edited_deny(text: &str) -> String {
    edited(&format!("package admission\n{text}")).replacen("package admission\n", "", 1)
}

const HEAD: &str = r#"{"id": "i", "resource": {"kind": "pods", "namespace": ns, "name": name}}"#;
const POLICY: &str =
    r#"{"policy": "m", "id": "i", "resource": {"kind": "pods", "namespace": ns, "name": name}}"#;

#[test]
fn deny_begins_with_a_match_of_its_resource() {
    for (before, after) in [
        // The syntax before version 1, and the syntax since version 1.
        (
            "deny[HEAD] { matches[[\"pods\", ns, name, pod]]; pod.bad }",
            "deny[POLICY] { [\"pods\", ns, name, _] = input.reviewed; [\"pods\", ns, name, pod] = input.reviewed; pod.bad }",
        ),
        (
            "import data.k8s.matches\ndeny contains HEAD if {\n  matches[[\"pods\", ns, name, pod]]\n  pod.bad\n}",
            "import data.k8s.matches\ndeny contains POLICY if { [\"pods\", ns, name, _] = input.reviewed;\n  \
             [\"pods\", ns, name, pod] = input.reviewed\n  pod.bad\n}",
        ),
        // A body without braces, and a rule without a body.
        (
            "deny contains HEAD if data.kubernetes.pods[ns][name]",
            "deny contains POLICY if { [\"pods\", ns, name, _] = input.reviewed; data.kubernetes.pods[ns][name] }",
        ),
        (
            "deny contains {\"resource\": {\"kind\": \"pods\", \"namespace\": \"a\", \"name\": \"b\"}}",
            "deny contains {\"policy\": \"m\", \"resource\": {\"kind\": \"pods\", \"namespace\": \"a\", \"name\": \"b\"}} \
             if { [\"pods\", \"a\", \"b\", _] = input.reviewed }",
        ),
        // A variable that the body declares.
        (
            "deny contains HEAD if { some ns, name; data.kubernetes.pods[ns][name].x }",
            "deny contains POLICY if { some ns, name; data.kubernetes.pods[ns][name].x ; \
             [\"pods\", ns, name, _] = input.reviewed }",
        ),
        // A head that has the field `policy` already, and that computes the namespace.
        (
            "deny contains {\"policy\": 1, \"resource\": {\"kind\": \"pods\", \"namespace\": lower(ns), \"name\": n}} if { \
             data.kubernetes.pods[ns][n] }",
            "deny contains {\"policy\": 1, \"resource\": {\"kind\": \"pods\", \"namespace\": lower(ns), \"name\": n}} if { \
             [\"pods\", _, n, _] = input.reviewed; data.kubernetes.pods[ns][n] }",
        ),
        (
            "deny contains {\"policy\": 1, \"resource\": {\"kind\": \"pods\", \"namespace\": lower(ns), \"name\": n}} if { \
             matches[[\"pods\", ns, n, o]] }",
            "deny contains {\"policy\": 1, \"resource\": {\"kind\": \"pods\", \"namespace\": lower(ns), \"name\": n}} if { \
             [\"pods\", _, n, _] = input.reviewed; o = data.kubernetes[\"pods\"][ns][n] }",
        ),
    ] {
        let text = before.replace("HEAD", HEAD);
        assert_eq!(edited_deny(&text), after.replace("POLICY", POLICY), "{text}");
    }
}

#[test]
fn other_matches_become_lookups() {
    for (before, after) in [
        ("p { matches[[\"pods\", ns, name, pod]] }", "p { pod = data.kubernetes[\"pods\"][ns][name] }"),
        ("p { matches[[\"pods\", _, _, _]] }", "p { data.kubernetes[\"pods\"][_][_] }"),
        (
            "p { not matches[[\"pods\", \"a\", \"b\", _]] }",
            "p { not data.kubernetes[\"pods\"][\"a\"][\"b\"] }",
        ),
        ("p { matches[[\"nodes\", \"\", name, node]] }", "p { node = data.kubernetes[\"nodes\"][name] }"),
        (
            "p { x := [n | matches[[\"pods\", \"a\", n, _]]] }",
            "p { x := [n | data.kubernetes[\"pods\"][\"a\"][n]] }",
        ),
        ("p { data.k8s.matches[[k, ns, n, o]] }", "p { o = data.kubernetes[k][ns][n] }"),
        (
            "import data.k8s.matches as m\np { m[[k, ns, n, o]] }",
            "import data.k8s.matches as m\np { o = data.kubernetes[k][ns][n] }",
        ),
        (
            "import data.k8s\np { k8s.matches[[k, ns, n, o]] }",
            "import data.k8s\np { o = data.kubernetes[k][ns][n] }",
        ),
        // Line numbers stay the same.
        ("p { matches[[k,\n ns,\n n, o]]\n  o.x }", "p { o = data.kubernetes[k][ns][n]\n\n\n  o.x }"),
        // A rule with the name `matches` in the module itself.
        (
            "matches[x] { x := 1 }\np { matches[[1, 2, 3, 4]] }",
            "matches[x] { x := 1 }\np { matches[[1, 2, 3, 4]] }",
        ),
    ] {
        assert_eq!(edited_deny(before), after);
    }
    let text = "package other\np { matches[[1, 2, 3, 4]] }";
    assert_eq!(edited(text), text, "which is not asked");
    let text = "package authorization\np { not matches[[\"pods\", ns, n, _]] }";
    assert_eq!(edited(text), "package authorization\np { not [\"pods\", ns, n, _] = input.reviewed }");
}

#[test]
fn other_uses_of_matches_are_rejected() {
    for (body, place) in [
        ("x := matches", "2:10"),
        ("matches[x]", "2:5"),
        ("count(matches) > 1", "2:11"),
        ("matches[[\"pods\", ns, name]]", "2:5"),
        ("matches[[\"pods\", ns, name, {\"a\": 1}]]", "2:5"),
        ("matches[[\"pods\", ns, name, pod]].spec", "2:5"),
        ("x := matches[[\"pods\", ns, name, pod]]", "2:10"),
        ("data.k8s.matches[[lower(\"PODS\"), ns, name, pod]]", "2:5"),
    ] {
        let faults = edit(&module(&format!("package admission\np {{ {body} }}"))).unwrap_err();
        let expected = format!(
            "m:{place}: matches can only be a statement of four variables or constants, \
             matches[[kind, namespace, name, object]]: read data.kubernetes instead"
        );
        assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected], "{body}");
    }
}

#[test]
fn places_are_mapped_to_the_original() {
    let text = "package admission\ndeny[{\"resource\": {\"kind\": \"pods\", \"namespace\": a, \"name\": b}}] {\n  \
                matches[[\"pods\",\n a, b, c]]; u := c[\"ü\"]\n  d := c\n}\n";
    let edited = edit(&module(text)).unwrap();
    let place_of = |text: &str, part: &str| {
        let before = &text[..text.find(part).unwrap()];
        let line = before.rsplit('\n').next().unwrap();
        let number = |count: usize| u32::try_from(count + 1).unwrap();
        Position { line: number(before.matches('\n').count()), column: number(line.chars().count()) }
    };
    for part in ["package", "deny", "{\"kind\"", "\"name\": b", "; u", "u := c", "ü\"]", "d := c", "}\n"] {
        assert_eq!(edited.original(place_of(edited.text(), part)), place_of(text, part), "{part}");
    }
    // Inserted text is mapped to the place of the insertion.
    assert_eq!(
        edited.original(place_of(edited.text(), "[\"pods\", a, b, _]")),
        place_of(text, "\n  matches")
    );
    assert_eq!(edited.original(place_of(edited.text(), "[\"pods\", a, b, c]")), place_of(text, "matches"));
}

#[test]
fn user_definition_of_matches_is_recognized() {
    let own = "package k8s\nmatches[[kind, namespace, name, object]] { object := data.kubernetes[kind][namespace][name] }";
    assert!(is_built_in(&module(own)));
    for other in
        ["package k8s", "package k8s\nmatches[x] { x := 1 }\nothers := 1", "package a\nmatches[x] { x := 1 }"]
    {
        assert!(!is_built_in(&module(other)), "{other}");
    }
}

/// The published definition of the set `data.k8s.matches`.
const PUBLISHED: &str = "package k8s
matches[[kind, namespace, name, object]] {
    some kind, namespace, name
    object := data.kubernetes[kind][namespace][name]
}";

fn hub() -> serde_json::Value {
    let pod = |policy: &str, images: &[&str]| {
        let containers: Vec<_> =
            images.iter().map(|image| json!({"image": image, "imagePullPolicy": policy})).collect();
        json!({"spec": {"containers": containers}, "metadata": {"labels": {"app": policy}}})
    };
    let ingress = |host: &str| json!({"spec": {"rules": [{"host": host}]}});
    json!({
        "pods": {
            "front-end": {"a": pod("Always", &["x"]), "b": pod("IfNotPresent", &["x", "y"])},
            "back-end": {"a": pod("Never", &["y"]), "c": pod("Always", &[])},
        },
        "ingresses": {
            "front-end": {"one": ingress("a.example.com"), "two": ingress("b.example.com")},
            "back-end": {"one": ingress("a.example.com"), "three": ingress("c.example.com")},
        },
        "services": {"front-end": {"lb": {"spec": {"type": "LoadBalancer"}}, "lb2": {"spec": {"type": "LoadBalancer"}}}},
    })
}

/// Modules, with the number of objects of [`hub`] that each denies.
const DENIALS: [(&str, usize); 8] = [
    // A published policy about one object.
    (
        "deny[{\"id\": \"pull\", \"resource\": {\"kind\": \"pods\", \"namespace\": ns, \"name\": n}}] {
            matches[[\"pods\", ns, n, pod]]
            pod.spec.containers[_].imagePullPolicy != \"Always\"
        }",
        2,
    ),
    // A join of two objects.
    (
        "import rego.v1
        deny contains {\"resource\": {\"kind\": \"ingresses\", \"namespace\": ns, \"name\": n}} if {
            matches[[\"ingresses\", ns, n, one]]
            matches[[\"ingresses\", other_ns, other, two]]
            ns != other_ns
            one.spec.rules[_].host == two.spec.rules[_].host
        }",
        2,
    ),
    // A quota that counts the object itself.
    (
        "import rego.v1
        deny contains {\"resource\": {\"kind\": \"services\", \"namespace\": ns, \"name\": n}} if {
            matches[[\"services\", ns, n, service]]
            service.spec.type == \"LoadBalancer\"
            count([x | matches[[\"services\", ns, x, other]]; other.spec.type == \"LoadBalancer\"]) > 1
        }",
        2,
    ),
    // A helper rule, and a negation.
    (
        "import rego.v1
        deny contains {\"resource\": {\"kind\": \"pods\", \"namespace\": ns, \"name\": n}} if {
            matches[[\"pods\", ns, n, _]]
            not is_pulled(ns, n)
        }
        is_pulled(ns, n) if {
            matches[[\"pods\", ns, n, pod]]
            every container in pod.spec.containers { container.imagePullPolicy == \"Always\" }
        }",
        2,
    ),
    // A body without braces.
    (
        "import rego.v1
        deny contains {\"resource\": {\"kind\": \"pods\", \"namespace\": ns, \"name\": n}} if matches[[\"pods\", ns, n, _]]",
        4,
    ),
    // No objects of another kind.
    (
        "import rego.v1
        deny contains {\"resource\": {\"kind\": \"pods\", \"namespace\": ns, \"name\": n}} if {
            matches[[\"pods\", ns, n, _]]
            not has_services(ns)
        }
        has_services(ns) if matches[[\"services\", ns, \"lb\", _]]",
        2,
    ),
    // A body that declares the head's variables.
    (
        "import rego.v1
        deny contains {\"resource\": {\"kind\": \"pods\", \"namespace\": ns, \"name\": n}} if {
            some ns, n
            matches[[\"pods\", ns, n, pod]]
            count(pod.spec.containers) == 0
        }",
        1,
    ),
    // A direct read of the objects under review.
    (
        "import rego.v1
        deny contains {\"resource\": {\"kind\": kind, \"namespace\": ns, \"name\": n}} if {
            some kind in {\"pods\", \"services\"}
            some ns, objects in data.kubernetes[kind]
            some n, _ in objects
            n != \"a\"
        }",
        4,
    ),
];

/// The denials of the object `reviewed`, without the fields that the edit adds.
fn denied(mut engine: Engine, reviewed: &serde_json::Value) -> BTreeSet<String> {
    engine.set_input(json!({"reviewed": reviewed}).into());
    let results = engine.eval_query("data.admission.deny".to_owned(), false).unwrap().result;
    let denied: serde_json::Value = serde_json::to_value(&results[0].expressions[0].value).unwrap();
    let elements = denied.as_array().unwrap().iter().cloned().map(|mut element| {
        element.as_object_mut().unwrap().remove("policy");
        element
    });
    let of_it = |element: &serde_json::Value| {
        let resource = &element["resource"];
        json!([resource["kind"], resource["namespace"], resource["name"]])
            == json!(reviewed.as_array().unwrap()[..3])
    };
    elements.filter(of_it).map(|element| element.to_string()).collect()
}

fn engine(texts: &[(Syntax, &str)]) -> Engine {
    let mut engine = engine_for(Syntax::V1);
    for (number, (syntax, text)) in texts.iter().enumerate() {
        engine.set_rego_v0(*syntax == Syntax::V0);
        engine.add_policy(number.to_string(), (*text).to_owned()).unwrap();
    }
    engine.set_strict_builtin_errors(false);
    engine.add_data(json!({"kubernetes": hub()}).into()).unwrap();
    engine
}

#[test]
fn edited_modules_deny_the_same_objects_as_published() {
    for (text, expected) in DENIALS {
        let imports = if text.contains("matches") { "import data.k8s.matches\n" } else { "" };
        let module = module(&format!("package admission\n{imports}{text}"));
        let published = engine(&[(Syntax::V0, PUBLISHED), (module.syntax, &module.text)]);
        let edited = engine(&[(module.syntax, edit(&module).unwrap().text())]);
        let mut all = 0;
        for (kind, namespaces) in hub().as_object().unwrap() {
            for (namespace, objects) in namespaces.as_object().unwrap() {
                for (name, object) in objects.as_object().unwrap() {
                    let reviewed = json!([kind, namespace, name, object]);
                    let denied = [&published, &edited].map(|engine| denied(engine.clone(), &reviewed));
                    assert_eq!(denied[0], denied[1], "{reviewed} by {text}");
                    all += denied[0].len();
                }
            }
        }
        assert_eq!(all, expected, "{text}");
    }
}

#[test]
fn constant_in_the_head_restricts_the_variable_of_the_body() {
    // With the published set, this policy denied a Pod of one namespace because of a Pod of the same name in another
    // namespace.
    let text = "package admission
        deny[{\"resource\": {\"kind\": \"pods\", \"namespace\": \"front-end\", \"name\": n}}] {
            matches[[\"pods\", ns, n, pod]]
            pod.spec.containers[_].imagePullPolicy != \"Always\"
        }";
    let module = module(text);
    let engine = engine(&[(module.syntax, edit(&module).unwrap().text())]);
    let denies = |namespace: &str, name: &str| {
        let reviewed = json!(["pods", namespace, name, hub()["pods"][namespace][name]]);
        denied(engine.clone(), &reviewed).len()
    };
    assert_eq!((denies("front-end", "a"), denies("front-end", "b")), (0, 1));
    assert_eq!((denies("back-end", "a"), denies("back-end", "c")), (0, 0));
}

#[test]
fn edited_deny_has_the_id_of_its_module() {
    let module = module(&format!("package admission\n{}", DENIALS[0].0));
    let mut engine = engine(&[(module.syntax, edit(&module).unwrap().text())]);
    let object = &hub()["pods"]["back-end"]["a"];
    engine.set_input(json!({"reviewed": ["pods", "back-end", "a", object]}).into());
    let results = engine.eval_query("data.admission.deny[_].policy".to_owned(), false).unwrap();
    assert_eq!(results.result[0].expressions[0].value, Value::from("m"));
}

#[test]
fn other_packages_can_be_queried() {
    let text = "package gates\ndeny[{\"id\": \"a\", \"resource\": {\"kind\": \"pods\", \"namespace\": ns, \"name\": name}}] {\n\
        matches[[\"pods\", ns, name, _]]\n}\n";
    let module = Module::parse(&Text { id: ModuleId::new("m"), text: text.into() }).unwrap();
    assert_eq!(DeniedKinds::of([&module].into_iter()), DeniedKinds::default());
    assert_eq!(&**edit(&module).unwrap().text(), text, "it is a library, with a rule of its own");
    let of = |placement, admission| {
        module.clone().with_purpose(&QueriedPackages::new(placement, admission).unwrap())
    };
    let admission = of("places", "gates");
    let denies = DeniedKinds { kinds: ["pods".to_owned()].into(), any: false };
    assert_eq!(DeniedKinds::of([&admission].into_iter()), denies);
    let edited = edit(&admission).unwrap();
    assert!(
        edited.text().contains("input.reviewed") && edited.text().contains("\"policy\""),
        "{}",
        edited.text()
    );
    // Placement policies may use matches, too, and deny nothing.
    let placement = of("gates", "admission");
    assert_eq!(DeniedKinds::of([&placement].into_iter()), DeniedKinds::default());
    let edited = edit(&placement).unwrap();
    assert!(edited.text().contains("data.kubernetes[\"pods\"]"), "{}", edited.text());
}
