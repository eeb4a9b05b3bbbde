//! What a spoke gets of an object.

use serde_json::json;

use crate::testing::objects::{cluster, gateway, gateway_origin, listing, policy, target};
use crate::testing::world::{World, shop};
use policy_sync_api::annotations::POLICY_SYNC_MESSAGE;

fn with(policy: crate::testing::objects::Object) -> World {
    shop(&["eu-1"]).with(policy)
}

#[test]
fn what_hands_an_object_to_another_tool_stays_on_the_hub() {
    let mut limits = policy("limits").targets("web");
    for key in [
        "kuadrant.io/cluster-selector-of-old",
        "clusters.kuadrant.io/eu-1_region",
        "cluster.open-cluster-management.io/placement",
        "argocd.argoproj.io/tracking-id",
        "kustomize.toolkit.fluxcd.io/name",
        "helm.toolkit.fluxcd.io/namespace",
        "meta.helm.sh/release-name",
        "kubectl.kubernetes.io/last-applied-configuration",
        "app.kubernetes.io/managed-by",
        "app.kubernetes.io/instance",
    ] {
        limits = limits.label(key, "x").annotation(key, "x");
    }
    let copy = with(limits).copy("limits", "eu-1");
    assert_eq!(copy["metadata"].get("labels"), None);
    let annotations: Vec<&String> = copy["metadata"]["annotations"].as_object().unwrap().keys().collect();
    assert_eq!(annotations, ["kuadrant.io/policy-synced", "kuadrant.io/revision"]);
}

#[test]
fn every_other_label_and_annotation_travels() {
    let limits = policy("limits")
        .targets("web")
        .label("app.kubernetes.io/name", "shop")
        .label("team", "")
        .annotation("example.com/note", "grüß\n\"dich\"")
        .annotation("toolkit.fluxcd.io/x", "not a subdomain");
    let metadata = with(limits).copy("limits", "eu-1")["metadata"].clone();
    assert_eq!(metadata["labels"], json!({"app.kubernetes.io/name": "shop", "team": ""}));
    assert_eq!(metadata["annotations"]["example.com/note"], "grüß\n\"dich\"");
    assert_eq!(metadata["annotations"]["toolkit.fluxcd.io/x"], "not a subdomain");
}

#[test]
fn parameters_can_make_more_stay() {
    let mut params = listing(&["ratelimitpolicies"]);
    params["metadataToSkip"] = json!(["team.example.com/*", "cost*center", "exact"]);
    let limits = policy("limits")
        .targets("web")
        .label("team.example.com/a", "1")
        .label("cost-of-center", "2")
        .label("cost-of-centers", "3")
        .label("exact", "4")
        .label("exactly", "5");
    let world = with(limits).params("multi", &params.to_string());
    let labels = &world.copy("limits", "eu-1")["metadata"]["labels"];
    assert_eq!(*labels, json!({"cost-of-centers": "3", "exactly": "5"}));
}

#[test]
fn a_pattern_of_many_stars_is_matched_in_no_time() {
    let mut params = listing(&["ratelimitpolicies"]);
    params["metadataToSkip"] = json!([format!("{}b", "*a".repeat(40))]);
    let key = "a".repeat(300);
    let world =
        with(policy("limits").targets("web").annotation(&key, "")).params("multi", &params.to_string());
    assert_eq!(world.copy("limits", "eu-1")["metadata"]["annotations"][&key], "");
}

#[test]
fn it_names_the_policy_it_came_from() {
    let annotations = with(policy("limits").targets("web")).copy("limits", "eu-1")["metadata"].clone();
    assert_eq!(annotations["annotations"]["kuadrant.io/policy-synced"], "shop/limits");
}

#[test]
fn it_is_a_new_object_of_that_name_in_the_downstream_namespace() {
    let limits = policy("limits")
        .targets("web")
        .metadata("ownerReferences", json!([{"kind": "Shop"}]))
        .metadata("finalizers", json!(["example.com/f"]))
        .status(json!({"observedGeneration": 1}));
    let copy = with(limits).copy("limits", "eu-1");
    let fields: Vec<&String> = copy["metadata"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["annotations", "name", "namespace"]);
    assert_eq!(copy["metadata"]["namespace"], "kuadrant-shop");
    let fields: Vec<&String> = copy.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["apiVersion", "kind", "metadata", "spec"]);
}

#[test]
fn unknown_fields_and_odd_values_arrive_as_they_are() {
    let odd = json!({"": null, "ключ": [null, {}, []], "n": [1, -1, 9_223_372_036_854_775_807_i64, 0.1, 1e300], "t": "\u{0}\u{feff}"});
    let world = with(policy("limits").targets("web").spec("odd", odd.clone()));
    assert_eq!(world.copy("limits", "eu-1")["spec"]["odd"], odd);
}

#[test]
fn a_section_name_stays() {
    let mut reference = target("web");
    reference["sectionName"] = "https".into();
    reference["ours"] = json!({"not": "known"});
    let world = with(policy("limits").spec("targetRefs", json!([reference])));
    assert_eq!(world.copy("limits", "eu-1")["spec"]["targetRefs"], json!([reference]));
    let world = with(policy("limits").spec("targetRef", reference.clone()));
    assert_eq!(world.copy("limits", "eu-1")["spec"]["targetRef"], reference);
}

#[test]
fn each_cluster_gets_the_references_whose_gateway_is_placed_there() {
    let route = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "api"});
    let references = json!([target("web"), route, target("internal")]);
    let world = shop(&["eu-1", "us-1"])
        .decisions("few", &["us-1"])
        .with(gateway("internal").placed_on("few"))
        .with(policy("limits").spec("targetRefs", references));
    assert_eq!(world.copy("limits", "eu-1")["spec"]["targetRefs"], json!([target("web")]));
    assert_eq!(
        world.copy("limits", "us-1")["spec"]["targetRefs"],
        json!([target("web"), target("internal")])
    );
}

#[test]
fn a_singular_reference_stays_beside_plural_ones_only_where_its_gateway_is() {
    let world = shop(&["eu-1"])
        .decisions("few", &["us-1"])
        .with(gateway("internal").placed_on("few"))
        .with(policy("limits").targets("web").targets_all(&["internal"]));
    assert_eq!(world.copy("limits", "eu-1")["spec"], json!({"targetRef": target("web")}));
    assert_eq!(world.copy("limits", "us-1")["spec"], json!({"targetRefs": [target("internal")]}));
}

#[test]
fn a_namespace_in_a_reference_becomes_the_downstream_one() {
    let mut reference = target("web");
    reference["namespace"] = "shop".into();
    let world = with(policy("limits").spec("targetRef", reference));
    assert_eq!(world.copy("limits", "eu-1")["spec"]["targetRef"]["namespace"], "kuadrant-shop");
}

#[test]
fn a_reference_into_another_namespace_is_dropped_and_named() {
    let mut far = target("web");
    far["namespace"] = "bank".into();
    let world = || shop(&["eu-1"]).with(policy("limits").spec("targetRefs", json!([far, target("web")])));
    let names =
        ["the reference to Gateway bank/web is dropped: policies target gateways of their own namespace"];
    // What is there is no more to be learnt from the words than from a restart that changes them.
    for world in [
        world(),
        world().with(gateway("web").in_ns("bank")),
        world().with(gateway("web").in_ns("bank").of_class("other")),
    ] {
        assert_eq!(world.copy("limits", "eu-1")["spec"]["targetRefs"], json!([target("web")]));
        assert_eq!(world.problems("limits"), names);
    }
}

#[test]
fn a_policy_with_no_other_reference_is_told_the_same_whatever_is_there() {
    let mut far = target("web");
    far["namespace"] = "bank".into();
    let world = || shop(&["eu-1"]).with(policy("limits").spec("targetRef", far.clone()));
    let message = |world: World| world.annotations("limits").remove(POLICY_SYNC_MESSAGE);
    assert!(message(world()).unwrap().contains("bank/web is dropped"));
    assert_eq!(message(world()), message(world().with(gateway("web").in_ns("bank"))));
}

#[test]
fn a_gateway_gets_the_downstream_class_and_our_label() {
    let mut params = listing(&[]);
    params["downstreamClass"] = "nginx".into();
    let world = shop(&["eu-1"]).params("multi", &params.to_string());
    let copy = world.copy_of(&gateway_origin("web"), "eu-1");
    assert_eq!(copy["spec"]["gatewayClassName"], "nginx");
    assert_eq!(copy["metadata"]["labels"], json!({"kuadrant.io/managed": "true"}));
}

#[test]
fn a_gateways_references_are_rewritten_and_nothing_else_of_it() {
    let listeners = json!([{
        "name": "https", "port": 443, "protocol": "HTTPS",
        "allowedRoutes": {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"name": "a", "namespace": "b"}}}},
        "tls": {"certificateRefs": [{"name": "cert", "namespace": "certs"}, {"name": "own"}]},
    }]);
    let labels =
        json!({"labels": {"name": "a", "namespace": "b"}, "annotations": {"name": "a", "namespace": "b"}});
    let web =
        gateway("web").placed_on("all").spec("listeners", listeners).spec("infrastructure", labels.clone());
    let spec = shop(&["eu-1"]).with(web).copy_of(&gateway_origin("web"), "eu-1")["spec"].clone();
    let listener = &spec["listeners"][0];
    assert_eq!(
        listener["tls"]["certificateRefs"],
        json!([{"name": "cert", "namespace": "kuadrant-certs"}, {"name": "own"}])
    );
    assert_eq!(listener["allowedRoutes"]["namespaces"]["selector"]["matchLabels"]["namespace"], "b");
    assert_eq!(spec["infrastructure"], labels);
}

#[test]
fn clusters_that_get_the_same_copy_share_one_work() {
    let world = shop(&["eu-1", "us-1"])
        .with(cluster("eu-1").label("region", "eu"))
        .with(policy("limits").targets("web"));
    assert_eq!(world.copy("limits", "eu-1"), world.copy("limits", "us-1"));
}

#[test]
fn the_revision_changes_with_everything_that_a_spoke_gets() {
    let revision = |world: &World| {
        world.copy("limits", "eu-1")["metadata"]["annotations"]["kuadrant.io/revision"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let world = with(policy("limits").targets("web"));
    let first = revision(&world);
    assert_eq!(revision(&world), first);
    let mut seen = std::collections::BTreeSet::from([first]);
    for changed in [
        policy("limits").targets("web").spec("a", json!(1)),
        policy("limits").targets("web").spec("a", json!(null)),
        policy("limits").targets("web").label("a", "b"),
        policy("limits").targets("web").annotation("a", "b"),
    ] {
        assert!(seen.insert(revision(&with(changed))));
    }
}

#[test]
fn what_stays_on_the_hub_is_documented() {
    let page = include_str!("../../../../../docs/annotations.md");
    let (_, rest) = page.split_once("those that hand an object to another tool:\n").unwrap();
    let (patterns, _) = rest.split_once(", and the patterns of `metadataToSkip`").unwrap();
    let patterns: Vec<&str> = patterns.split('`').skip(1).step_by(2).collect();
    assert_eq!(patterns, crate::desired::copy::STAYS);
}
