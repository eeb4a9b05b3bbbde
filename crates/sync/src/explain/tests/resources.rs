//! Tests of the explanations of resources.

use serde_json::json;

use super::*;
use crate::testing::objects::{deployment, deployment_origin, resource_listing};
use policy_sync_api::annotations::REPLICA_PREFERENCES;

fn fleet(placement: Option<&str>) -> World {
    let world = crate::testing::world::world().class("multi", &resource_listing(placement));
    let world = world.resource("apps", "deployments", "Deployment").decisions("all", &["eu-1", "us-1"]);
    world.with(cluster("eu-1")).with(cluster("us-1")).with(cluster("ap-1")).after(60_000)
}

fn of_web(world: &World) -> Explanation {
    world.see(|view| {
        explain(view, &world.settings, &deployment_origin("web"), "Deployment", &Unavailable::new())
    })
}

fn steps_of(world: &World) -> Vec<String> {
    of_web(world).steps.iter().map(|step| rendered(&step.reason)).collect()
}

fn on(world: &World, cluster: &str) -> Vec<String> {
    let verdict = of_web(world).clusters.remove(&ClusterName::from(cluster)).unwrap();
    verdict.reasons.iter().map(rendered).collect()
}

const LABEL: &str = "Deployment shop/web label cluster.open-cluster-management.io/placement";
const LISTED: &str = "KindListed: GatewayClass multi lists deployments.apps []";

#[test]
fn placement_of_a_resource_is_named() {
    let placed = fleet(None).with(deployment("web").placed_on("all"));
    assert_eq!(steps_of(&placed), [LISTED, "Placed: Placement shop/all places it on 2 clusters []"]);
    assert_eq!(
        on(&placed, "ap-1"),
        [format!(
            "NotPlaced: Placement shop/all, which places it, has not selected the cluster [Placement shop/all | {LABEL}]"
        )]
    );
    assert!(on(&placed, "eu-1")[0].starts_with("NotWritten: "));
}

#[test]
fn missing_placement_of_a_resource_is_explained() {
    let unlabelled = fleet(None).with(deployment("web"));
    let says = format!(
        "NotPlaced: it has no label cluster.open-cluster-management.io/placement, and parameters name no Placement \
         for its kind [{LABEL} | ConfigMap params/multi key params resourcesToSync[].placement]"
    );
    assert_eq!(steps_of(&unlabelled), [LISTED.to_owned(), says.clone()]);
    assert_eq!(on(&unlabelled, "eu-1"), [says]);
    let absent = fleet(Some("other")).with(deployment("web"));
    let says = format!(
        "NotPlaced: it has no label cluster.open-cluster-management.io/placement, and Placement shop/other, which parameters \
         name for its kind, does not exist [{LABEL} | Placement shop/other]"
    );
    assert_eq!(steps_of(&absent)[1], says);
    let missing = fleet(None).with(deployment("web").placed_on("gone"));
    let says = format!("NoPlacement: it names Placement shop/gone, which does not exist [{LABEL}]");
    assert_eq!(steps_of(&missing)[1], says);
    let owner = json!([{"kind": "Rollout", "name": "web", "controller": true}]);
    let controlled = fleet(None).with(deployment("web").placed_on("all").metadata("ownerReferences", owner));
    assert!(
        steps_of(&controlled)[1].starts_with("Controlled: it belongs to Rollout web: "),
        "{:?}",
        steps_of(&controlled)
    );
}

#[test]
fn each_cluster_shows_its_share_of_replicas() {
    let split = deployment("web")
        .placed_on("all")
        .annotation(REPLICA_PREFERENCES, r#"{"clusters": {"eu-1": {"weight": 1}}, "rebalance": true}"#);
    let world = fleet(None).with(split);
    let change = "[Deployment shop/web annotation federation.kubernetes.io/replica-set-preferences]";
    assert_eq!(on(&world, "eu-1")[1], format!("Share: the cluster gets 4 of its 4 replicas {change}"));
    assert_eq!(
        on(&world, "us-1"),
        [format!(
            "NotNamed: its annotation federation.kubernetes.io/replica-set-preferences does not name the cluster {change}"
        )]
    );
}

#[test]
fn unsyncable_kind_is_explained() {
    let params = json!({"resourcesToSync": [{"group": "", "version": "v1", "resource": "secrets"}]});
    let world = fleet(None).params("multi", &params.to_string());
    let origin = Origin::named("", "secrets", "shop", "key");
    let found = world.see(|view| explain(view, &world.settings, &origin, "Secret", &Unavailable::new()));
    assert_eq!(
        rendered(&found.steps[0].reason),
        "KindNotSyncable: its kind is not synced: Secrets are not copied to spokes as resources \
         [ConfigMap params/multi key params resourcesToSync]"
    );
}
