use super::*;
use crate::module::{ModuleId, Text};

fn rendered(texts: &[&str]) -> Vec<String> {
    let parse = |(number, text): (usize, &&str)| {
        let text = Text { id: ModuleId::new(&format!("{}", number + 1)), text: (*text).into() };
        LoadedModule::of(&Module::parse(&text).unwrap()).unwrap().0
    };
    let modules: Vec<LoadedModule> = texts.iter().enumerate().map(parse).collect();
    advice(&modules.iter().collect::<Vec<_>>()).iter().map(ToString::to_string).collect()
}

#[test]
fn unused_package_is_reported() {
    let library = "package lib.a\nf(x) := x";
    assert_eq!(rendered(&[library]), ["1:1:9: package lib.a is neither evaluated nor imported"]);
    for user in [
        "package admission\nimport data.lib.a\np := a.f(1)",
        "package admission\nimport data.lib\np := lib.a.f(1)",
        "package admission\np := data.lib.a.f(1)",
        "package admission\np if data.lib",
        "package admission\nimport data.lib.a.f\np := f(1)",
    ] {
        assert_eq!(rendered(&[library, user]), [""; 0], "{user}");
    }
    for other in
        ["package admission\nlib := 1\np := lib", "package lib.b\np := 1", "package lib.a\nq := f(1)"]
    {
        let rendered = rendered(&[library, other]);
        assert!(
            rendered.contains(&"1:1:9: package lib.a is neither evaluated nor imported".to_owned()),
            "{other}: {rendered:?}"
        );
    }
    for queried in ["io.k8s.federation.admission", "admission", "authorization"] {
        assert_eq!(rendered(&[&format!("package {queried}\np := 1")]), [""; 0]);
    }
    assert_eq!(rendered(&["package lib_test\ntest_f if true"]), [""; 0]);
}

#[test]
fn id_shared_by_two_modules_is_reported() {
    let deny = "package admission\ndeny[{\"id\": \"pull\", \"resource\": {\"kind\": \"pods\", \"namespace\": \"a\", \"name\": \"b\"}}]";
    assert_eq!(rendered(&[deny, deny]), ["2:2:14: 1 has the same id \"pull\""]);
    assert_eq!(rendered(&[deny, &deny.replace("\"pull\"", "\"other\"")]), [""; 0]);
    assert_eq!(rendered(&[&format!("{deny}\n{}", deny.replace("package admission\n", ""))]), [""; 0]);
}

#[test]
fn reads_of_contents_in_works_are_reported() {
    let expected = |place: &str| {
        format!(
            "1:{place}: Secrets in the manifests of works are reviewed without data and stringData: rules on these fields have no effect"
        )
    };
    for (rule, place) in [
        ("p if input.request.object.spec.workload.manifests[_].data.password", "2:6"),
        (
            "p if { some m in data.kubernetes.manifestworks.a.b.spec.workload.manifests; m[\"stringData\"] }",
            "2:18",
        ),
    ] {
        assert_eq!(rendered(&[&format!("package admission\n{rule}")]), [expected(place)], "{rule}");
    }
    for rule in [
        "p if input.request.object.spec.workload.manifests[_].kind == \"Secret\"",
        "p if input.request.object.data.password",
        "p if data.kubernetes.manifestworks.a.b.spec.workload.manifests[_].spec",
    ] {
        assert_eq!(rendered(&[&format!("package admission\n{rule}")]), [""; 0], "{rule}");
    }
}

#[test]
fn kind_spelled_as_in_manifests_is_reported() {
    for (rule, expected) in [
        ("p if data.kubernetes.Pod", "1:2:6: \"Pod\": use the plural: pods"),
        ("p if data.kubernetes[\"Ingress\"]", "1:2:6: \"Ingress\": use the plural: ingresses"),
        (
            "p if matches[[\"NetworkPolicy\", a, b, c]]",
            "1:2:16: \"NetworkPolicy\": use the plural: networkpolicies",
        ),
        ("p if data.kubernetes.Gateway", "1:2:6: \"Gateway\": use the plural: gateways"),
        (
            "deny contains {\"resource\": {\"kind\": \"Pod\", \"namespace\": \"a\", \"name\": \"b\"}}",
            "1:2:38: \"Pod\": use the plural: pods",
        ),
        ("p if data.kubernetes.pods", ""),
        ("p if data.kubernetes[\"gateways.networking.istio.io\"]", ""),
    ] {
        let expected = if expected.is_empty() { vec![] } else { vec![expected.to_owned()] };
        assert_eq!(rendered(&[&format!("package admission\n{rule}")]), expected, "{rule}");
    }
}
