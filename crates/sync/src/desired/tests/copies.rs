//! Tests of the copies that spokes get.

use serde_json::json;

use crate::testing::objects::{cluster, gateway, gateway_origin, listing, policy, target};
use crate::testing::world::{World, shop};
use policy_sync_api::annotations::POLICY_SYNC_MESSAGE;

fn with(policy: crate::testing::objects::Object) -> World {
    shop(&["eu-1"]).with(policy)
}

#[test]
fn metadata_of_other_tools_is_not_copied() {
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
fn other_labels_and_annotations_are_copied() {
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
fn parameters_can_exclude_more_metadata() {
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
fn pattern_with_many_stars_is_matched_quickly() {
    let mut params = listing(&["ratelimitpolicies"]);
    params["metadataToSkip"] = json!([format!("{}b", "*a".repeat(40))]);
    let key = "a".repeat(300);
    let world =
        with(policy("limits").targets("web").annotation(&key, "")).params("multi", &params.to_string());
    assert_eq!(world.copy("limits", "eu-1")["metadata"]["annotations"][&key], "");
}

#[test]
fn copy_names_its_policy() {
    let annotations = with(policy("limits").targets("web")).copy("limits", "eu-1")["metadata"].clone();
    assert_eq!(annotations["annotations"]["kuadrant.io/policy-synced"], "shop/limits");
}

#[test]
fn copy_is_a_new_object_in_the_downstream_namespace() {
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
fn unknown_fields_and_unusual_values_are_copied() {
    let odd = json!({"": null, "ключ": [null, {}, []], "n": [1, -1, 9_223_372_036_854_775_807_i64, 0.1, 1e300], "t": "\u{0}\u{feff}"});
    let world = with(policy("limits").targets("web").spec("odd", odd.clone()));
    assert_eq!(world.copy("limits", "eu-1")["spec"]["odd"], odd);
}

#[test]
fn section_name_is_copied() {
    let mut reference = target("web");
    reference["sectionName"] = "https".into();
    reference["ours"] = json!({"not": "known"});
    let world = with(policy("limits").spec("targetRefs", json!([reference])));
    assert_eq!(world.copy("limits", "eu-1")["spec"]["targetRefs"], json!([reference]));
    let world = with(policy("limits").spec("targetRef", reference.clone()));
    assert_eq!(world.copy("limits", "eu-1")["spec"]["targetRef"], reference);
}

#[test]
fn copy_keeps_only_references_to_gateways_on_its_cluster() {
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
fn singular_reference_is_kept_only_where_its_gateway_is_placed() {
    let world = shop(&["eu-1"])
        .decisions("few", &["us-1"])
        .with(gateway("internal").placed_on("few"))
        .with(policy("limits").targets("web").targets_all(&["internal"]));
    assert_eq!(world.copy("limits", "eu-1")["spec"], json!({"targetRef": target("web")}));
    assert_eq!(world.copy("limits", "us-1")["spec"], json!({"targetRefs": [target("internal")]}));
}

#[test]
fn namespace_in_a_reference_is_rewritten() {
    let mut reference = target("web");
    reference["namespace"] = "shop".into();
    let world = with(policy("limits").spec("targetRef", reference));
    assert_eq!(world.copy("limits", "eu-1")["spec"]["targetRef"]["namespace"], "kuadrant-shop");
}

#[test]
fn reference_to_another_namespace_is_dropped_and_reported() {
    let mut far = target("web");
    far["namespace"] = "bank".into();
    let world = || shop(&["eu-1"]).with(policy("limits").spec("targetRefs", json!([far, target("web")])));
    let names = [
        "the reference to Gateway bank/web is ignored: a policy can only target Gateways in its own namespace",
    ];
    // The message does not reveal whether the Gateway exists.
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
fn message_does_not_reveal_gateways_of_other_namespaces() {
    let mut far = target("web");
    far["namespace"] = "bank".into();
    let world = || shop(&["eu-1"]).with(policy("limits").spec("targetRef", far.clone()));
    let message = |world: World| world.annotations("limits").remove(POLICY_SYNC_MESSAGE);
    assert!(message(world()).unwrap().contains("the reference to Gateway bank/web is ignored"));
    assert_eq!(message(world()), message(world().with(gateway("web").in_ns("bank"))));
}

#[test]
fn gateway_gets_the_downstream_class_and_the_managed_label() {
    let mut params = listing(&[]);
    params["downstreamClass"] = "nginx".into();
    let world = shop(&["eu-1"]).params("multi", &params.to_string());
    let copy = world.copy_of(&gateway_origin("web"), "eu-1");
    assert_eq!(copy["spec"]["gatewayClassName"], "nginx");
    assert_eq!(copy["metadata"]["labels"], json!({"kuadrant.io/managed": "true"}));
}

#[test]
fn only_references_of_a_gateway_are_rewritten() {
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
fn clusters_with_equal_copies_share_one_work() {
    let world = shop(&["eu-1", "us-1"])
        .with(cluster("eu-1").label("region", "eu"))
        .with(policy("limits").targets("web"));
    assert_eq!(world.copy("limits", "eu-1"), world.copy("limits", "us-1"));
}

#[test]
fn revision_changes_with_the_copied_content() {
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
fn excluded_metadata_is_documented() {
    let page = include_str!("../../../../../docs/annotations.md");
    let (_, rest) = page.split_once("These keys are not copied:\n").unwrap();
    let (patterns, _) = rest.split_once(", and the patterns of `metadataToSkip`").unwrap();
    let patterns: Vec<&str> = patterns.split('`').skip(1).step_by(2).collect();
    assert_eq!(patterns, crate::desired::copy::NOT_COPIED);
}
