use super::*;
use crate::module::{ModuleId, Text};

fn reads(text: &str) -> (Vec<String>, Vec<String>) {
    let module = Module::parse(&Text { id: ModuleId::new("m"), text: text.into() }).unwrap();
    let reads = KindReads::of(&module);
    let place = |place: &Position| format!("{}:{}", place.line, place.column);
    (reads.kinds.into_keys().collect(), reads.any.iter().map(place).collect())
}

#[test]
fn kinds_are_the_constants_after_data_kubernetes() {
    for text in [
        "p { data.kubernetes.pods }",
        "p { data.kubernetes[\"pods\"][ns][n] }",
        "p { data[\"kubernetes\"].pods[ns] }",
        "import data.kubernetes\np { kubernetes.pods[ns] }",
        "import data.kubernetes as k\np { k[\"pods\"][ns] }",
        "import data.kubernetes.pods\np { pods[ns][n].spec }",
        "import data.kubernetes.pods as all\np { all[ns] }",
        "p[x] { x := [y | y := data.kubernetes.pods[_]] }",
        "p { input.x[data.kubernetes.pods.a.b] }",
        "p { count(data.kubernetes.pods) > 1 }",
        "f(x) = data.kubernetes.pods[x] { x }",
        "p { input.x with input.y as data.kubernetes.pods }",
        "p { q } else = data.kubernetes.pods { r }\nq = 1\nr = 1",
        "default p = {\"a\": 1}\nq { matches[[\"pods\", ns, n, o]] }",
        "p { not matches[[\"pods\", \"a\", \"b\", _]] }",
        "p { x := [n | data.k8s.matches[[\"pods\", ns, n, o]]] }",
    ] {
        assert_eq!(reads(&format!("package admission\n{text}")), (vec!["pods".to_owned()], vec![]), "{text}");
    }
    let text = "package a\np { data.kubernetes[\"gateways.networking.istio.io\"]; data.kubernetes.clusters; data.settings.pods }";
    let kinds = ["clusters", "gateways.networking.istio.io"].map(str::to_owned).to_vec();
    assert_eq!(reads(text), (kinds, vec![]));
}

#[test]
fn kinds_that_are_not_constant_are_reported_with_their_place() {
    for (text, place) in [
        ("p { data.kubernetes[k] }", "2:5"),
        ("p { data.kubernetes[input.kind][ns] }", "2:5"),
        ("p { x := data.kubernetes }", "2:10"),
        ("p { x := data }", "2:10"),
        ("p { data[x][y] }", "2:5"),
        ("p { matches[[k, ns, n, o]] }", "2:14"),
        ("p { f(data.kubernetes) }\nf(x) = x", "2:7"),
    ] {
        assert_eq!(reads(&format!("package admission\n{text}")), (vec![], vec![place.to_owned()]), "{text}");
    }
}

#[test]
fn matches_in_authorization_policies_reads_no_objects() {
    let text = "package authorization\np { matches[[\"secrets\", ns, n, review]]; data.kubernetes.pods[ns] }\nq { matches[[kind, ns, n, _]] }";
    assert_eq!(reads(text), (vec!["pods".to_owned()], vec![]));
    assert_eq!(reads(&text.replace("authorization", "admission")).0, ["pods", "secrets"]);
}
