//! What is decided, told over a [`world::World`] that goes through the mirror as the hub's own objects do.

mod counting;
mod panics;
pub(crate) mod problems;
mod reference;
mod spokes;

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::json;

use super::kinds::{DECISIONS, POLICIES, WORKS};
use super::rows::kind::{KindInfo, Resolution};
use super::*;
use crate::testing::answers::applied;
use crate::testing::objects::{
    class, cluster, gateway, gateway_origin, limits, placement, policy, policy_origin,
};
use crate::testing::world::{World, shop, world};
use crate::triggers::tests::{access, fold, hub, told};
use crate::{Key, Keys};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::schema::Schema;
use policy_sync_mirror::{Change, Failure};

#[test]
fn what_a_cluster_carries_is_counted() {
    let origins = [policy_origin("limits"), policy_origin("other"), gateway_origin("web")];
    let world = hub().with(policy("other").targets("web")).settled(&origins);
    let carried = |world: &World| world.see(|view| view.carried(&"eu-1".into()));
    let both = [GroupResource::gateways(), limits()];
    assert_eq!(carried(&world), both.clone().into());
    let world = world.gone(&origins[0], "eu-1");
    assert_eq!(carried(&world), both.into(), "one is left");
    let world = world.gone(&origins[1], "eu-1");
    assert_eq!(carried(&world), [GroupResource::gateways()].into());
    let world = world.gone(&origins[2], "eu-1");
    assert_eq!(carried(&world), [].into());
}

#[test]
fn a_listing_takes_out_what_it_does_not_bring() {
    let mut world = shop(&["eu-1"]).with(policy("a").targets("web")).with(policy("b").targets("web"));
    let keys = world.list(&POLICIES.resource(limits()), &[policy("b").targets("web"), policy("c")]);
    let affected = |name: &str| keys.contains(&Key::Works(policy_origin(name)));
    assert!(affected("a") && !affected("b") && affected("c"));
    assert_eq!(world.see(|view| view.policies_of(&limits()).count()), 2);
}

#[test]
fn a_listing_that_fails_takes_nothing_out() {
    let mut world = hub();
    world.mirror.begin_resync(&POLICIES.resource(limits()));
    world.apply(&policy("another"));
    assert!(world.see(|view| view.policy(&policy_origin("limits")).is_some()));
    world.list(&POLICIES.resource(limits()), &[policy("limits")]);
    assert!(world.see(|view| view.policy(&policy_origin("another")).is_none()), "the next one does");
}

#[test]
fn works_that_a_listing_does_not_bring_are_gone_from_every_index() {
    let mut world = hub();
    let keys = world.list(&WORKS.all(), &[]);
    assert!(keys.contains(&Key::Works(policy_origin("limits"))) && keys.contains(&access()));
    assert_eq!(world.see(|view| view.works_of(&policy_origin("limits")).count()), 0);
    assert_eq!(world.see(|view| view.carried(&"eu-1".into())), [].into());
}

#[test]
fn decisions_listed_again_unchanged_do_not_unsettle() {
    let world = hub();
    let settles = |world: &World| world.see(|view| view.placement_settles(&ObjectKey::new("shop", "all")));
    let before = settles(&world);
    let slice = |cluster: &str| {
        json!({"metadata": {"name": "all-1", "namespace": "shop", "resourceVersion": "77",
            "labels": {"cluster.open-cluster-management.io/placement": "all"}},
            "status": {"decisions": [{"clusterName": cluster, "reason": ""}]}})
    };
    world.apply_as_it_is(&DECISIONS.all(), &slice("eu-1"));
    assert_eq!(settles(&world), before, "only its version is another");
    world.apply_as_it_is(&DECISIONS.all(), &slice("us-1"));
    let changed = settles(&world);
    assert_ne!(changed, before);
    let world = world.after(60_000);
    world.apply_as_it_is(&DECISIONS.all(), &slice("us-1"));
    assert_eq!(settles(&world), changed);
}

#[test]
fn a_version_never_goes_back() {
    let world = world();
    world.mirror.bookmark(&WORKS.all(), 100);
    world.mirror.bookmark(&WORKS.all(), 90);
    assert_eq!(world.mirror.version(&WORKS.all()), 100);
    world.mirror.begin_resync(&WORKS.all());
    world.mirror.end_resync(&WORKS.all(), 80, Moment(world.now));
    assert_eq!(world.mirror.version(&WORKS.all()), 100);
}

#[test]
fn deletions_count_as_seen() {
    let mut world = hub();
    for object in [policy("limits"), gateway("web"), placement("all"), class("multi")] {
        let before = world.mirror.version(&object.source);
        world.delete(&object);
        assert!(world.mirror.version(&object.source) > before, "{:?}", object.source);
    }
}

#[test]
fn a_forgotten_kind_is_neither_listed_nor_resolved() {
    let world = hub().params("multi", "{}");
    world.forget(&POLICIES.resource(limits()));
    assert!(!world.see(|view| view.policies_synced(&limits())));
    assert_eq!(world.see(|view| view.resolved_kinds().count()), 0);
    assert_eq!(world.mirror.read().tables().resources(&super::found::VERSIONS).count(), 0);
}

#[test]
fn what_fails_is_named_until_it_works_again() {
    let world = hub();
    let failing = |fault: Option<&str>| {
        world.change(Change::Failing(WORKS.all(), fault.map(Failure::passing)));
        world.see(|view| view.failing().len())
    };
    assert_eq!(failing(Some("no")), 1);
    assert_eq!(failing(None), 0);
}

#[test]
fn what_is_known_of_a_kind_stays_where_it_is_found_to_be_the_same() {
    let definition = || JSONSchemaProps { type_: Some("object".to_owned()), ..JSONSchemaProps::default() };
    let resolution = || {
        let schema = Some(Arc::new(Schema::new(&definition())));
        Resolution::Resolved(KindInfo { schema, ..KindInfo::named("RateLimitPolicy") })
    };
    let mut world = hub();
    let mut found = || {
        world.resolve("v1", "ratelimitpolicies", resolution());
        world.see(|view| view.resolved_kinds().next().unwrap().1.schema.clone().unwrap())
    };
    // What is made of policies goes by it, and is made anew where it is another.
    assert!(Arc::ptr_eq(&found(), &found()));
}
