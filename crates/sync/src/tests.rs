//! Tests of the decisions on a [`world::World`], whose objects pass through the mirror as those of a hub do.

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
use crate::testing::objects::{
    class, cluster, gateway, gateway_origin, limits, placement, policy, policy_origin,
};
use crate::testing::reports::applied;
use crate::testing::world::{World, shop, world};
use crate::triggers::tests::{access, fold, gateway_fold, hub};
use crate::{Key, Keys};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::schema::Schema;
use policy_sync_mirror::{SourceEvent, WatchFailure};

#[test]
fn kinds_on_a_cluster_follow_its_works() {
    let origins = [policy_origin("limits"), policy_origin("other"), gateway_origin("web")];
    let world = hub().with(policy("other").targets("web")).settled(&origins);
    let kinds_in_works = |world: &World| world.see(|view| view.kinds_in_works(&"eu-1".into()));
    let both = [GroupResource::gateways(), limits()];
    assert_eq!(kinds_in_works(&world), both.clone().into());
    let world = world.gone(&origins[0], "eu-1");
    assert_eq!(kinds_in_works(&world), both.into(), "one is left");
    let world = world.gone(&origins[1], "eu-1");
    assert_eq!(kinds_in_works(&world), [GroupResource::gateways()].into());
    let world = world.gone(&origins[2], "eu-1");
    assert_eq!(kinds_in_works(&world), [].into());
}

#[test]
fn listing_removes_objects_that_it_does_not_contain() {
    let mut world = shop(&["eu-1"]).with(policy("a").targets("web")).with(policy("b").targets("web"));
    let keys = world.list(&POLICIES.resource(limits()), &[policy("b").targets("web"), policy("c")]);
    let affected = |name: &str| keys.contains(&Key::Works(policy_origin(name)));
    assert!(affected("a") && !affected("b") && affected("c"));
    assert_eq!(world.see(|view| view.policies_of(&limits()).count()), 2);
}

#[test]
fn failed_listing_removes_nothing() {
    let mut world = hub();
    world.mirror.begin_resync(&POLICIES.resource(limits()));
    world.apply(&policy("another"));
    assert!(world.see(|view| view.policy(&policy_origin("limits")).is_some()));
    world.list(&POLICIES.resource(limits()), &[policy("limits")]);
    assert!(world.see(|view| view.policy(&policy_origin("another")).is_none()), "the next one does");
}

#[test]
fn works_missing_from_a_listing_leave_every_index() {
    let mut world = hub();
    let keys = world.list(&WORKS.all(), &[]);
    assert!(keys.contains(&Key::Works(policy_origin("limits"))) && keys.contains(&access()));
    assert_eq!(world.see(|view| view.works_of(&policy_origin("limits")).count()), 0);
    assert_eq!(world.see(|view| view.kinds_in_works(&"eu-1".into())), [].into());
}

#[test]
fn unchanged_decisions_do_not_restart_settling() {
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
fn resource_version_never_decreases() {
    let world = world();
    world.mirror.bookmark(&WORKS.all(), 100);
    world.mirror.bookmark(&WORKS.all(), 90);
    assert_eq!(world.mirror.version(&WORKS.all()), 100);
    world.mirror.begin_resync(&WORKS.all());
    world.mirror.end_resync(&WORKS.all(), 80, Moment(world.now));
    assert_eq!(world.mirror.version(&WORKS.all()), 100);
}

#[test]
fn deletions_advance_the_resource_version() {
    let mut world = hub();
    for object in [policy("limits"), gateway("web"), placement("all"), class("multi")] {
        let before = world.mirror.version(&object.source);
        world.delete(&object);
        assert!(world.mirror.version(&object.source) > before, "{:?}", object.source);
    }
}

#[test]
fn forgotten_kind_is_neither_listed_nor_resolved() {
    let world = hub().params("multi", "{}");
    world.forget(&POLICIES.resource(limits()));
    assert!(!world.see(|view| view.policies_synced(&limits())));
    assert_eq!(world.see(|view| view.resolved_kinds().count()), 0);
    assert_eq!(world.mirror.read().tables().resources(&super::found::VERSIONS).count(), 0);
}

#[test]
fn failing_source_is_reported_until_it_recovers() {
    let world = hub();
    let failing = |fault: Option<&str>| {
        world.change(SourceEvent::FailureChanged(WORKS.all(), fault.map(WatchFailure::transient)));
        world.see(|view| view.failing().len())
    };
    assert_eq!(failing(Some("no")), 1);
    assert_eq!(failing(None), 0);
}

#[test]
fn schema_is_shared_if_discovery_finds_the_same_one() {
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
    // Cached copies of policies refer to the schema by address, and are rebuilt if the address changes.
    assert!(Arc::ptr_eq(&found(), &found()));
}
