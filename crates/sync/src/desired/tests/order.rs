//! Tests of the order on a cluster: a Gateway is created after its policies and deleted before them.

use serde_json::{Value, json};

use crate::desired::WaitReason;
use crate::kinds::POLICIES;
use crate::rows::kind::Resolution;
use crate::testing::objects::{
    Object, class, cluster, decision, gateway, gateway_origin, kind, listing, placement, policy,
    policy_origin,
};
use crate::testing::reports::{TestReport, applied, refused};
use crate::testing::world::{World, resolved, shop};
use crate::{Key, Problem};
use policy_sync_api::annotations::CLUSTER_SELECTOR;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, GroupVersionResource, Origin};
use policy_sync_mirror::{SourceEvent, WatchFailure};

const WAIT: i64 = 10_000;
const NOTHING: [&str; 0] = [];

fn waiting(action: &str) -> Value {
    let mut params = listing(&["ratelimitpolicies"]);
    params["policyWaitSeconds"] = json!(WAIT / 1000);
    params["policyWaitAction"] = action.into();
    params
}

fn web() -> Object {
    gateway("web").placed_on("all")
}

fn quota() -> Origin {
    policy_origin("quota")
}

/// Policies `limits` and `quota` for the Gateway `web` on both clusters; no work is written.
fn unwritten(action: &str) -> World {
    let world = shop(&["eu-1", "us-1"]).with(cluster("eu-1")).with(cluster("us-1"));
    let world = world.params("multi", &waiting(action).to_string());
    world.with(policy("limits").targets("web")).with(policy("quota").targets("web"))
}

/// The works of the policies exist.
fn made(action: &str) -> World {
    unwritten(action).written().settled(&[quota()])
}

fn with_quota_report(world: World, cluster: &str, report: &TestReport) -> World {
    world.edited(&quota(), cluster, |work| work["status"] = report.status(work))
}

fn both_applied(world: World, cluster: &str) -> World {
    with_quota_report(world.with_report(cluster, &applied()), cluster, &applied())
}

/// The Gateway and its policies are on both clusters.
fn on_two() -> World {
    both_applied(both_applied(made("hold"), "eu-1"), "us-1").written()
}

fn gateway_writes(world: &World) -> Vec<String> {
    world.writes_of(&gateway_origin("web"))
}

/// The clusters where the Gateway waits, each with the policies that it waits for, and whether the wait exceeds the
/// maximum of the class.
fn waits(world: &World) -> Vec<String> {
    let plan = world.plan_of(&gateway_origin("web"));
    let text = |(cluster, waiting): (&ClusterName, &WaitReason)| {
        let WaitReason::Policies(waiting) = waiting else { panic!("{waiting:?}") };
        let names: Vec<String> =
            waiting.policies.iter().map(|policy| policy.object().name.to_string()).collect();
        format!("{cluster}: {}{}", names.join(" "), if waiting.overdue { " (overdue)" } else { "" })
    };
    plan.waiting().map(text).collect()
}

fn recheck(world: &World, origin: &Origin) -> Option<i64> {
    world.plan_of(origin).recheck.map(|Moment(at)| at - world.now)
}

#[test]
fn gateway_waits_until_works_of_its_policies_exist() {
    for action in ["hold", "serve"] {
        let world = unwritten(action).after(100 * WAIT);
        assert_eq!(gateway_writes(&world), NOTHING);
        assert_eq!(waits(&world), ["eu-1: limits quota", "us-1: limits quota"]);
        assert_eq!(
            recheck(&world, &gateway_origin("web")),
            None,
            "the creation of the copies queues the Gateway"
        );
    }
}

#[test]
fn gateway_is_created_on_each_cluster_once_all_policies_are_applied_there() {
    let world = made("hold").with_report("eu-1", &applied()).with_report("us-1", &applied());
    assert_eq!(gateway_writes(&world), NOTHING);
    let world = with_quota_report(world, "us-1", &applied());
    assert_eq!(gateway_writes(&world), ["create us-1"]);
    assert_eq!(waits(&world), ["eu-1: quota"]);
}

#[test]
fn gateway_without_policies_does_not_wait() {
    let world = shop(&["eu-1"]).params("multi", &waiting("hold").to_string());
    assert_eq!(gateway_writes(&world), ["create eu-1"]);
    let elsewhere = policy("limits").targets("api");
    assert_eq!(gateway_writes(&world.with(elsewhere)), ["create eu-1"]);
}

#[test]
fn only_policies_applied_in_their_planned_form_count() {
    let stale = applied().for_work_generation(7);
    for report in [refused("conflict"), stale] {
        let world = with_quota_report(made("hold").with_report("eu-1", &applied()), "eu-1", &report);
        assert_eq!(waits(&world), ["eu-1: quota", "us-1: limits quota"]);
    }
    let changed = policy("quota").targets("web").label("team", "shop");
    let world = both_applied(made("hold"), "eu-1").with(changed);
    assert_eq!(waits(&world), ["eu-1: quota", "us-1: limits quota"]);
}

#[test]
fn class_decides_what_happens_after_the_maximum_wait() {
    let serve = made("serve").after(WAIT - 1);
    assert_eq!((gateway_writes(&serve), recheck(&serve, &gateway_origin("web"))), (vec![], Some(1)));
    assert_eq!(gateway_writes(&serve.after(1)), ["create eu-1", "create us-1"]);

    let hold = made("hold").after(WAIT);
    assert_eq!(gateway_writes(&hold), NOTHING);
    assert_eq!(waits(&hold), ["eu-1: limits quota (overdue)", "us-1: limits quota (overdue)"]);
    assert_eq!(hold.plan_of(&gateway_origin("web")).problems, [Problem::PoliciesPending]);
    assert_eq!(recheck(&hold, &gateway_origin("web")), None);
    assert_eq!(gateway_writes(&both_applied(hold, "eu-1")), ["create eu-1"]);
}

#[test]
fn wait_for_a_rejected_work_starts_at_its_first_rejection() {
    let refused = |action| {
        let world = made(action).with(policy("more").targets("web")).after(100 * WAIT);
        world.with_rejections(&policy_origin("more"), "eu-1")
    };
    let serve = refused("serve");
    assert_eq!(waits(&serve), ["eu-1: limits more quota", "us-1: limits more quota"]);
    assert_eq!(recheck(&serve, &gateway_origin("web")), Some(WAIT), "on us-1 it is about to be made");
    // A further rejection on the same cluster does not restart the wait there.
    let serve = serve.after(WAIT - 1).with_rejections(&policy_origin("more"), "eu-1");
    assert_eq!(gateway_writes(&serve), NOTHING);
    assert_eq!(gateway_writes(&serve.after(1)), ["create eu-1"]);

    let hold = refused("hold").after(WAIT);
    assert_eq!(waits(&hold), ["eu-1: limits more quota (overdue)", "us-1: limits more quota"]);
    assert_eq!(hold.plan_of(&gateway_origin("web")).problems, [Problem::PoliciesPending]);
}

#[test]
fn wait_restarts_if_a_rejected_work_is_created() {
    let world = unwritten("serve").with_rejections(&quota(), "eu-1").after(WAIT - 1);
    world.refused.retain(&quota(), &Default::default());
    assert!(!world.refused.has(&quota()));
    let world = world.written().settled(&[quota()]).after(1);
    assert_eq!(gateway_writes(&world), NOTHING);
}

#[test]
fn wait_for_a_terminating_work_starts_at_its_deletion_timestamp() {
    let world = both_applied(made("serve"), "eu-1");
    let now = Moment(world.now).rfc3339();
    let world = world.edited(&quota(), "eu-1", |work| work["metadata"]["deletionTimestamp"] = now.into());
    assert_eq!(waits(&world)[0], "eu-1: quota");
    assert_eq!(gateway_writes(&world.after(WAIT)), ["create eu-1", "create us-1"]);
}

#[test]
fn each_applied_policy_restarts_the_wait_for_the_others() {
    let world = made("serve").after(WAIT - 1_000);
    let now = Moment(world.now).rfc3339();
    let world = world.with_report("eu-1", &applied().since(&now)).after(1_000);
    assert_eq!(gateway_writes(&world), ["create us-1"]);
    assert_eq!(gateway_writes(&world.after(WAIT - 1_000)), ["create eu-1", "create us-1"]);
}

#[test]
fn timestamp_in_the_future_does_not_extend_the_wait() {
    let ahead = applied().since("2999-01-01T00:00:00Z");
    let world = made("serve").with_report("eu-1", &ahead);
    let world = with_quota_report(world, "eu-1", &refused("conflict"));
    assert_eq!(gateway_writes(&world.after(WAIT)), ["create us-1"], "as if it had been applied this moment");
}

#[test]
fn restart_does_not_restart_the_wait() {
    let objects =
        vec![class("multi"), web(), placement("all").selects(2), decision("all", "all-1", &["eu-1", "us-1"])];
    let restarted =
        |world: World| world.restarted(objects.clone()).params("multi", &waiting("serve").to_string());
    let world = restarted(made("serve").after(WAIT));
    assert_eq!(gateway_writes(&world), NOTHING, "whether the kind resolves is not known");
    assert!(world.plan_of(&gateway_origin("web")).problems[0].passes());
    let mut world = world;
    world.resolve("v1", "ratelimitpolicies", resolved("RateLimitPolicy"));
    assert_eq!(gateway_writes(&world), NOTHING, "its policies are not listed");
    world.list(&POLICIES.resource(kind("ratelimitpolicies")), &[policy("limits").targets("web")]);
    assert_eq!(gateway_writes(&world), ["create eu-1", "create us-1"], "the time before counts");
}

#[test]
fn gateway_does_not_wait_for_unresolved_kinds() {
    let both = |resolution: Resolution| {
        let mut params = waiting("hold");
        params["policiesToSync"] = listing(&["ratelimitpolicies", "authpolicies"])["policiesToSync"].clone();
        let world = both_applied(made("hold"), "eu-1").params("multi", &params.to_string());
        world.resolution("authpolicies", resolution)
    };
    assert_eq!(gateway_writes(&both(Resolution::Gone)), ["create eu-1"]);
    assert_eq!(gateway_writes(&both(Resolution::Forbidden("no".into()))), ["create eu-1"]);
    assert_eq!(gateway_writes(&both(resolved("AuthPolicy"))), NOTHING, "it is about to be listed");
}

#[test]
fn kind_that_cannot_be_listed_delays_gateways_up_to_the_maximum() {
    for (action, writes) in [("hold", vec![]), ("serve", vec!["create eu-1", "create us-1"])] {
        let mut world = shop(&["eu-1", "us-1"]).params("multi", &waiting(action).to_string());
        world = world.kind("ratelimitpolicies", "RateLimitPolicy");
        let mut params = waiting(action);
        params["policiesToSync"] = listing(&["ratelimitpolicies", "authpolicies"])["policiesToSync"].clone();
        world = world.params("multi", &params.to_string());
        let gvr = GroupVersionResource::new("kuadrant.io", "v1", "authpolicies");
        world.change(crate::found::resolved(&gvr, resolved("AuthPolicy")));
        let failing = SourceEvent::FailureChanged(
            POLICIES.resource(kind("authpolicies")),
            Some(WatchFailure::transient("500")),
        );
        let keys = world.change(failing);
        assert!(keys.contains(&Key::Works(gateway_origin("web"))));
        assert_eq!(gateway_writes(&world), writes, "{action}");
    }
}

#[test]
fn gateway_waits_for_frozen_policies() {
    let frozen = policy("quota").targets("web").annotation(CLUSTER_SELECTOR, "((");
    let world = unwritten("hold").with(frozen.clone()).written().with_report("eu-1", &applied());
    assert_eq!(waits(&world), ["eu-1: quota", "us-1: limits quota"]);
    assert_eq!(waits(&world.after(WAIT))[0], "eu-1: quota (overdue)");
    let world = made("hold").with(frozen);
    assert_eq!(gateway_writes(&both_applied(world, "eu-1")), ["create eu-1"], "what is there counts");
}

#[test]
fn gateway_waits_for_policies_whose_work_name_is_taken() {
    let name = made("hold").plan("quota").name.unwrap().to_string();
    let theirs = |world: World| {
        world.edited(&quota(), "eu-1", |work| {
            work["metadata"]["annotations"] = json!({});
            work["spec"]["workload"]["manifests"] = json!([]);
        })
    };
    let world = theirs(made("hold")).with_report("eu-1", &applied());
    assert!(world.work_names().contains(&(name, "eu-1".to_owned())));
    assert_eq!(waits(&world), ["eu-1: quota", "us-1: limits quota"]);
    assert_eq!(waits(&world.after(WAIT))[0], "eu-1: quota (overdue)");
}

#[test]
fn gateway_does_not_wait_for_policies_that_deselect_the_cluster() {
    let picky = policy("quota").targets("web").annotation(CLUSTER_SELECTOR, "region=us");
    let world = unwritten("hold").with(cluster("us-1").label("region", "us")).with(picky);
    let world =
        world.written().settled(&[quota()]).with_report("eu-1", &applied()).with_report("us-1", &applied());
    assert_eq!(gateway_writes(&world), ["create eu-1"]);
    assert_eq!(waits(&world), ["us-1: quota"]);
}

#[test]
fn existing_gateways_never_wait() {
    let world = on_two().with(web().label("team", "shop")).with(policy("more").targets("web"));
    assert_eq!(gateway_writes(&world), ["update eu-1", "update us-1"]);
    assert_eq!(waits(&world), NOTHING);
}

#[test]
fn policies_leave_a_cluster_after_their_gateway() {
    let leaves = on_two().decisions("all", &["eu-1"]).after(5_000);
    assert_eq!((gateway_writes(&leaves), leaves.writes("limits")), (vec!["delete us-1".into()], vec![]));
    let gone = leaves.gateway_written();
    assert_eq!(gone.writes("limits"), ["delete us-1"]);
}

#[test]
fn policies_are_deleted_after_their_gateway_for_every_cause() {
    for world in [
        on_two().without(web()),
        on_two().with(web().deleting()),
        on_two().with(web().of_class("theirs")),
        on_two()
            .without(class("multi"))
            .with(class("other"))
            .params("other", &waiting("hold").to_string())
            .after(60_000),
    ] {
        assert_eq!(gateway_writes(&world), ["delete eu-1", "delete us-1"]);
        assert_eq!(world.writes("limits"), NOTHING);
        assert_eq!(world.gateway_written().writes("limits"), ["delete eu-1", "delete us-1"]);
    }
}

#[test]
fn gateway_stuck_in_deletion_holds_policies_up_to_the_maximum() {
    let world = on_two().without(web());
    let now = Moment(world.now).rfc3339();
    let world = world.edited(&gateway_origin("web"), "us-1", |work| {
        work["metadata"]["deletionTimestamp"] = now.into();
    });
    assert_eq!(world.writes("limits"), NOTHING);
    assert_eq!(recheck(&world, &policy_origin("limits")), Some(WAIT));
    assert_eq!(world.after(WAIT).writes("limits"), ["delete us-1"], "on eu-1 it has not been asked to go");
}

#[test]
fn policy_that_leaves_without_its_gateway_is_deleted_at_once() {
    let delisted = on_two().params("multi", &listing(&[]).to_string());
    let deselected = policy("limits").targets("web").annotation(CLUSTER_SELECTOR, "region=us");
    for world in [
        on_two().without(policy("limits")),
        on_two().with(policy("limits").targets("api")),
        on_two().with(deselected),
        delisted,
        on_two().without(web()).without(policy("limits")),
    ] {
        assert_eq!(world.writes("limits"), ["delete eu-1", "delete us-1"]);
    }
}

#[test]
fn unreadable_policy_is_deleted_after_its_gateway() {
    let unreadable = policy("limits").whole_spec(json!({"targetRef": "web"}));
    let world = on_two().with(unreadable).without(web());
    assert_eq!(world.writes("limits"), NOTHING);
    assert_eq!(world.gateway_written().writes("limits"), ["delete eu-1", "delete us-1"]);
}

#[test]
fn changes_of_awaited_policies_affect_their_gateway() {
    let web = Key::Fold(gateway_origin("web"));
    let mut world = made("hold");
    assert!(world.apply(&policy("more").targets("web")).contains(&web));
    assert!(world.delete(&policy("more")).contains(&web));
    let labelled = world.apply(&cluster("eu-1").label("region", "eu"));
    assert!(labelled.contains(&Key::Works(gateway_origin("web"))));
    assert!(world.edit(&quota(), "eu-1", |work| work["status"] = applied().status(work)).contains(&web));
    // The Gateway's works are planned as soon as its last policy on a cluster is applied, and not earlier.
    let web_works = Key::Works(gateway_origin("web"));
    let mut others = made("hold");
    for (origin, cluster, frees) in
        [(quota(), "eu-1", false), (quota(), "us-1", false), (policy_origin("limits"), "us-1", true)]
    {
        let keys = others.edit(&origin, cluster, |work| work["status"] = applied().status(work));
        assert_eq!(keys.contains(&web_works), frees, "{origin} on {cluster}");
        let again = others.edit(&origin, cluster, |work| work["metadata"]["labels"]["x"] = "y".into());
        assert!(!again.contains(&web_works), "{origin} on {cluster} says nothing new");
    }
    assert!(world.edit(&quota(), "eu-1", |work| work["metadata"]["labels"] = json!({})).contains(&web));

    let mut world = on_two();
    let keys = world.edit(&quota(), "eu-1", |work| work["status"] = refused("no").status(work));
    assert!(!keys.contains(&web), "the Gateway already exists on the cluster");
    let keys = world.edit(&gateway_origin("web"), "eu-1", |work| {
        work["metadata"]["deletionTimestamp"] = "2001-09-09T01:46:40Z".into();
    });
    assert!(keys.contains(&Key::Works(quota())));
}

#[test]
fn gateway_status_reports_an_exceeded_wait() {
    let fold = |world: &World| {
        world.see(|view| crate::status::gateway::plan(view, &world.settings, gateway_origin("web").object()))
    };
    let says = |world: &World| {
        let conditions = fold(world).status.unwrap().conditions;
        let programmed = conditions.into_iter().find(|condition| condition.type_ == "Programmed").unwrap();
        format!("{}: {}", programmed.reason, programmed.message)
    };
    let world = both_applied(made("hold"), "us-1").with_report("eu-1", &applied());
    assert!(fold(&world).replan_works, "to us-1");
    let world = world.gateway_written();
    let waits = "not programmed on 2 of 2 clusters";
    let eu = "eu-1 (waits for its policies: ratelimitpolicies/quota)";
    assert_eq!(says(&world), format!("Pending: {waits}: {eu}; us-1 (pending)"));
    assert_eq!(fold(&world).recheck, Some(Moment(world.now + WAIT)), "nothing else would bring it up");
    assert!(!fold(&world).replan_works);
    assert_eq!(says(&world.after(WAIT)), format!("PoliciesPending: {waits}: {eu}; us-1 (pending)"));
}
