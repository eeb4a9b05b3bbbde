//! Tests of freezing: unknown inputs freeze only the works that depend on them. A work is
//! still deleted if the known inputs show that no cluster requires it.

use crate::kinds::POLICIES;
use crate::rows::kind::Resolution;
use crate::testing::objects::{
    class, config_map, decision, gateway, gateway_origin, kind, listing, placement, policy, policy_of,
    policy_origin,
};
use crate::testing::world::{World, resolved, shop};
use policy_sync_api::names::{GroupVersionResource, Origin};

const NOTHING: [&str; 0] = [];

/// The policy `limits` is on `eu-1`. The Placement now selects `us-1`, too, but no work exists there.
fn growing() -> World {
    let world = shop(&["eu-1"]).with(policy("limits").targets("web")).written();
    world.decisions("all", &["eu-1", "us-1"]).after(60_000)
}

/// The hub of `growing` after a restart of the controller. Everything but the parameters and the policies has been read.
fn restarted() -> World {
    let objects = vec![
        class("multi"),
        gateway("web").placed_on("all"),
        placement("all").selects(2),
        decision("all", "all-1", &["eu-1", "us-1"]),
    ];
    growing().restarted(objects).after(60_000)
}

fn faults() -> [Resolution; 3] {
    [
        Resolution::UnknownVersion("the hub serves v2".into()),
        Resolution::NotAPolicy("it is cluster-scoped".into()),
        Resolution::Forbidden("the controller may not list it".into()),
    ]
}

#[test]
fn valid_policy_is_created_on_a_new_cluster() {
    assert_eq!(growing().writes("limits"), ["create us-1"]);
}

#[test]
fn invalid_parameters_freeze_works() {
    for params in ["nonsense", "{\"unknown\": 1}"] {
        let world = growing().params("multi", params);
        assert_eq!(world.writes("limits"), NOTHING, "{params}");
        assert_eq!(world.writes_of(&gateway_origin("web")), NOTHING, "{params}");
        assert!(world.problems("limits")[0].contains("GatewayClass multi has invalid parameters"));
    }
}

#[test]
fn deleted_parameters_freeze_works() {
    let world = growing().without(config_map("multi", ""));
    assert_eq!(world.writes("limits"), NOTHING);
    assert_eq!(world.writes_of(&gateway_origin("web")), NOTHING);
}

#[test]
fn downstream_class_of_this_controller_freezes_works() {
    let mut params = listing(&[]);
    params["downstreamClass"] = "multi".into();
    let world = growing().params("multi", &params.to_string());
    assert_eq!(world.writes("limits"), NOTHING);
    assert!(world.problems("limits")[0].contains("is itself a class of kuadrant.io/policy-sync"));
}

#[test]
fn invalid_parameters_do_not_prevent_withdrawal() {
    let invalid = || growing().params("multi", "nonsense");
    assert_eq!(invalid().without(policy("limits")).writes("limits"), ["delete eu-1"], "policy deleted");
    assert_eq!(invalid().with(policy("limits").targets("web").deleting()).writes("limits"), ["delete eu-1"]);
    assert_eq!(
        invalid().with(policy("limits").targets("other")).writes("limits"),
        ["delete eu-1"],
        "retargeted"
    );
    let theirs = class("multi").spec("controllerName", "example.com/other".into());
    for (world, what) in [
        (invalid().without(gateway("web")), "Gateway deleted"),
        (invalid().with(gateway("web")), "Gateway unplaced"),
        (invalid().without(class("multi")).after(60_000), "class deleted, and not made anew"),
        (invalid().decisions("all", &["us-1"]).after(5_000), "cluster left"),
        (invalid().with(theirs), "class is another's"),
    ] {
        assert_eq!(world.gateway_written().writes("limits"), ["delete eu-1"], "{what}");
    }
}

#[test]
fn valid_parameters_without_the_kind_withdraw_policies() {
    let world = growing().params("multi", "{}");
    assert_eq!(world.writes("limits"), ["delete eu-1"]);
    // The Gateway's work no longer reads the condition `kuadrant.io/RateLimitPolicyAffected`, because the kind is not
    // listed any more.
    assert_eq!(world.writes_of(&gateway_origin("web")), ["update eu-1", "create us-1"]);
}

#[test]
fn single_discovery_failure_changes_nothing() {
    let world = growing().resolution("ratelimitpolicies", Resolution::Unknown("timeout".into()));
    assert_eq!(world.writes("limits"), ["create us-1"]);
    assert_eq!(world.problems("limits"), NOTHING);
}

#[test]
fn unresolved_kind_freezes_its_policies() {
    for fault in faults() {
        let world = growing().resolution("ratelimitpolicies", fault.clone());
        assert_eq!(world.writes("limits"), NOTHING, "{fault:?}");
        assert_eq!(
            world.writes_of(&gateway_origin("web")),
            ["create us-1"],
            "{fault:?}: the Gateway goes on"
        );
        assert_eq!(
            world.problems("limits"),
            [format!("kuadrant.io/v1 ratelimitpolicies: {}", fault.fault())]
        );
    }
}

#[test]
fn unresolved_kind_does_not_prevent_withdrawal() {
    for fault in faults() {
        let frozen = || growing().resolution("ratelimitpolicies", fault.clone());
        assert_eq!(frozen().without(policy("limits")).writes("limits"), ["delete eu-1"]);
        assert_eq!(frozen().with(gateway("web")).gateway_written().writes("limits"), ["delete eu-1"]);
        assert_eq!(frozen().with(policy("limits").targets("other")).writes("limits"), ["delete eu-1"]);
        assert_eq!(frozen().params("multi", "{}").writes("limits"), ["delete eu-1"]);
    }
}

#[test]
fn deleted_definition_withdraws_its_policies() {
    let world = growing().resolution("ratelimitpolicies", Resolution::Gone);
    assert_eq!(world.writes("limits"), ["delete eu-1"]);
    let world = world.resolution("ratelimitpolicies", resolved("RateLimitPolicy"));
    assert_eq!(world.writes("limits"), NOTHING, "back, and its policies not listed yet");
}

/// A second class lists the kind in another version.
fn disagreeing() -> World {
    let second =
        r#"{"policiesToSync": [{"group": "kuadrant.io", "version": "v2", "resource": "ratelimitpolicies"}]}"#;
    growing().with(class("second")).params("second", second)
}

/// The world after the version that the second class lists was checked, with this result.
fn looked_up(mut world: World, resolution: Resolution) -> World {
    world.resolve("v2", "ratelimitpolicies", resolution);
    world
}

#[test]
fn oldest_class_decides_between_served_versions() {
    let served = || looked_up(disagreeing(), resolved("RateLimitPolicy"));
    assert_eq!(
        (served().writes("limits"), served().problems("limits")),
        (vec!["create us-1".into()], vec![])
    );
    assert_eq!(served().copy("limits", "eu-1")["apiVersion"], "kuadrant.io/v1");
    // Gateways of the second class do not get policies in a version that this class does not list.
    let api = || gateway("api").of_class("second").placed_on("all");
    let world = served().with(api()).with(policy("more").targets("api"));
    let fault = "kuadrant.io/v2 ratelimitpolicies: is synced in version v1, which GatewayClass multi lists: \
                 list the same version in all classes";
    assert_eq!((world.writes("more"), world.problems("more")), (vec![], vec![fault.to_owned()]));
    // The oldest class decides. Of several classes with the same age, the first by name decides.
    let created = |name: &str, at: &str| class(name).metadata("creationTimestamp", at.into());
    let older = served()
        .with(created("multi", "2026-01-02T00:00:00Z"))
        .with(created("second", "2026-01-01T00:00:00Z"))
        .with(api())
        .with(policy("more").targets("api"));
    assert_eq!(older.copy("more", "eu-1")["apiVersion"], "kuadrant.io/v2");
    assert_eq!(older.writes("limits"), NOTHING, "frozen where it is");
    assert!(
        older.problems("limits")[0].starts_with("kuadrant.io/v1 ratelimitpolicies: is synced in version v2")
    );
}

#[test]
fn version_that_is_not_served_does_not_block_others() {
    for fault in [Resolution::UnknownVersion("the hub serves v1".into()), Resolution::NotAPolicy("x".into())]
    {
        let created = |name: &str, at: &str| class(name).metadata("creationTimestamp", at.into());
        let world = disagreeing()
            .with(created("multi", "2026-01-02T00:00:00Z"))
            .with(created("second", "2026-01-01T00:00:00Z"));
        assert_eq!(world.writes("limits"), NOTHING, "until it is known");
        let world = looked_up(world, fault);
        assert_eq!((world.writes("limits"), world.problems("limits")), (vec!["create us-1".into()], vec![]));
        assert_eq!(world.without(policy("limits")).writes("limits"), ["delete eu-1"]);
    }
}

#[test]
fn policies_read_in_another_version_are_frozen() {
    let world = growing();
    let watched_version = |version: &str| {
        let gvr = GroupVersionResource::new("kuadrant.io", version, "ratelimitpolicies");
        world.change(crate::found::watched_version(&gvr));
        world.writes("limits")
    };
    assert_eq!(watched_version("v0"), NOTHING);
    assert_eq!(watched_version("v1"), ["create us-1"]);
}

#[test]
fn deleted_definition_removes_every_version() {
    let world = disagreeing().resolution("ratelimitpolicies", Resolution::Gone);
    assert_eq!(world.writes("limits"), ["delete eu-1"]);
}

#[test]
fn invalid_selector_freezes_but_does_not_prevent_withdrawal() {
    let bad = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "a in b");
    let world = growing().with(bad);
    assert_eq!(world.outcomes("limits"), ["eu-1 (keep)", "us-1 (keep)"]);
    assert_eq!(
        world.problems("limits"),
        ["annotation kuadrant.io/cluster-selector: not a label key in \"a in b\""]
    );
    assert_eq!(world.with(gateway("web")).gateway_written().writes("limits"), ["delete eu-1"]);
}

#[test]
fn invalid_references_freeze_but_do_not_prevent_withdrawal() {
    let nameless = serde_json::json!({"group": "gateway.networking.k8s.io", "kind": "Gateway"});
    for (spec, fault) in [
        (serde_json::json!("text"), "spec: expected an object, found a string"),
        (serde_json::json!({"targetRef": nameless}), "spec.targetRef.name: a Gateway's name is required"),
        (serde_json::json!({"targetRef": 5}), "spec.targetRef: expected an object, found a number"),
        (serde_json::json!({"targetRefs": {}}), "spec.targetRefs: expected a list, found an object"),
        (
            serde_json::json!({"targetRefs": [{"name": 1}]}),
            "spec.targetRefs[0]: invalid type: integer `1`, expected a string",
        ),
        (serde_json::json!({"targetRefs": [{}, null]}), "spec.targetRefs[1]: expected an object, found null"),
    ] {
        let world = growing().with(policy("limits").whole_spec(spec));
        assert_eq!(world.writes("limits"), NOTHING);
        assert_eq!(world.problems("limits"), [fault]);
        assert_eq!(world.with(gateway("web")).gateway_written().writes("limits"), ["delete eu-1"]);
    }
}

#[test]
fn invalid_parameters_of_another_class_have_no_effect() {
    let world = growing().with(class("second")).params("second", "nonsense");
    assert_eq!(world.writes("limits"), ["create us-1"]);
}

#[test]
fn gateway_of_invalid_class_that_never_listed_the_kind_is_no_target() {
    let world = shop(&["eu-1"])
        .with(class("second"))
        .params("second", "{}")
        .with(gateway("internal").of_class("second").placed_on("all"))
        .with(policy("limits").targets_all(&["web", "internal"]))
        .params("second", "nonsense");
    assert_eq!(world.writes("limits"), ["create eu-1"]);
}

#[test]
fn frozen_gateway_freezes_policies_only_on_its_clusters() {
    let world = shop(&["eu-1", "us-1"])
        .class("second", &listing(&["ratelimitpolicies"]))
        .decisions("few", &["us-1"])
        .with(gateway("internal").of_class("second").placed_on("few"))
        .with(policy("limits").targets_all(&["web", "internal"]))
        .params("second", "nonsense");
    assert_eq!(world.outcomes("limits"), ["eu-1", "us-1 (keep)"]);
}

#[test]
fn unread_parameters_freeze_after_a_restart() {
    let world = restarted();
    assert_eq!(world.writes("limits"), NOTHING);
    assert_eq!(world.writes_of(&gateway_origin("web")), NOTHING);
    assert!(world.plan("limits").problems.iter().all(crate::Problem::passes));
}

#[test]
fn invalid_parameters_after_a_restart_freeze_existing_works() {
    let world = restarted().params("multi", "nonsense");
    assert_eq!(world.outcomes("limits"), ["eu-1 (keep)"]);
    assert_eq!(world.outcomes_of(&gateway_origin("web")), ["eu-1 (keep)", "us-1 (keep)"]);
}

#[test]
fn works_are_withdrawn_after_a_restart_if_their_gateway_left() {
    let world = restarted().params("multi", "nonsense");
    assert_eq!(world.with(gateway("web")).gateway_written().writes("limits"), ["delete eu-1"]);
    let world = restarted().without(gateway("web")).gateway_written();
    assert_eq!(world.writes("limits"), ["delete eu-1"]);
    let world = restarted().without(class("multi"));
    assert_eq!(
        (world.writes("limits"), world.writes_of(&gateway_origin("web"))),
        (vec![], vec![]),
        "it may return"
    );
    assert_eq!(world.after(60_000).gateway_written().writes("limits"), ["delete eu-1"]);
}

#[test]
fn unlisted_policies_keep_their_works() {
    let world = restarted().params("multi", &listing(&["ratelimitpolicies"]).to_string());
    assert_eq!(world.writes("limits"), NOTHING, "kind not looked up yet");
    let mut world = world.resolution("ratelimitpolicies", resolved("RateLimitPolicy"));
    assert_eq!(world.writes("limits"), NOTHING, "looked up, not listed");
    world.list(&POLICIES.resource(kind("ratelimitpolicies")), &[]);
    assert_eq!(world.writes("limits"), ["delete eu-1"], "listed, and not there");
}

#[test]
fn partially_listed_kind_keeps_works() {
    let world = restarted().params("multi", &listing(&["ratelimitpolicies"]).to_string());
    let mut world = world.resolution("ratelimitpolicies", resolved("RateLimitPolicy"));
    let source = POLICIES.resource(kind("ratelimitpolicies"));
    world.mirror.begin_resync(&source);
    world.apply(&policy("another").targets("web"));
    assert_eq!(world.writes("limits"), NOTHING);
}

#[test]
fn kind_that_is_forbidden_after_a_restart_keeps_allowed_works() {
    let world = restarted().params("multi", &listing(&["ratelimitpolicies"]).to_string());
    let world = world.resolution("ratelimitpolicies", Resolution::Forbidden("no".into()));
    assert_eq!(world.writes("limits"), NOTHING);
    assert_eq!(world.with(gateway("web")).gateway_written().writes("limits"), ["delete eu-1"]);
}

#[test]
fn other_kinds_are_not_frozen() {
    let world = growing()
        .class("multi", &listing(&["ratelimitpolicies", "tokenpolicies"]))
        .kind("tokenpolicies", "TokenPolicy")
        .with(policy_of("tokenpolicies", "tokens").targets("web"))
        .resolution("ratelimitpolicies", Resolution::Forbidden("no".into()));
    let tokens = Origin::named("kuadrant.io", "tokenpolicies", "shop", "tokens");
    assert_eq!(world.writes_of(&tokens), ["create eu-1", "create us-1"]);
    assert_eq!(world.writes_of(&policy_origin("limits")), NOTHING);
}

#[test]
fn policy_without_a_known_target_reports_no_problem() {
    for (object, fault) in [
        (policy("theirs").targets("unknown"), Resolution::Forbidden("no".into())),
        (
            policy("theirs").targets("unknown").annotation("kuadrant.io/cluster-selector", "a in b"),
            resolved("RateLimitPolicy"),
        ),
    ] {
        let world = growing().with(object).resolution("ratelimitpolicies", fault);
        assert_eq!(world.problems("theirs"), NOTHING);
        assert!(!world.plan("theirs").targeted);
    }
}
