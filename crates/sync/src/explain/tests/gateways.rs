//! Tests of the explanations of Gateways.

use super::*;
use crate::testing::reports::programmed;

fn of_web(world: &World) -> Explanation {
    explained(world, &gateway_origin("web"), &Unavailable::new())
}

fn on(world: &World, cluster: &str) -> ClusterVerdict {
    of_web(world).clusters.remove(&ClusterName::from(cluster)).unwrap()
}

fn first(world: &World, cluster: &str) -> String {
    rendered(&on(world, cluster).reasons[0])
}

#[test]
fn programmed_gateway_is_in_sync() {
    let world = world().written().with_gateway_report("eu-1", &programmed("192.0.2.1").observed(1));
    assert!(on(&world, "eu-1").state == CopyState::InSync);
    assert_eq!(first(&world, "eu-1"), "Programmed: it is programmed there []");
    let steps: Vec<String> = of_web(&world).steps.iter().map(|step| rendered(&step.reason)).collect();
    assert_eq!(
        steps,
        ["Ours: it is a Gateway of GatewayClass multi, which Placement shop/all places on 2 clusters []"]
    );
    assert_eq!(
        first(&world, "us-1"),
        "WaitingForApply: its agent has not applied it yet [the agent of cluster <cluster>]"
    );
}

#[test]
fn reason_of_an_unprogrammed_cluster_is_quoted() {
    let unusable =
        applied().observed(1).condition("Programmed", "False", "AddressNotUsable", "no such address");
    let world = world().written().with_gateway_report("eu-1", &unusable);
    let says = "NotProgrammed: it is applied, but not programmed: AddressNotUsable: no such address \
                [Gateway shop/web | Gateway kuadrant-shop/web on cluster <cluster>]";
    assert_eq!(first(&world, "eu-1"), says);
}

#[test]
fn foreign_unplaced_or_frozen_gateway_is_explained() {
    let other = world().with(gateway("web").of_class("other").placed_on("all"));
    let says = "ClassMissing: it is a Gateway of GatewayClass other, which does not exist \
                [GatewayClass other | Gateway shop/web spec.gatewayClassName]";
    assert_eq!(first(&other, "eu-1"), says);
    assert!(first(&world(), "ap-1").starts_with("NotPlaced: "));
    let frozen = world().params("multi", "nonsense");
    assert!(first(&frozen, "eu-1").starts_with("Frozen: it is frozen, and is not copied there: "));
}

#[test]
fn grace_period_shows_its_end_for_gateway_and_policy() {
    let web = || gateway("web").placed_on("all").annotation("kuadrant.io/grace-timeout", "600");
    let world = world().with(web()).written().decisions("all", &["eu-1"]).after(5_000).written();
    let until = TimeBound::Until(Moment((world.now / 1000 + 600) * 1000));
    for verdict in [on(&world, "us-1"), verdict(&world, "us-1")] {
        let grace = verdict.reasons.iter().find(|reason| reason.code == "InGrace").unwrap();
        assert!(verdict.state.is_desired());
        assert_eq!(grace.when, Some(until));
        assert_eq!(
            rendered(grace),
            "InGrace: the cluster is no longer selected: Gateway shop/web is kept there for its grace period \
             [Placement shop/all | Gateway shop/web annotation kuadrant.io/grace-timeout]"
        );
    }
    assert!(on(&world, "eu-1").reasons.iter().all(|reason| reason.code != "InGrace"));
    // The grace period does not apply if another Gateway keeps the policy on the cluster.
    let kept = world.decisions("few", &["us-1"]).with(gateway("api").placed_on("few"));
    let kept = kept.with(policy("limits").targets_all(&["api", "web"]));
    assert!(verdict(&kept, "us-1").reasons.iter().all(|reason| reason.code != "InGrace"));
    let over = kept.with(policy("limits").targets("web")).after(600_000);
    let us = verdict(&over, "us-1");
    let codes: Vec<&str> = us.reasons.iter().map(|reason| reason.code).collect();
    assert_eq!((codes, us.state.is_desired()), (vec!["NotPlaced", "Leaving"], false));
    assert_eq!(us.reasons[1].text, "it is deleted once its Gateway is deleted from the cluster");
    let gone = over.gateway_written();
    assert_eq!(verdict(&gone, "us-1").reasons[1].text, "its copy is going to be deleted");
}

#[test]
fn gateway_names_the_policies_it_waits_for() {
    let holds = |seconds: u32| {
        let mut params = listing(&["ratelimitpolicies"]);
        params["policyWaitSeconds"] = seconds.into();
        params["policyWaitAction"] = "hold".into();
        let world = world().params("multi", &params.to_string()).settled(&[policy_origin("limits")]);
        world.with_report("us-1", &applied()).after(5_000)
    };
    let policy = "ratelimitpolicies.kuadrant.io shop/limits on cluster <cluster>";
    let waits = format!("WaitsForPolicies: it waits for its policies: ratelimitpolicies/limits [{policy}]");
    assert_eq!(first(&holds(60), "eu-1"), waits);
    let overdue = format!(
        "WaitsForPolicies: it waits for its policies: ratelimitpolicies/limits; longer than policyWaitSeconds, and \
         policyWaitAction is hold [{policy} | {PARAMS} policyWaitAction]"
    );
    assert_eq!(first(&holds(1), "eu-1"), overdue);
    assert!(first(&holds(1), "us-1").starts_with("NotWritten: "), "its policy is applied there");
    assert!(of_web(&holds(1)).steps.iter().all(|step| step.passes));
}

#[test]
fn policy_stays_while_its_placement_is_unsettled() {
    let world = world().written().gone(&gateway_origin("web"), "us-1").decisions("all", &["eu-1"]);
    assert_eq!(
        verdict(&world, "us-1").reasons[0].text,
        "its Placement has changed recently, and may still select the cluster"
    );
}
