//! Tests that objects are frozen if they are too large or nested too deeply, or if the name of their namespace on
//! the spokes is too long or reserved.

use serde_json::json;

use crate::desired::work::SIZE_LIMIT;
use crate::testing::objects::{decision, gateway, gateway_origin, listing, placement, policy, target};
use crate::testing::world::{World, shop, world};
use policy_sync_api::names::Origin;

/// A Gateway and a policy in this namespace, both placed on `eu-1`.
fn in_namespace(namespace: &str) -> World {
    world()
        .class("multi", &listing(&["ratelimitpolicies"]))
        .kind("ratelimitpolicies", "RateLimitPolicy")
        .with(placement("all").in_ns(namespace).selects(1))
        .with(decision("all", "all-1", &["eu-1"]).in_ns(namespace))
        .with(gateway("web").in_ns(namespace).placed_on("all"))
        .with(policy("limits").in_ns(namespace).targets("web"))
}

fn problems(namespace: &str) -> Vec<String> {
    let world = in_namespace(namespace);
    let origins = [
        Origin::named("gateway.networking.k8s.io", "gateways", namespace, "web"),
        Origin::named("kuadrant.io", "ratelimitpolicies", namespace, "limits"),
    ];
    let problems = origins.map(|origin| {
        let plan = world.plan_of(&origin);
        let frozen = !world.outcomes_of(&origin).contains(&"eu-1".to_owned());
        assert_eq!(frozen, !plan.problems.is_empty());
        plan.problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    });
    assert_eq!(problems[0], problems[1]);
    problems[0].clone()
}

#[test]
fn a_downstream_namespace_has_at_most_63_characters() {
    assert_eq!(problems(&"n".repeat(54)), Vec::<String>::new());
    let name = "n".repeat(55);
    let fault =
        format!("namespace {name} maps to kuadrant-{name} on the spokes, which is longer than 63 characters");
    assert_eq!(problems(&name), [fault]);
}

#[test]
fn reserved_namespaces_are_never_written_to() {
    // Kuadrant's own namespaces start with the default prefix.
    for namespace in ["system", "operator", "operator-system"] {
        let says =
            format!("namespace {namespace} maps to kuadrant-{namespace} on the spokes, which is reserved");
        assert_eq!(problems(namespace), [says]);
    }
    assert_eq!(problems("systems"), Vec::<String>::new());
}

#[test]
fn reserved_namespaces_are_checked_with_any_prefix() {
    let mut world = in_namespace("public");
    let origin = Origin::named("kuadrant.io", "ratelimitpolicies", "public", "limits");
    for (prefix, reserved) in [("kube-", true), ("open-cluster-management", true), ("kub-", false)] {
        world.settings.downstream_namespace_prefix = prefix.into();
        assert_eq!(!world.plan_of(&origin).problems.is_empty(), reserved, "{prefix}");
    }
}

/// A policy whose work has this size in bytes.
fn sized(bytes: usize) -> World {
    let world = shop(&["eu-1"]).with(policy("limits").targets("web").spec("text", "".into()));
    let plan = world.plan("limits");
    let manifests = match plan.outcomes.values().next() {
        Some(crate::desired::Outcome::Work(work)) => work.spec().unwrap().workload.manifests.clone(),
        _ => panic!(),
    };
    let empty: usize = manifests.iter().map(|manifest| manifest.0.to_string().len()).sum();
    world.with(policy("limits").targets("web").spec("text", json!("x".repeat(bytes - empty))))
}

#[test]
fn work_is_limited_to_500_kib() {
    assert_eq!(sized(SIZE_LIMIT).outcomes("limits"), ["eu-1"]);
    let world = sized(SIZE_LIMIT + 1);
    assert_eq!(world.outcomes("limits"), ["eu-1 (keep)"]);
    assert_eq!(world.problems("limits"), ["its work would have 512001 bytes, at most 512000 are allowed"]);
}

#[test]
fn policy_that_grows_too_large_keeps_its_works() {
    let world = shop(&["eu-1"]).with(policy("limits").targets("web")).written();
    let huge = policy("limits").targets("web").spec("text", json!("x".repeat(SIZE_LIMIT)));
    let world = world.with(huge);
    assert_eq!(world.writes("limits"), Vec::<String>::new());
    let world = world.with(policy("limits").targets("web").spec("text", json!("y")));
    assert_eq!(world.writes("limits"), ["update eu-1"]);
}

#[test]
fn too_large_gateway_does_not_freeze_others() {
    let huge = gateway("web").placed_on("all").spec("text", json!("x".repeat(SIZE_LIMIT)));
    let world = shop(&["eu-1"]).with(huge).with(policy("limits").targets("web"));
    assert_eq!(world.outcomes_of(&gateway_origin("web")), ["eu-1 (keep)"]);
    assert_eq!(world.writes("limits"), ["create eu-1"]);
}

/// The policy `limits` and the Gateway `web`, whose specs change to this depth after they were written.
fn deep(levels: usize) -> World {
    let world = shop(&["eu-1"]).with(policy("limits").targets("web")).written();
    let lists = format!("{}1{}", "[".repeat(levels - 1), "]".repeat(levels - 1));
    let text = |name: &str, field: &str| {
        let labels = r#"{"cluster.open-cluster-management.io/placement": "all"}"#;
        format!(
            r#"{{"metadata": {{"name": "{name}", "namespace": "shop", "uid": "{name}-uid", "labels": {labels}}},
                "spec": {{{field}, "deep": {lists}}}}}"#
        )
    };
    let reference = format!(r#""targetRef": {}"#, target("web"));
    world.apply_text(&policy("limits").source, &text("limits", &reference));
    world.apply_text(&gateway("web").source, &text("web", r#""gatewayClassName": "multi""#));
    world
}

#[test]
fn deep_spec_is_read_back_unchanged() {
    let world = deep(100);
    assert_eq!(world.writes("limits"), ["update eu-1"]);
    assert_eq!(world.writes_of(&gateway_origin("web")), ["update eu-1"]);
    let world = world.written();
    assert_eq!(world.writes("limits"), Vec::<String>::new());
    assert_eq!(world.writes_of(&gateway_origin("web")), Vec::<String>::new());
}

#[test]
fn too_deep_spec_freezes() {
    for levels in [101, 127, 128, 10_000] {
        let world = deep(levels);
        assert_eq!(world.outcomes("limits"), ["eu-1 (keep)"], "{levels}");
        assert_eq!(world.outcomes_of(&gateway_origin("web")), ["eu-1 (keep)"], "{levels}");
        assert!(world.problems("limits")[0].starts_with("spec: "), "{:?}", world.problems("limits"));
    }
}
