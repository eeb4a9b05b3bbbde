//! Tests of the planned watches of kinds that are not always watched.

use serde_json::json;

use crate::desired::covered::{ControllerScope, covered};
use crate::desired::watches;
use crate::rows::kind::Resolution;
use crate::testing::objects::{class, listing, policy};
use crate::testing::world::{World, shop, world};

fn watched(world: &World) -> Vec<String> {
    world.see(watches::plan).values().map(ToString::to_string).collect()
}

const PARAMS: &str = "v1 configmaps";

#[test]
fn classes_of_other_controllers_need_no_watches() {
    let theirs = class("theirs").spec("controllerName", "example.com/other".into());
    assert_eq!(watched(&world().with(theirs)), Vec::<String>::new());
}

#[test]
fn class_needs_its_config_map_and_the_listed_kinds() {
    assert_eq!(watched(&world().with(class("multi"))), [PARAMS]);
    assert_eq!(watched(&shop(&[])), [PARAMS, "kuadrant.io/v1 ratelimitpolicies"]);
}

#[test]
fn watches_are_the_union_of_all_classes() {
    let world = shop(&[]).class("second", &listing(&["ratelimitpolicies", "tokenpolicies"]));
    let kinds = ["kuadrant.io/v1 ratelimitpolicies", "kuadrant.io/v1 tokenpolicies"];
    assert_eq!(watched(&world), [PARAMS, PARAMS, kinds[0], kinds[1]]);
}

#[test]
fn synced_version_is_watched_and_the_other_is_discovered() {
    let v2 = json!({"policiesToSync": [{"group": "kuadrant.io", "version": "v2", "resource": "ratelimitpolicies"}]});
    let versions = ["kuadrant.io/v1 ratelimitpolicies", "kuadrant.io/v2 ratelimitpolicies"];
    let others =
        |world: &World| world.see(watches::others).iter().map(|(_, gvr)| gvr.to_string()).collect::<Vec<_>>();
    // Among classes of the same age, the first by name decides. The class that `shop` creates has the name `multi`.
    for (name, holds, other) in [("aaa", versions[1], versions[0]), ("zzz", versions[0], versions[1])] {
        let world = shop(&[]).class(name, &v2);
        assert_eq!(watched(&world), [PARAMS, PARAMS, holds], "{name}");
        assert_eq!(others(&world), [other], "{name}");
    }
    let world = shop(&[]).class("aaa", &v2);
    let world = world.resolution_of("v2", "ratelimitpolicies", Resolution::UnknownVersion("v1".into()));
    assert_eq!(watched(&world), [PARAMS, PARAMS, versions[0]], "it is not served");
    assert_eq!(others(&world), [versions[1]]);
    assert_eq!(others(&shop(&[])), Vec::<String>::new());
}

#[test]
fn kinds_stay_watched_while_parameters_are_invalid() {
    let world = shop(&[]).params("multi", "nonsense");
    assert_eq!(watched(&world), [PARAMS, "kuadrant.io/v1 ratelimitpolicies"]);
}

#[test]
fn unlisted_kind_is_watched_until_its_annotations_are_removed() {
    let annotated = policy("limits").annotation("kuadrant.io/policies-synced", "[]");
    let world = shop(&[]).with(annotated).params("multi", "{}");
    assert_eq!(watched(&world), [PARAMS, "kuadrant.io/v1 ratelimitpolicies"]);
    assert_eq!(watched(&world.with(policy("limits"))), [PARAMS]);
}

#[test]
fn annotations_of_another_controller_keep_no_watch() {
    let theirs = policy("limits").annotation("kuadrant.io/policies-synced", "[]").metadata(
        "managedFields",
        json!([{"manager": "policy-sync-other", "operation": "Apply", "fieldsV1":
            {"f:metadata": {"f:annotations": {"f:kuadrant.io/policies-synced": {}}}}}]),
    );
    assert_eq!(watched(&shop(&[]).with(theirs).params("multi", "{}")), [PARAMS]);
}

#[test]
fn secrets_and_grants_are_watched_only_while_a_class_copies_them() {
    let both = ["gateway.networking.k8s.io/v1beta1 referencegrants", "v1 secrets"];
    let world = shop(&[]).class("multi", &json!({"tlsSecrets": "copy"}));
    assert_eq!(watched(&world), [&[PARAMS], &both[..]].concat());
    let world = world.params("multi", "nonsense");
    assert_eq!(watched(&world), [&[PARAMS], &both[..]].concat(), "invalid is not empty");
    let world = world.class("second", &json!({"tlsSecrets": "none"}));
    assert_eq!(watched(&world).len(), 4, "one class is enough");
    let world = world.params("multi", r#"{"tlsSecrets": "none"}"#);
    assert_eq!(watched(&world), [PARAMS, PARAMS]);
    let theirs = class("multi").spec("controllerName", "example.com/other".into());
    let world = shop(&[]).class("multi", &json!({"tlsSecrets": "copy"})).with(theirs);
    assert_eq!(watched(&world), Vec::<String>::new());
}

#[test]
fn scope_is_the_classes_and_their_listed_kinds() {
    let seen = |world: &World| {
        let ControllerScope { classes, kinds, is_whole } = world.see(covered).unwrap();
        let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        (classes.iter().map(ToString::to_string).collect::<Vec<_>>(), kinds, is_whole)
    };
    let limits = "ratelimitpolicies.kuadrant.io".to_owned();
    let multi = "multi".to_owned();
    let theirs = class("theirs").spec("controllerName", "example.com/other".into());
    let world = shop(&[]).with(theirs);
    assert_eq!(seen(&world), (vec![multi.clone()], vec![limits.clone()], true));
    let invalid = world.params("multi", "nonsense");
    assert_eq!(seen(&invalid), (vec![multi.clone()], vec![limits.clone()], false), "invalid is not empty");
    let gone = shop(&[]).without(class("multi"));
    assert_eq!(seen(&gone), (vec![multi], vec![limits], true), "it may return");
    assert_eq!(seen(&gone.after(60_000)), (vec![], vec![], true));
}
