//! Tests which objects are read from the server before works are deleted.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::{DeleteGuard, Precondition};
use crate::rows::kind::Resolution;
use crate::testing::objects::{
    CONTROLLER, class, cluster, config_map, decision, gateway, gateway_origin, listing, placement, policy,
    policy_origin,
};
use crate::testing::world::{World, shop};
use policy_sync_api::annotations::{CLUSTER_SELECTOR, GRACE_TIMEOUT};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, Origin};
use policy_sync_api::object::HubObject;

/// The reads before a delete of the work on `eu-1`, as `<resource> <key>`, with `absent` for objects that must not
/// exist.
fn reads(world: &World, origin: &Origin) -> Vec<String> {
    reads_on(world, origin, "eu-1")
}

fn reads_on(world: &World, origin: &Origin, cluster: &str) -> Vec<String> {
    let text = |read: &Precondition| match read {
        Precondition::Object(_, gvr, key, _) => format!("{} {key}", gvr.kind.resource),
        Precondition::Absent(gvr, key) => format!("{} {key} absent", gvr.kind.resource),
        Precondition::Decisions(placement, _) => format!("decisions {placement}"),
        Precondition::ClusterTerminating(name) => format!("managedclusters {name} leaving"),
        Precondition::Namespace(name) => format!("namespace {name}"),
    };
    let mut reads: Vec<String> = preconditions_for(world, origin, cluster).iter().map(text).collect();
    reads.sort();
    reads
}

fn preconditions_for(world: &World, origin: &Origin, cluster: &str) -> BTreeSet<Precondition> {
    world.see(|view| DeleteGuard::new(view, origin).on(&cluster.into()).0)
}

fn written() -> World {
    shop(&["eu-1"]).with(policy("limits").targets("web")).written()
}

const OF_WEB: [&str; 5] = [
    "configmaps params/multi",
    "decisions shop/all",
    "gatewayclasses multi",
    "gateways shop/web",
    "placements shop/all",
];

fn and_web(other: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = OF_WEB.iter().chain(other).map(ToString::to_string).collect();
    all.sort();
    all
}

/// The reads for a policy whose Gateway still exists, and the reads in `other`.
fn and_namespace(other: &[&str]) -> Vec<String> {
    and_web(&[other, &["namespace shop"]].concat())
}

#[test]
fn gateway_delete_reads_its_whole_placement() {
    assert_eq!(reads(&written(), &gateway_origin("web")), OF_WEB);
}

#[test]
fn deleted_gateway_must_be_absent() {
    assert_eq!(
        reads(&written().without(gateway("web")), &gateway_origin("web")),
        ["gateways shop/web absent"]
    );
}

#[test]
fn deleted_cluster_must_be_leaving() {
    let left = |world: World| world.decisions("all", &[]);
    assert_eq!(reads(&left(written()), &gateway_origin("web")), and_web(&["managedclusters eu-1 leaving"]));
    let terminating = left(written().with(cluster("eu-1").deleting()));
    assert_eq!(reads(&terminating, &gateway_origin("web")), and_web(&["managedclusters eu-1 leaving"]));
    assert_eq!(reads(&left(written().with(cluster("eu-1"))), &gateway_origin("web")), OF_WEB);
}

#[test]
fn policy_delete_reads_the_policy_and_the_placement_of_its_gateways() {
    let expected = and_namespace(&["ratelimitpolicies shop/limits"]);
    assert_eq!(reads(&written(), &policy_origin("limits")), expected);
}

#[test]
fn namespace_is_not_read_once_the_gateway_has_left_the_cluster() {
    let web = gateway_origin("web");
    let expected = and_web(&["ratelimitpolicies shop/limits"]);
    assert_eq!(reads(&written().gone(&web, "eu-1"), &policy_origin("limits")), expected);
    let terminating = written().terminating(&web, "eu-1");
    assert_eq!(reads(&terminating, &policy_origin("limits")), expected, "for long");
    let mut world = terminating;
    world.now = "2026-01-01T00:00:05Z".parse::<Timestamp>().unwrap().as_millisecond();
    let world = world.params(
        "multi",
        &json!({"policiesToSync": listing(&["ratelimitpolicies"])["policiesToSync"]}).to_string(),
    );
    let (reads, less) = world.see(|view| DeleteGuard::new(view, &policy_origin("limits")).on(&"eu-1".into()));
    assert!(reads.contains(&Precondition::Namespace("shop".into())), "not for ten seconds yet");
    assert_eq!(less, Some(Moment(world.now + 5_000)));
}

#[test]
fn deleted_policy_must_be_absent() {
    let world = written().without(policy("limits"));
    assert_eq!(
        reads(&world, &policy_origin("limits")),
        and_namespace(&["ratelimitpolicies shop/limits absent"])
    );
}

#[test]
fn retargeted_policy_reads_the_old_and_the_new_gateway() {
    let world = written().with(policy("limits").targets("api"));
    let expected = and_namespace(&["ratelimitpolicies shop/limits", "gateways shop/api absent"]);
    assert_eq!(reads(&world, &policy_origin("limits")), expected, "it may be there, and not seen yet");
    let world = world.with(gateway("api").placed_on("edge"));
    let api = ["gateways shop/api", "placements shop/edge absent", "decisions shop/edge"];
    let expected = and_namespace(&[&["ratelimitpolicies shop/limits"], &api[..]].concat());
    assert_eq!(reads(&world, &policy_origin("limits")), expected);
}

#[test]
fn policy_with_selector_reads_the_labels_of_the_clusters_it_leaves() {
    let selective = policy("limits").targets("web").annotation(CLUSTER_SELECTOR, "region=eu");
    let world = shop(&["eu-1", "us-1"]).with(policy("limits").targets("web")).written();
    let world = world.with(cluster("eu-1").label("region", "eu")).with(cluster("us-1").label("region", "us"));
    let (world, limits) = (world.with(selective), policy_origin("limits"));
    let expected = |other: &[&str]| and_namespace(&[&["ratelimitpolicies shop/limits"], other].concat());
    assert_eq!(reads_on(&world, &limits, "us-1"), expected(&["managedclusters us-1"]));
    assert_eq!(reads_on(&world, &limits, "eu-1"), expected(&[]), "that of another holds up no delete");
}

#[test]
fn unlisted_kind_reads_every_class() {
    let world = written().class("second", &serde_json::json!({})).params("multi", "{}");
    let others = ["configmaps params/second", "gatewayclasses second"];
    assert_eq!(reads(&world, &policy_origin("limits")), and_namespace(&others));
}

#[test]
fn parameters_of_another_controllers_class_are_not_read() {
    let theirs = class("theirs").spec("controllerName", "example.com/other".into());
    let world = written().with(theirs).with(gateway("web").of_class("theirs"));
    let reads = reads(&world, &gateway_origin("web"));
    assert!(reads.iter().any(|read| read.contains("gatewayclasses") && read.contains("theirs")), "{reads:?}");
    assert!(!reads.iter().any(|read| read.contains("configmaps")), "{reads:?}");
}

#[test]
fn deleted_class_must_be_absent() {
    let world = written().without(class("multi"));
    let expected =
        ["decisions shop/all", "gatewayclasses multi absent", "gateways shop/web", "placements shop/all"];
    assert_eq!(reads(&world, &gateway_origin("web")), expected);
}

#[test]
fn deleted_definition_must_be_absent() {
    let world = written().resolution("ratelimitpolicies", Resolution::Gone);
    let definition = "customresourcedefinitions ratelimitpolicies.kuadrant.io absent";
    assert_eq!(reads(&world, &policy_origin("limits")), and_namespace(&[definition]));
}

#[test]
fn only_fields_that_decide_are_compared() {
    let kept = |world: World, origin: &Origin| preconditions_for(&world, origin, "eu-1");
    let world = || written().with(cluster("eu-1"));
    let selected = |text: &str| policy("limits").targets("web").annotation(CLUSTER_SELECTOR, text);
    for (origin, same, other) in [
        (
            gateway_origin("web"),
            [
                placement("all").selects(1).annotation("a", "b"),
                decision("all", "all-1", &["eu-1"]).label("a", "b"),
                gateway("web").placed_on("all").annotation("a", "b"),
                class("multi").annotation("a", "b"),
            ],
            vec![
                placement("all").selects(2),
                decision("all", "all-1", &[]),
                gateway("web").placed_on("all").metadata("generation", 2.into()),
                gateway("web").placed_on("none"),
                gateway("web").placed_on("all").without_annotation(GRACE_TIMEOUT),
                class("multi").metadata("generation", 2.into()),
                config_map("multi", "{}"),
            ],
        ),
        (
            policy_origin("limits"),
            [
                policy("limits").targets("web").annotation("a", "b"),
                policy("limits").targets("web").label("a", "b"),
                cluster("eu-1").annotation("a", "b"),
                placement("all").selects(1).label("a", "b"),
            ],
            vec![
                policy("limits").targets("web").metadata("generation", 2.into()),
                policy("limits").targets("web").metadata("uid", "other".into()),
                selected("a=b"),
            ],
        ),
    ] {
        let before = kept(world(), &origin);
        for object in same {
            assert_eq!(kept(world().with(object.clone()), &origin), before, "{object:?}");
        }
        for object in other {
            assert_ne!(kept(world().with(object.clone()), &origin), before, "{object:?}");
        }
    }
    let deselected = |labels: &str| {
        kept(world().with(selected("a=b")).with(cluster("eu-1").label("c", labels)), &policy_origin("limits"))
    };
    assert_ne!(deselected("d"), deselected("e"), "the labels that a selector does not select");
}

#[test]
fn server_objects_match_the_mirror_if_unchanged() {
    let world = written();
    let controller = ControllerName::new(CONTROLLER);
    for (object, text) in [
        (gateway("web").placed_on("all"), "gateways"),
        (policy("limits").targets("web"), "ratelimitpolicies"),
        (class("multi"), "gatewayclasses"),
        (placement("all").selects(1), "placements"),
        (config_map("multi", &listing(&["ratelimitpolicies"]).to_string()), "configmaps"),
    ] {
        let reads = preconditions_for(&world, &policy_origin("limits"), "eu-1");
        let of = |read: &&Precondition| matches!(read, Precondition::Object(_, gvr, ..) if &*gvr.kind.resource == text);
        let read = reads.iter().find(of).unwrap();
        let mut found: HubObject = serde_json::from_value(object.json).unwrap();
        assert!(read.is_met([&found], &controller), "{text}");
        assert!(!read.is_met([], &controller), "{text}");
        if !matches!(text, "placements" | "configmaps") {
            found.spec = None;
            assert!(read.is_met([&found], &controller), "{text}: its metadata says it all");
        }
        found.metadata.uid = "another".into();
        found.data = None;
        found.status = None;
        found.metadata.generation = 7;
        assert!(!read.is_met([&found], &controller), "{text}");
    }
}
