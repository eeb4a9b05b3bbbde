//! What is read from the server before works are deleted.

use super::objects::{class, cluster, gateway, gateway_parent, policy, policy_parent};
use super::world::{World, shop};
use crate::api::annotations::CLUSTER_SELECTOR;
use crate::api::names::{ObjectKey, Parent};
use crate::mirror::rows::kind::Resolution;
use crate::plan::cause::{self, Read};

/// The reads, each as `<resource> <key>`, with `absent` where it should not exist.
fn reads(world: &World, parent: &Parent) -> Vec<String> {
    let text = |read: &Read| match read {
        Read::Object(gvr, key, Some(_)) => format!("{} {key}", gvr.kind.resource),
        Read::Object(gvr, key, None) => format!("{} {key} absent", gvr.kind.resource),
        Read::Decisions(placement, versions) => {
            format!("decisions {placement}: {}", versions.keys().cloned().collect::<Vec<_>>().join(","))
        }
    };
    let mut reads: Vec<String> = world.see(|view| cause::of(view, parent)).iter().map(text).collect();
    reads.sort();
    reads
}

fn written() -> World {
    shop(&["eu-1"]).with(policy("limits").targets("web")).written()
}

const OF_WEB: [&str; 5] = [
    "configmaps params/multi",
    "decisions shop/all: all-1",
    "gatewayclasses multi",
    "gateways shop/web",
    "placements shop/all",
];

fn and_web(other: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = OF_WEB.iter().chain(other).map(ToString::to_string).collect();
    all.sort();
    all
}

#[test]
fn for_a_gateway_it_is_all_that_places_it() {
    assert_eq!(reads(&written(), &gateway_parent("web")), OF_WEB);
}

#[test]
fn for_a_gateway_that_is_gone_it_is_that_it_is_gone() {
    assert_eq!(
        reads(&written().without(gateway("web")), &gateway_parent("web")),
        ["gateways shop/web absent"]
    );
}

#[test]
fn for_a_cluster_that_is_gone_it_is_that_it_is_gone() {
    let left = |world: World| world.decisions("all", &[]);
    assert_eq!(reads(&left(written()), &gateway_parent("web")), and_web(&["managedclusters eu-1 absent"]));
    let terminating = left(written().with(cluster("eu-1").deleting()));
    assert_eq!(reads(&terminating, &gateway_parent("web")), and_web(&["managedclusters eu-1"]));
    assert_eq!(reads(&left(written().with(cluster("eu-1"))), &gateway_parent("web")), OF_WEB);
}

#[test]
fn for_a_policy_it_is_the_policy_and_all_that_places_its_gateways() {
    assert_eq!(reads(&written(), &policy_parent("limits")), and_web(&["ratelimitpolicies shop/limits"]));
}

#[test]
fn for_a_deleted_policy_it_is_that_it_is_gone() {
    let world = written().without(policy("limits"));
    assert_eq!(reads(&world, &policy_parent("limits")), and_web(&["ratelimitpolicies shop/limits absent"]));
}

#[test]
fn for_a_retargeted_policy_it_is_the_gateway_it_had_and_the_one_it_has() {
    let world = written().with(policy("limits").targets("api"));
    let expected = and_web(&["ratelimitpolicies shop/limits", "gateways shop/api absent"]);
    assert_eq!(reads(&world, &policy_parent("limits")), expected, "it may be there, and not seen yet");
    let world = world.with(gateway("api").placed_on("edge"));
    let api = ["gateways shop/api", "placements shop/edge absent", "decisions shop/edge: "];
    let expected = and_web(&[&["ratelimitpolicies shop/limits"], &api[..]].concat());
    assert_eq!(reads(&world, &policy_parent("limits")), expected);
}

#[test]
fn for_a_selective_policy_it_is_the_labels_of_the_clusters_that_it_leaves() {
    let selective = policy("limits").targets("web").annotation(CLUSTER_SELECTOR, "region=eu");
    let world = shop(&["eu-1", "us-1"]).with(policy("limits").targets("web")).written();
    let world = world.with(cluster("eu-1").label("region", "eu")).with(cluster("us-1").label("region", "us"));
    let expected = and_web(&["ratelimitpolicies shop/limits", "managedclusters us-1"]);
    assert_eq!(reads(&world.with(selective), &policy_parent("limits")), expected);
}

#[test]
fn for_a_delisted_kind_it_is_every_class() {
    let world = written().class("second", &serde_json::json!({})).params("multi", "{}");
    let others = ["configmaps params/second", "gatewayclasses second"];
    assert_eq!(reads(&world, &policy_parent("limits")), and_web(&others));
}

#[test]
fn of_another_controllers_class_the_parameters_are_not_read() {
    let theirs = class("theirs").spec("controllerName", "example.com/other".into());
    let world = written().with(theirs).with(gateway("web").of_class("theirs"));
    let reads = reads(&world, &gateway_parent("web"));
    assert!(reads.iter().any(|read| read.contains("gatewayclasses") && read.contains("theirs")), "{reads:?}");
    assert!(!reads.iter().any(|read| read.contains("configmaps")), "{reads:?}");
}

#[test]
fn for_a_class_that_is_gone_it_is_that_it_is_gone() {
    let world = written().without(class("multi"));
    let expected = [
        "decisions shop/all: all-1",
        "gatewayclasses multi absent",
        "gateways shop/web",
        "placements shop/all",
    ];
    assert_eq!(reads(&world, &gateway_parent("web")), expected);
}

#[test]
fn for_a_kind_whose_definition_is_gone_it_is_the_definition() {
    let world = written().resolution("ratelimitpolicies", Resolution::Gone);
    let definition = "customresourcedefinitions ratelimitpolicies.kuadrant.io absent";
    assert_eq!(reads(&world, &policy_parent("limits")), and_web(&[definition]));
}

#[test]
fn versions_are_those_of_the_mirror() {
    let world = written();
    let key = ObjectKey::new("shop", "limits");
    let version = world.see(|view| view.policy(&policy_parent("limits")).unwrap().version.0);
    let reads = world.see(|view| cause::of(view, &policy_parent("limits")));
    assert!(
        reads
            .iter()
            .any(|read| matches!(read, Read::Object(_, found, Some(at)) if *found == key && *at == version))
    );
}
