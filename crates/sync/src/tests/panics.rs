//! Tests that malformed objects never cause a panic.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::delete_guard::DeleteGuard;
use crate::desired::tests::idempotence::any_json;
use crate::desired::{access, watches};
use crate::status::class as classes;
use crate::testing::objects::{
    class, cluster, config_map, decision, gateway, gateway_origin, placement, policy, policy_origin, target,
};
use crate::testing::world::{World, shop};
use policy_sync_api::json::pointer;
use policy_sync_api::names::{ClusterName, ObjectKey};

/// Makes all plans for the hub of `world`.
fn plan_all(world: &World) {
    for origin in [policy_origin("limits"), gateway_origin("web")] {
        world.diff_of(&origin);
        world.see(|view| DeleteGuard::new(view, &origin).on(&"eu-1".into()));
    }
    world.fold("limits");
    world.see(|view| {
        drop(watches::plan(view));
        drop(classes::plan(view, &ObjectKey::new("", "multi")));
        drop(access::plan(view, &ClusterName::from("eu-1")));
    });
}

/// A spec with fields that plans read, with valid or invalid values.
fn any_spec() -> impl Strategy<Value = Value> {
    let field = prop::sample::select(vec![
        "targetRef",
        "targetRefs",
        "gatewayClassName",
        "listeners",
        "controllerName",
        "parametersRef",
        "workload",
        "manifestConfigs",
        "deleteOption",
        "conditions",
        "resourceStatus",
        "decisions",
        "numberOfSelectedClusters",
    ]);
    let value = prop_oneof![any_json(), Just(target("web")), Just(json!([target("web"), null]))];
    prop_oneof![
        any_json(),
        prop::collection::btree_map(field, value, 0..5).prop_map(|fields| Value::Object(
            fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
        )),
    ]
}

/// `value`, in which one value, chosen by `place`, is replaced by `with`.
fn broken(mut value: Value, place: usize, with: Value) -> Value {
    fn places(value: &Value, path: &str, all: &mut Vec<String>) {
        all.push(path.to_owned());
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, value)| {
                places(value, &pointer(path, key), all);
            }),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(n, value)| places(value, &format!("{path}/{n}"), all));
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    places(&value, "", &mut all);
    *value.pointer_mut(&all[place % all.len()]).unwrap() = with;
    value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn odd_specs_and_statuses_do_not_panic(spec in any_spec(), status in any_spec()) {
        let world = shop(&["eu-1"]).with(policy("limits").targets("web")).written();
        for object in [
            policy("limits"), gateway("web").placed_on("all"), class("multi"), cluster("eu-1"), placement("all"),
            decision("all", "all-1", &[]),
        ] {
            let odd = object.whole_spec(spec.clone()).status(status.clone());
            plan_all(&shop(&["eu-1"]).with(policy("limits").targets("web")).with(odd));
        }
        let world = world.edited(&policy_origin("limits"), "eu-1", |work| {
            work["spec"] = spec;
            work["status"] = status;
        });
        plan_all(&world);
    }

    #[test]
    fn odd_parameters_do_not_panic(params in any_spec(), text in ".{0,40}") {
        plan_all(&shop(&["eu-1"]).with(policy("limits").targets("web")).params("multi", &params.to_string()));
        plan_all(&shop(&["eu-1"]).with(policy("limits").targets("web")).params("multi", &text));
        let mut object = config_map("multi", "");
        object.json["data"] = params;
        plan_all(&shop(&["eu-1"]).with(policy("limits").targets("web")).with(object));
    }

    #[test]
    fn odd_annotations_do_not_panic(selector in ".{0,40}|[a-z,()!= in]{0,20}", note in ".{0,40}") {
        let limits = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", &selector).annotation(&note, &note).label(&note, &note);
        let world = shop(&["eu-1"]).with(limits).with(gateway("web").placed_on("all").annotation(&note, &selector).label(&note, &note));
        plan_all(&world.written());
    }

    #[test]
    fn work_with_a_broken_value_does_not_panic(place in any::<usize>(), with in any_json(), gateways in ".{0,40}") {
        let report = crate::testing::reports::applied().condition("Enforced", "True", "R", "m").integer("x", 1);
        let world = shop(&["eu-1"]).with(policy("limits").targets("web")).written().with_report("eu-1", &report);
        let world = world.edited(&policy_origin("limits"), "eu-1", |work| {
            work["spec"] = broken(work["spec"].take(), place, with.clone());
            work["status"] = broken(work["status"].take(), place, with);
            work["metadata"]["annotations"]["kuadrant.io/gateways"] = gateways.into();
        });
        plan_all(&world);
    }
}
