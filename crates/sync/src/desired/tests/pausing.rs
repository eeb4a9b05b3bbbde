//! Tests of `kuadrant.io/paused`: works are neither created nor changed, and are still deleted.

use crate::testing::objects::{
    class, cluster, deployment, deployment_origin, gateway, gateway_origin, policy,
};
use crate::testing::world::{World, shop};
use policy_sync_api::annotations::PAUSED;

const NOTHING: [&str; 0] = [];

/// The policy `limits` and its Gateway are on `eu-1`. Then `us-1` is selected, too, and the policy and the
/// Gateway change, so that their copies on `eu-1` need an update.
fn changing(limits: &str, web: &str) -> World {
    let policy = || policy("limits").targets("web");
    let world = shop(&["eu-1"]).with(policy()).written().decisions("all", &["eu-1", "us-1"]).after(60_000);
    let spec = serde_json::json!({"all": {"rates": []}});
    let world = world.with(policy().spec("limits", spec).annotation(PAUSED, limits));
    world.with(gateway("web").placed_on("all").label("changed", "yes").annotation(PAUSED, web))
}

#[test]
fn paused_policy_is_neither_created_nor_changed() {
    for paused in ["true", "yes"] {
        let world = changing(paused, "");
        assert_eq!(world.writes("limits"), NOTHING, "{paused}");
        assert_eq!(
            world.writes_of(&gateway_origin("web")),
            ["update eu-1", "create us-1"],
            "{paused}: the Gateway has waited long enough"
        );
    }
}

#[test]
fn resumed_policy_is_written_as_if_it_had_never_been_paused() {
    let never = changing("", "");
    for resumed in ["false", ""] {
        let world = changing("true", "true");
        let world = world.with(
            policy("limits")
                .targets("web")
                .spec("limits", serde_json::json!({"all": {"rates": []}}))
                .annotation(PAUSED, resumed),
        );
        assert_eq!(world.writes("limits"), never.writes("limits"), "{resumed}");
        assert_eq!(world.copy("limits", "eu-1"), never.copy("limits", "eu-1"), "{resumed}");
    }
}

#[test]
fn paused_gateway_pauses_no_policy() {
    let world = changing("", "true");
    assert_eq!(world.writes("limits"), ["update eu-1", "create us-1"]);
    assert_eq!(world.writes_of(&gateway_origin("web")), NOTHING);
}

#[test]
fn paused_class_pauses_gateways_and_policies() {
    let world = changing("", "").with(class("multi").annotation(PAUSED, "true"));
    assert_eq!(world.writes("limits"), NOTHING);
    assert_eq!(world.writes_of(&gateway_origin("web")), NOTHING);
    assert_eq!(
        world.problems("limits"),
        [
            "GatewayClass multi is paused: works are neither created nor changed while annotation kuadrant.io/paused is true"
        ]
    );
}

#[test]
fn paused_cluster_pauses_only_itself_and_causes_no_problem() {
    let world = changing("", "").with(cluster("eu-1").annotation(PAUSED, "true"));
    assert_eq!(world.writes("limits"), ["create us-1"]);
    assert_eq!(world.problems("limits"), NOTHING);
    let outcome =
        &world.plan("limits").outcomes[&policy_sync_api::names::ClusterName::parse("eu-1").unwrap()];
    assert_eq!(outcome.frozen(), Some("Paused"));
}

#[test]
fn paused_objects_are_still_withdrawn() {
    let world = changing("true", "true").decisions("all", &["us-1"]).after(60_000);
    assert_eq!(world.writes("limits"), NOTHING, "the Gateway is removed first");
    let world = world.after(3_600_000);
    assert_eq!(world.writes_of(&gateway_origin("web")), ["delete eu-1"]);
    let world = changing("true", "true").without(policy("limits"));
    assert_eq!(world.writes("limits"), ["delete eu-1"]);
}

#[test]
fn paused_resource_is_neither_created_nor_changed() {
    let placed = || deployment("web").placed_on("all");
    let world = shop(&["eu-1"]).with(placed()).written().decisions("all", &["eu-1", "us-1"]).after(60_000);
    let world = world.with(placed().spec("paused", true.into()).annotation(PAUSED, "true"));
    assert_eq!(world.writes_of(&deployment_origin("web")), NOTHING);
}

#[test]
fn invalid_annotation_is_reported_with_its_value() {
    assert_eq!(
        changing("ja", "").problems("limits"),
        [
            "it has annotation kuadrant.io/paused: expected true or false, found ja: works are neither created nor changed"
        ]
    );
}
