use serde_json::json;

use super::*;

fn carrier_contents(object: &Value) -> Option<CarrierContents> {
    CarrierContents::from_object(&serde_json::from_value(object.clone()).unwrap())
}

fn ids(carried: &CarrierContents) -> Vec<&str> {
    carried.texts.iter().map(|text| text.id.as_str()).collect()
}

fn config_map(labels: Value, data: Value) -> Value {
    let metadata = json!({"name": "pci", "namespace": "policies", "labels": labels});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

#[test]
fn each_key_of_a_labelled_config_map_is_a_module() {
    let object = config_map(
        json!({"openpolicyagent.org/policy": "rego"}),
        json!({"main": "package a", "b.rego": "package b"}),
    );
    let carried = carrier_contents(&object).unwrap();
    assert_eq!(ids(&carried), ["policies/pci/b.rego", "policies/pci/main"]);
    assert_eq!(&*carried.texts[1].text, "package a");
}

#[test]
fn without_the_label_keys_with_the_suffix_are_modules() {
    for labels in [json!({}), json!({"openpolicyagent.org/policy": "no"})] {
        let object = config_map(labels, json!({"readme": "…", "b.rego": "package b"}));
        assert_eq!(ids(&carrier_contents(&object).unwrap()), ["policies/pci/b.rego"]);
    }
    assert_eq!(carrier_contents(&config_map(json!({}), json!({"readme": "…"}))), None);
}

#[test]
fn data_is_json_by_namespace_name_and_key() {
    let labels = json!({"openpolicyagent.org/data": "opa"});
    let carried = carrier_contents(&config_map(labels, json!({"zones": "[\"eu\"]", "bad": "{"}))).unwrap();
    assert_eq!(carried.data[&["policies", "pci", "zones"].map(str::to_owned)], json!(["eu"]).into());
    let faults: Vec<String> = carried.faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults, ["policies/pci/bad: not JSON: EOF while parsing an object at line 1 column 1"]);
}

#[test]
fn rego_policy_carries_one_module() {
    let policy = |spec: Value| {
        let version = "policysync.kuadrant.io/v1alpha1";
        carrier_contents(
            &json!({"apiVersion": version, "kind": "RegoPolicy", "metadata": {"name": "pci"}, "spec": spec}),
        )
        .unwrap()
    };
    assert_eq!(ids(&policy(json!({"rego": "package a"}))), ["regopolicies/pci"]);
    for (spec, expected) in [
        (json!({}), "regopolicies/pci: spec.rego is required"),
        (json!({"rego": 1}), "regopolicies/pci: spec.rego: expected a string"),
    ] {
        let carried = policy(spec);
        assert!(
            ids(&carried) == ["regopolicies/pci"] && carried.faults[0].to_string() == expected,
            "{carried:?}"
        );
    }
}

#[test]
fn objects_of_other_kinds_carry_no_policies() {
    for object in [
        json!({}),
        json!({"apiVersion": "v1", "kind": "Secret", "data": {"a.rego": "x"}}),
        json!({"apiVersion": "example.com/v1", "kind": "RegoPolicy", "spec": {"rego": "package a"}}),
    ] {
        assert_eq!(carrier_contents(&object), None, "{object}");
    }
}

#[test]
fn binary_values_are_unreadable_modules() {
    let mut object = config_map(json!({}), json!({"a.rego": "package a"}));
    object["binaryData"] = json!({"b.rego": "AA==", "logo.png": "AA=="});
    let carried = carrier_contents(&object).unwrap();
    assert_eq!(ids(&carried), ["policies/pci/b.rego", "policies/pci/a.rego"]);
    let fault = |key: &str| carried.fault_of(&ModuleId::new(&format!("policies/pci/{key}")));
    assert_eq!(fault("b.rego").unwrap().text, "is binary: expected text");
    assert_eq!((fault("a.rego"), fault("logo.png")), (None, None));
}
