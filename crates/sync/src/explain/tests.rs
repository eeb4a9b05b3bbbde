//! Tests that each step of the decision is explained with a sentence and an object to change.

mod gateways;
mod present;
mod resources;

use std::collections::BTreeMap;

use super::{ClusterVerdict, CopyState, Explanation, Reason, TimeBound, Unavailable, explain};
use crate::rows::kind::{KindInfo, Resolution};
use crate::testing::objects::{
    class, cluster, decision, gateway, gateway_origin, listing, placement, policy, policy_origin, target,
};
use crate::testing::reports::{applied, refused};
use crate::testing::world::{World, resolved, shop};
use policy_sync_api::annotations::{CLUSTER_SELECTOR, PLACED_BY_POLICY};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::placed_by_policy::{MetadataChange, PlacedByPolicy};

fn explained(world: &World, origin: &Origin, unavailable: &Unavailable) -> Explanation {
    let kind = if origin.as_gateway().is_some() { "Gateway" } else { "RateLimitPolicy" };
    world.see(|view| explain(view, &world.settings, origin, kind, unavailable))
}

fn verdict(world: &World, cluster: &str) -> ClusterVerdict {
    explained(world, &policy_origin("limits"), &Unavailable::new())
        .clusters
        .remove(&ClusterName::from(cluster))
        .unwrap()
}

/// `<code>: <text> [<change> | …]`
fn rendered(reason: &Reason) -> String {
    format!("{}: {} [{}]", reason.code, reason.text, reason.change.join(" | "))
}

/// All reasons of the policy `limits` on `cluster`. Checks that the policy is not in sync there.
fn why(world: &World, cluster: &str) -> Vec<String> {
    let verdict = verdict(world, cluster);
    assert!(verdict.state != CopyState::InSync, "{verdict:?}");
    verdict.reasons.iter().map(rendered).collect()
}

/// The steps that stop the policy `limits` on all clusters.
fn stops(world: &World) -> Vec<String> {
    let steps = explained(world, &policy_origin("limits"), &Unavailable::new()).steps;
    steps.iter().filter(|step| !step.passes).map(|step| rendered(&step.reason)).collect()
}

/// The steps that stop `limits`. Checks that they are also the reasons on each cluster.
fn stopped(world: &World) -> Vec<String> {
    assert_eq!(stops(world), why(world, "eu-1"));
    assert!(!verdict(world, "eu-1").state.is_desired());
    stops(world)
}

/// The Gateway `web` on eu-1 and us-1, a third cluster ap-1, and the policy `limits` that targets `web`.
fn world() -> World {
    let clusters = ["ap-1", "eu-1", "us-1"].into_iter().map(|name| cluster(name).label("region", &name[..2]));
    let world = clusters.fold(shop(&["eu-1", "us-1"]), World::with);
    world.with(policy("limits").targets("web"))
}

const PARAMS: &str = "ConfigMap params/multi key params";
const LABEL: &str = "Gateway shop/web label cluster.open-cluster-management.io/placement";

#[test]
fn synced_policy_is_explained_by_its_steps() {
    let world = world()
        .written()
        .with_report("eu-1", &applied().condition("Enforced", "True", "Enforced", "").observed(1));
    let explanation = explained(&world, &policy_origin("limits"), &Unavailable::new());
    let steps: Vec<String> = explanation.steps.iter().map(|step| rendered(&step.reason)).collect();
    assert_eq!(
        steps,
        [
            "KindListed: GatewayClass multi lists ratelimitpolicies.kuadrant.io []",
            "Ours: it targets Gateway shop/web of GatewayClass multi, which Placement shop/all places on 2 clusters []",
        ]
    );
    let eu = &explanation.clusters[&ClusterName::from("eu-1")];
    assert!(eu.state.is_desired() && eu.state.is_present() && eu.state == CopyState::InSync);
    assert_eq!(eu.reasons.iter().map(rendered).collect::<Vec<_>>(), ["Enforced: it is enforced there []"]);
    let names: Vec<&str> = explanation.clusters.keys().map(|name| &*name.0).collect();
    assert_eq!(names, ["ap-1", "eu-1", "us-1"]);
}

#[test]
fn class_of_another_controller_is_named() {
    let other = class("multi").spec("controllerName", "example.com/other".into());
    let own = class("own").spec("parametersRef", serde_json::Value::Null);
    let world = world()
        .with(own)
        .with(class("listing"))
        .params("listing", &listing(&["ratelimitpolicies"]).to_string());
    let says = "ClassNotOurs: it targets Gateway shop/web of GatewayClass multi, which belongs to another controller: its controllerName \
                is example.com/other, not kuadrant.io/policy-sync \
                [Gateway shop/web spec.gatewayClassName | GatewayClass multi]";
    assert_eq!(stopped(&world.with(other)), [says]);
}

#[test]
fn no_kind_is_synced_without_own_class() {
    let world = world().with(class("multi").spec("controllerName", "example.com/other".into()));
    let says = "NoClass: no GatewayClass of the hub has the controllerName kuadrant.io/policy-sync \
                [GatewayClass spec.controllerName]";
    assert_eq!(stopped(&world)[0], says);
}

#[test]
fn missing_class_is_named() {
    let world = world().with(gateway("web").of_class("gone").placed_on("all"));
    let says = "ClassMissing: it targets Gateway shop/web of GatewayClass gone, which does not exist \
                [GatewayClass gone | Gateway shop/web spec.gatewayClassName]";
    assert_eq!(stopped(&world), [says]);
}

#[test]
fn unlisted_kind_names_the_parameters_to_change() {
    let world = world().params("multi", &listing(&["authpolicies"]).to_string());
    let says = format!(
        "KindNotListed: no GatewayClass of this controller lists its kind, ratelimitpolicies.kuadrant.io [{PARAMS}]"
    );
    assert_eq!(stopped(&world)[0], says);
}

#[test]
fn kind_listed_by_another_class_names_the_parameters_to_change() {
    let world = world().class("other", &listing(&["ratelimitpolicies"])).params("multi", "{}");
    let says = format!(
        "KindNotListed: it targets Gateway shop/web of GatewayClass multi, whose parameters do not list \
         ratelimitpolicies.kuadrant.io [{PARAMS} | Gateway shop/web spec.gatewayClassName]"
    );
    assert_eq!(stopped(&world), [says]);
}

#[test]
fn deleted_definition_is_named() {
    let world = world().resolution("ratelimitpolicies", Resolution::Gone);
    let says = "KindGone: the hub has no CustomResourceDefinition ratelimitpolicies.kuadrant.io \
                [CustomResourceDefinition ratelimitpolicies.kuadrant.io]";
    assert_eq!(stopped(&world)[0], says);
}

#[test]
fn unresolved_kind_freezes_the_policy() {
    let world =
        world().resolution("ratelimitpolicies", Resolution::NotAPolicy("it is cluster-scoped".into()));
    let change = format!("[CustomResourceDefinition ratelimitpolicies.kuadrant.io | {PARAMS}]");
    let problem = "kuadrant.io/v1 ratelimitpolicies: it is cluster-scoped";
    assert_eq!(
        why(&world, "eu-1"),
        [format!("Frozen: it is frozen, and is not copied there: {problem} {change}")]
    );
    assert_eq!(
        stops(&world)[0],
        format!("KindFrozen: its kind cannot be synced at present: {problem} {change}")
    );
}

#[test]
fn unusable_targets_are_named() {
    let route = serde_json::json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "web"});
    let no_gateway = world().with(policy("limits").spec("targetRef", route));
    let says = "NoGateway: it targets no Gateway [RateLimitPolicy shop/limits spec.targetRef]";
    assert_eq!(stopped(&no_gateway), [says]);

    let missing = world().with(policy("limits").targets("nothing"));
    let says = "NoGateway: it targets Gateway shop/nothing, which does not exist \
                [Gateway shop/nothing | RateLimitPolicy shop/limits spec.targetRef]";
    assert_eq!(stopped(&missing), [says]);

    let going = world().with(gateway("web").placed_on("all").deleting());
    let says = "GatewayDeleting: it targets Gateway shop/web, which is being deleted [Gateway shop/web]";
    assert_eq!(stopped(&going), [says]);

    let mut elsewhere = target("web");
    elsewhere["namespace"] = "bank".into();
    let elsewhere = world().with(policy("limits").spec("targetRef", elsewhere));
    let says = "OtherNamespace: its reference to Gateway bank/web is ignored, because that is in another namespace: \
                a policy can only target Gateways in its own [RateLimitPolicy shop/limits spec.targetRef]";
    assert_eq!(stopped(&elsewhere), [says]);
}

#[test]
fn unplaced_gateway_names_its_placement() {
    let says = format!(
        "NotPlaced: Placement shop/all, which places Gateway shop/web, has not selected the cluster [Placement shop/all | {LABEL}]"
    );
    assert_eq!(why(&world(), "ap-1"), [says]);
    let says = format!(
        "NoPlacement: Gateway shop/web has no label cluster.open-cluster-management.io/placement [{LABEL}]"
    );
    assert_eq!(why(&world().with(gateway("web")), "eu-1"), [says]);
    let says = format!(
        "NoPlacement: Gateway shop/web names Placement shop/none, which does not exist [Placement shop/none | {LABEL}]"
    );
    assert_eq!(why(&world().with(gateway("web").placed_on("none")), "eu-1"), [says]);
    let says = format!(
        "NotPlaced: Placement shop/all, which places Gateway shop/web, has not selected the cluster so far: it has selected 3 \
         clusters, but its PlacementDecisions list 2 [Placement shop/all | {LABEL}]"
    );
    assert_eq!(why(&world().with(placement("all").selects(3)), "ap-1"), [says]);
}

#[test]
fn each_unplaced_gateway_has_a_reason() {
    let world = world().with(gateway("api")).with(policy("limits").targets_all(&["api", "web"]));
    let codes: Vec<&str> = verdict(&world, "ap-1").reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(codes, ["NoPlacement", "NotPlaced"]);
}

#[test]
fn selector_that_excludes_a_cluster_is_quoted() {
    let selector = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "region=eu");
    let says = "NotSelected: its annotation kuadrant.io/cluster-selector, \"region=eu\", does not select the cluster's \
                labels [RateLimitPolicy shop/limits annotation kuadrant.io/cluster-selector | \
                ManagedCluster <cluster> labels]";
    let world = world().with(selector);
    assert_eq!(why(&world, "us-1"), [says]);
    assert_eq!(verdict(&world, "eu-1").reasons[0].code, "NotWritten");
    assert_eq!(verdict(&world, "ap-1").reasons[0].code, "NotPlaced");
}

#[test]
fn unchanged_selector_of_a_rego_policy_is_attributed_to_it() {
    let says = |selector: &str, before: Option<&str>| {
        let set = MetadataChange::new(Some("region=eu"), before);
        let placed = PlacedByPolicy {
            annotations: BTreeMap::from([(CLUSTER_SELECTOR.to_owned(), set)]),
            ..PlacedByPolicy::default()
        };
        let limits = policy("limits").targets("web").annotation(CLUSTER_SELECTOR, selector);
        let limits = limits.annotation(PLACED_BY_POLICY, &serde_json::to_string(&placed).unwrap());
        why(&world().with(limits), "us-1")[0].clone()
    };
    assert!(says("region=eu", None).contains("does not select the cluster's labels; set by a Rego policy ["));
    let original = "set by a Rego policy instead of its owner's value \"region=us\" [";
    assert!(says("region=eu", Some("region=us")).contains(original));
    assert!(!says("region=ap", Some("region=us")).contains("Rego"), "that is a new wish");
}

#[test]
fn frozen_policy_names_the_problem() {
    let selector = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "region in");
    let world = world().decisions("all", &["eu-1"]).after(60_000).written();
    let world = world.with(selector).decisions("all", &["eu-1", "us-1"]);
    let problem = "annotation kuadrant.io/cluster-selector: not a label key in \"region in\" \
                   [RateLimitPolicy shop/limits annotation kuadrant.io/cluster-selector]";
    let stays = format!("Frozen: it is frozen, and its copy is left unchanged: {problem}");
    assert_eq!(why(&world, "eu-1"), [stays]);
    let none = format!("Frozen: it is frozen, and is not copied there: {problem}");
    assert_eq!(why(&world, "us-1"), [none]);
    assert_eq!(stops(&world), [format!("BadSelector: {problem}")]);
}

#[test]
fn invalid_parameters_name_their_config_map_and_key() {
    let world = world().params("multi", "nonsense");
    let reasons = why(&world, "eu-1");
    assert!(
        reasons[0].starts_with("Frozen: ")
            && reasons[0].contains("GatewayClass multi has invalid parameters"),
        "{reasons:?}"
    );
    assert!(reasons[0].ends_with(&format!("[{PARAMS}]")), "{reasons:?}");
}

#[test]
fn version_conflict_names_all_config_maps() {
    let two = serde_json::json!({"policiesToSync": [{"group": "kuadrant.io", "version": "v2", "resource": "ratelimitpolicies"}]});
    // The version of the older class wins.
    let created = |name: &str, at: &str| class(name).metadata("creationTimestamp", at.into());
    let mut world = world()
        .class("zwei", &two)
        .with(created("zwei", "2026-01-01T00:00:00Z"))
        .with(created("multi", "2026-01-02T00:00:00Z"));
    world.resolve("v2", "ratelimitpolicies", resolved("RateLimitPolicy"));
    let reasons = why(&world, "eu-1");
    assert!(
        reasons[0].ends_with("[ConfigMap params/multi key params | ConfigMap params/zwei key params]"),
        "{reasons:?}"
    );
}

#[test]
fn problems_name_an_object_to_change() {
    let reserved = crate::Settings { reserved_namespaces: vec!["*".into()], ..Default::default() };
    let world = World { settings: reserved, ..world() };
    let reasons = why(&world, "eu-1");
    assert!(
        reasons[0].contains("[Namespace shop | the controller's --downstream-namespace-prefix"),
        "{reasons:?}"
    );
    let odd = crate::explain::tests::world().with(policy("limits").spec("targetRefs", 1.into()));
    assert!(stops(&odd)[0].ends_with("[RateLimitPolicy shop/limits spec.targetRefs]"), "{:?}", stops(&odd));
    assert!(why(&odd, "eu-1")[0].ends_with("[RateLimitPolicy shop/limits spec.targetRefs]"));
}

#[test]
fn leaving_policy_is_explained() {
    let world = world().written().with(policy("limits").targets("nothing"));
    let reasons: Vec<&str> = verdict(&world, "eu-1").reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(reasons, ["NoGateway", "Leaving"]);
    let world = world.terminating(&policy_origin("limits"), "eu-1");
    let eu = verdict(&world, "eu-1");
    assert_eq!(eu.reasons[1].text, "its agent has not finished removing it");
    assert!(eu.state.is_present() && !eu.state.is_desired());
}

#[test]
fn explanation_is_deterministic() {
    let explain_all =
        || format!("{:?}", explained(&world().written(), &policy_origin("limits"), &Unavailable::new()));
    assert_eq!(explain_all(), explain_all());
}

#[test]
fn deleted_or_terminating_policy_is_explained() {
    let going = world().with(policy("limits").targets("web").deleting());
    assert_eq!(stopped(&going), ["Deleting: it is being deleted [RateLimitPolicy shop/limits]"]);
    let gone = world().written().without(policy("limits"));
    let codes: Vec<&str> = verdict(&gone, "eu-1").reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(codes, ["Missing", "Leaving"]);
}

#[test]
fn unread_parameters_freeze_the_policy() {
    let objects = vec![
        class("multi"),
        gateway("web").placed_on("all"),
        placement("all").selects(2),
        decision("all", "all-1", &["eu-1", "us-1"]),
        cluster("ap-1"),
    ];
    let world = world().written().restarted(objects).after(60_000);
    let waits = "waiting for the list of the parameters of GatewayClass multi []";
    assert_eq!(
        why(&world, "eu-1"),
        [format!("Frozen: it is frozen, and its copy is left unchanged: {waits}")]
    );
    assert_eq!(why(&world, "ap-1")[0], format!("KindFrozen: its kind cannot be synced at present: {waits}"));
}

#[test]
fn copy_stays_on_a_cluster_with_unknown_labels() {
    let east = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "region=eu");
    let world = world().with(east.clone()).written();
    // After the restart the ManagedCluster eu-1 is unknown.
    let objects = vec![
        class("multi"),
        gateway("web").placed_on("all"),
        placement("all").selects(2),
        decision("all", "all-1", &["eu-1", "us-1"]),
        cluster("us-1").label("region", "us"),
    ];
    let world = world.restarted(objects).params("multi", &listing(&["ratelimitpolicies"]).to_string());
    let world = world.kind("ratelimitpolicies", "RateLimitPolicy").with(east).after(60_000);
    assert_eq!(
        why(&world, "eu-1"),
        ["UnknownLabels: its copy is left unchanged: the hub has no ManagedCluster of this name, so the \
          labels that select the copy are unknown [ManagedCluster <cluster>]"]
    );
    let kept = verdict(&world, "eu-1");
    assert!(kept.state.is_desired() && kept.reasons.len() == 1, "{kept:?}");
}
