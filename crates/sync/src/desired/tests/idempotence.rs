//! Tests that a written work equals its plan. A work that is read back has the defaults and number formats of the
//! server, but causes no further write.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::kinds::WORKS;
use crate::testing::objects::{gateway, gateway_origin, policy, policy_origin, target};
use crate::testing::world::shop;

/// Arbitrary JSON, with numbers at the limits of exact representation.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has none", |f| f.is_finite()).prop_map(Value::from),
        prop::sample::select(vec![
            json!(-0.0),
            json!(0.0),
            json!(1.0),
            json!(-1.0),
            json!(0.1),
            json!(1e300),
            json!(-1e300),
            json!(5e-324),
            json!(i64::MIN),
            json!(i64::MAX),
            json!(1_u64 << 63),
            json!((1_u64 << 63) + 1),
            json!(u64::MAX),
            json!(18_446_744_073_709_551_616.0),
            json!(-9_223_372_036_854_775_809.0),
            json!(9_007_199_254_740_993_i64),
        ]),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::btree_map(".{0,6}|name|namespace|targetRef|metadata", inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map(".{0,8}", any_json(), 0..6).prop_map(|fields| fields.into_iter().collect())
}

/// `value` as another server could serialize it: integers unchanged, other numbers with an exponent.
fn rewritten(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .rev()
                .map(|(key, value)| format!(" {} : {} ", json!(key), rewritten(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(rewritten).collect();
            format!("[ {} ]", items.join(", "))
        }
        Value::Number(number) if number.is_f64() => format!("{:e}", number.as_f64().unwrap()),
        other => other.to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn settled_hub_causes_no_writes(spec in any_object(), labels in prop::collection::btree_map("[a-z]{1,5}", ".{0,5}", 0..3)) {
        let mut limits = policy("limits").whole_spec(Value::Object(spec.clone())).targets("web");
        let mut web = gateway("web").whole_spec(Value::Object(spec)).of_class("multi").placed_on("all");
        for (key, value) in &labels {
            limits = limits.label(key, value).annotation(key, value);
            web = web.label(key, value);
        }
        limits.json["spec"].as_object_mut().unwrap().remove("targetRefs");
        let world = shop(&["eu-1"]).with(limits).with(web);
        prop_assert_eq!(world.outcomes("limits"), ["eu-1"]);
        let world = world.written();
        prop_assert_eq!(world.writes("limits"), Vec::<String>::new());

        // The order and format of the JSON do not matter.
        let source = WORKS.all();
        for (name, cluster) in world.work_names() {
            let work = world.work_text(&name, &cluster, rewritten);
            world.apply_text(&source, &work);
        }
        prop_assert_eq!(world.writes("limits"), Vec::<String>::new());
        prop_assert_eq!(world.writes_of(&gateway_origin("web")), Vec::<String>::new());
    }

    #[test]
    fn equal_specs_have_equal_revisions(spec in any_object()) {
        let revision = |text: &str| {
            let world = shop(&["eu-1"]);
            let text = format!(
                r#"{{"metadata": {{"name": "limits", "namespace": "shop"}}, "spec": {{"targetRef": {}, "x": {text}}}}}"#,
                target("web"),
            );
            world.apply_text(&policy("limits").source, &text);
            world.copy_of(&policy_origin("limits"), "eu-1")["metadata"]["annotations"]["kuadrant.io/revision"].clone()
        };
        let spec = Value::Object(spec);
        prop_assert_eq!(revision(&spec.to_string()), revision(&rewritten(&spec)));
    }
}
