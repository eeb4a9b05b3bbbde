//! Compares the effective policies on clusters with the results of `explain`.

use serde_json::json;

use super::{FleetObjects, FleetObjectsQuery, PolicyState, fleet_objects_from_view};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_sync::explain::{Explanation, Unavailable, explain};
use policy_sync_sync::rows::kind::Resolution;
use policy_sync_sync::testing::objects::{
    Object, class, cluster, decision, gateway, gateway_origin, listing, placement, policy, policy_origin,
    target,
};
use policy_sync_sync::testing::reports::{applied, refused};
use policy_sync_sync::testing::world::{World, shop};
use policy_sync_topology::clusters::PolicyClusterState;
use policy_sync_topology::show::{ClusterResult, ClustersReport, Scope};

/// Gateway `web` is on eu-1 and us-1, with a listener, and `limits` targets it.
fn world() -> World {
    let clusters = ["ap-1", "eu-1", "us-1"].into_iter().map(|name| cluster(name).label("region", &name[..2]));
    clusters.fold(shop(&["eu-1", "us-1"]), World::with).with(web()).with(limits())
}

fn web() -> Object {
    gateway("web")
        .placed_on("all")
        .spec("listeners", json!([{"name": "http", "port": 80, "protocol": "HTTP"}]))
}

fn limits() -> Object {
    policy("limits").targets("web").spec("limits", json!({"all": {"rates": [{"limit": 10}]}}))
}

fn fleet_objects(world: &World, unavailable: &Unavailable) -> FleetObjects {
    world.see(|view| {
        let query = FleetObjectsQuery { settings: &world.settings, cluster: None, scope: &Scope::default() };
        fleet_objects_from_view(view, query, unavailable)
    })
}

fn explained(world: &World, unavailable: &Unavailable) -> Explanation {
    world.see(|view| explain(view, &world.settings, &policy_origin("limits"), "RateLimitPolicy", unavailable))
}

fn enforced() -> World {
    world()
        .written()
        .with_report("eu-1", &applied().observed(1).condition("Enforced", "True", "Enforced", ""))
}

/// Changes the policy `limits`, and its work.
fn updated(world: World) -> World {
    let limits = limits().spec("limits", json!({"all": {"rates": [{"limit": 100}]}}));
    world.with(limits.metadata("generation", json!(2))).written()
}

/// The agent failed to apply the current work. The status feedback still belongs to the previous revision.
fn with_failed_apply(world: World) -> World {
    world.edited(&policy_origin("limits"), "eu-1", |work| {
        let generation = work["metadata"]["generation"].clone();
        work["status"]["conditions"] = json!([{"type": "Applied", "status": "False", "reason": "AppliedManifestWorkFailed",
            "message": "no", "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    })
}

/// A policy that selects clusters by a label, after the ManagedCluster eu-1 was deleted and the controller was
/// restarted.
fn with_deleted_cluster() -> World {
    let east = limits().annotation("kuadrant.io/cluster-selector", "region=eu");
    let enforced = applied().observed(1).condition("Enforced", "True", "Enforced", "");
    let world = world().with(east.clone()).written().with_report("eu-1", &enforced);
    let objects = vec![
        class("multi"),
        web(),
        placement("all").selects(2),
        decision("all", "all-1", &["eu-1", "us-1"]),
        cluster("us-1").label("region", "us"),
    ];
    let world = world.restarted(objects).params("multi", &listing(&["ratelimitpolicies"]).to_string());
    world.kind("ratelimitpolicies", "RateLimitPolicy").with(east).after(60_000)
}

/// A hub with the policy in some state on eu-1.
struct Case {
    /// The first reason of `explain`.
    code: &'static str,
    world: World,
    state: Option<PolicyState>,
    is_merged: bool,
    certain: bool,
}

fn cases() -> Vec<Case> {
    let written = || world().written();
    let reported = |answer| written().with_report("eu-1", &answer);
    let condition = |status: &str, reason: &str| {
        applied().observed(1).condition("Enforced", status, reason, "in its words")
    };
    let accepted = |status: &str, reason: &str| {
        applied().observed(1).condition("Accepted", status, reason, "in its words")
    };
    let partial = "RateLimitPolicy has been partially enforced";
    let partial = applied().observed(1).condition("Enforced", "True", "Enforced", partial);
    let selecting = |world: World, region: &str| {
        world.with(limits().annotation("kuadrant.io/cluster-selector", &format!("region={region}")))
    };
    let overriding = |world: World, patch: serde_json::Value| {
        let overrides = json!([{"clusterSelector": "region=eu", "patch": patch}]).to_string();
        world.with(limits().annotation("kuadrant.io/cluster-overrides", &overrides))
    };
    use PolicyState::{
        Accepted, Enforced, Frozen, NotApplied, NotEnforced, Overridden, PartiallyEnforced, Pending,
        Rejected, Unknown,
    };
    let unobserved = applied().observed(0).condition("Enforced", "True", "Enforced", "");
    let (is_merged, certain) = (true, true);
    [
        ("Enforced", reported(condition("True", "Enforced")), Some(Enforced), is_merged, certain),
        ("Unknown", reported(applied()), Some(Unknown), is_merged, !certain),
        ("Unknown", reported(condition("Unknown", "Unknown")), Some(Unknown), is_merged, !certain),
        ("Accepted", reported(accepted("True", "Accepted")), Some(Accepted), is_merged, certain),
        ("PartiallyEnforced", reported(partial), Some(PartiallyEnforced), is_merged, !certain),
        ("Rejected", reported(accepted("False", "Conflicted")), Some(Rejected), !is_merged, certain),
        ("Overridden", reported(condition("False", "Overridden")), Some(Overridden), !is_merged, !certain),
        ("NotEnforced", reported(condition("False", "Unknown")), Some(NotEnforced), !is_merged, certain),
        ("Pending", reported(unobserved), Some(Pending), !is_merged, !certain),
        ("WaitingForApply", written(), Some(Pending), !is_merged, certain),
        // The cluster has an earlier revision. It may still enforce that revision if it rejects the current one.
        ("WaitingForApply", updated(enforced()), Some(Pending), !is_merged, !certain),
        ("NotApplied", with_failed_apply(updated(enforced())), Some(NotApplied), !is_merged, !certain),
        // Some copy is on the cluster; its revision is unknown.
        (
            "NotApplied",
            reported(refused("conflict with \"kubectl\"")),
            Some(NotApplied),
            !is_merged,
            !certain,
        ),
        ("NotWritten", enforced().with(limits().label("team", "shop")), Some(Pending), !is_merged, !certain),
        (
            "NotSelected",
            selecting(world(), "us").settled(&[gateway_origin("web")]),
            None,
            !is_merged,
            certain,
        ),
        ("NotSelected", selecting(enforced(), "us"), Some(Pending), !is_merged, !certain),
        ("Frozen", overriding(world(), json!([])), Some(Frozen), !is_merged, certain),
        ("Frozen", overriding(enforced(), json!([])), Some(Frozen), !is_merged, !certain),
        // The controller leaves the work on the deleted cluster unchanged.
        ("UnknownLabels", with_deleted_cluster(), Some(Enforced), !is_merged, !certain),
        (
            "Leaving",
            enforced().terminating(&policy_origin("limits"), "eu-1"),
            Some(Pending),
            !is_merged,
            !certain,
        ),
    ]
    .map(|(code, world, state, is_merged, certain)| Case { code, world, state, is_merged, certain })
    .into()
}

#[test]
fn each_policy_has_the_state_and_the_reason_of_explain() {
    let eu = ClusterName::from("eu-1");
    for Case { code, world, state, is_merged, certain } in cases() {
        for unavailable in [Unavailable::new(), [(eu.clone(), Moment(7_000))].into()] {
            // The Gateway is on the cluster in every case.
            let world = &world;
            let explained = explained(world, &unavailable);
            let verdict = &explained.clusters[&eu];
            assert_eq!(verdict.reasons[0].code, code);
            let fleet_objects = fleet_objects(world, &unavailable);
            let Some(cluster_state) = state_on(&fleet_objects, &eu) else {
                // The controller has not written any work yet.
                assert!(fleet_objects.fleet.gateways.is_empty(), "{code}: {fleet_objects:?}");
                continue;
            };
            let is_silent = verdict.reasons.iter().any(|reason| reason.code == "AgentSilent");
            let state = if is_silent { state.map(PolicyState::on_unavailable_cluster) } else { state };
            assert_eq!(
                (cluster_state.state, verdict.policy_state),
                (state, state),
                "{code}: {cluster_state:?}"
            );
            assert_eq!(
                (cluster_state.is_merged, cluster_state.certain),
                (is_merged, certain && !is_silent),
                "{code}: {cluster_state:?}"
            );
            let reason_code = cluster_state.reason.as_ref().map(|(code, _)| *code);
            let expected = match (is_merged, is_silent) {
                (true, true) => Some("AgentSilent"),
                (true, false) => None,
                (false, _) => Some(code),
            };
            assert_eq!(reason_code, expected, "{code}: {cluster_state:?}");
            if let Some((_, text)) = &cluster_state.reason {
                let reasons = verdict.reasons.iter();
                assert!(reasons.into_iter().any(|reason| text.starts_with(&reason.text)), "{code}: {text}");
            }
            let report = ClustersReport::new(
                &fleet_objects.objects,
                &fleet_objects.fleet,
                &Scope::default(),
                None,
                Vec::new(),
            );
            let is_of = |answer: &&ClusterResult| answer.clusters.contains(&eu);
            let answer = serde_json::to_value(report.answers.iter().find(is_of).unwrap()).unwrap();
            let policy = &answer["policies"][0];
            let expected = (json!(state.map(PolicyState::as_str)), json!(is_merged));
            assert_eq!((&policy["state"], &policy["counts"]), (&expected.0, &expected.1), "{code}");
            assert_eq!(answer["effective"].as_object().unwrap().is_empty(), !is_merged, "{code}: {answer:#}");
        }
    }
}

fn state_on<'a>(fleet_objects: &'a FleetObjects, cluster: &ClusterName) -> Option<&'a PolicyClusterState> {
    fleet_objects.fleet.policies.values().next()?.clusters.get(cluster)
}

#[test]
fn clusters_with_the_same_result_are_grouped() {
    let enforced = applied().observed(1).condition("Enforced", "True", "Enforced", "");
    let world = world().written().with_report("eu-1", &enforced).with_report("us-1", &enforced);
    let report = |world: &World| {
        let FleetObjects { objects, fleet, .. } = fleet_objects(world, &Unavailable::new());
        let report = ClustersReport::new(&objects, &fleet, &Scope::default(), None, Vec::new());
        serde_json::to_value(&report).unwrap()
    };
    let json = report(&world);
    assert_eq!(json["answers"].as_array().unwrap().len(), 1, "{json:#}");
    let answer = &json["answers"][0];
    assert_eq!(answer["clusters"], json!(["eu-1", "us-1"]));
    // The Gateway itself is not programmed, so the result is uncertain.
    assert_eq!((&answer["certain"], &answer["gateway"]["state"]), (&json!(false), &json!("placed")));
    let limit = &answer["effective"]["RateLimitPolicy.kuadrant.io"]["rules"]["limits#all"]["value"];
    assert_eq!(limit["rates"][0]["limit"], 10);

    let overrides =
        r#"[{"clusterSelector": "region=us", "patch": {"limits": {"all": {"rates": [{"limit": 5}]}}}}]"#;
    let world = world.with(limits().annotation("kuadrant.io/cluster-overrides", overrides)).written();
    let world = world.with_report("eu-1", &enforced).with_report("us-1", &enforced);
    let json = report(&world);
    let answers = json["answers"].as_array().unwrap();
    let ids: Vec<&serde_json::Value> =
        answers.iter().map(|answer| &answer["effective"]["RateLimitPolicy.kuadrant.io"]["id"]).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{json:#}");
    assert_eq!(answers[1]["policies"][0]["differs"], json!(["/limits/all/rates"]));
    assert_eq!(answers[0]["policies"][0].get("differs"), None);
}

#[test]
fn policy_on_another_listener_or_gateway_is_left_out() {
    let world = world().with(gateway("api").placed_on("all").spec(
        "listeners",
        json!([{"name": "a", "port": 80, "protocol": "HTTP"}, {"name": "b", "port": 81, "protocol": "HTTP"}]),
    ));
    let mut on_b = target("api");
    on_b["sectionName"] = "b".into();
    let world = world.with(policy("others").spec("targetRef", on_b));
    let origins = ["web", "api"].map(gateway_origin).into_iter();
    let origins: Vec<Origin> = origins.chain(["limits", "others"].map(policy_origin)).collect();
    let world = world.settled(&origins);
    let FleetObjects { objects, fleet, .. } = fleet_objects(&world, &Unavailable::new());
    let report = ClustersReport::new(&objects, &fleet, &Scope::default(), None, Vec::new());
    let json = serde_json::to_value(&report).unwrap();
    let policies = |answer: &serde_json::Value| answer["policies"].as_array().unwrap().len();
    let listeners: Vec<(&str, usize)> = json["answers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| {
            (answer["path"].as_array().unwrap().last().unwrap().as_str().unwrap(), policies(answer))
        })
        .collect();
    let listener = |name: &str| listeners.iter().find(|(id, _)| id.ends_with(name)).unwrap().1;
    assert_eq!((listener("api#a"), listener("api#b"), listener("web#http")), (0, 1, 1), "{json:#}");
    let key = ObjectKey::new("shop", "web");
    assert!(fleet.gateways[&key].contains_key(&ClusterName::from("us-1")));
}

#[test]
fn gateway_has_no_policies_of_a_kind_that_its_class_does_not_list() {
    let listener = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    let api = gateway("api").placed_on("all").of_class("other").spec("listeners", listener);
    let world = world()
        .class("other", &json!({"policiesToSync": []}))
        .with(api)
        .with(policy("limits").targets_all(&["web", "api"]).spec("limits", json!({"all": {}})));
    let origins = [gateway_origin("web"), gateway_origin("api"), policy_origin("limits")];
    let world = world.settled(&origins);
    let FleetObjects { objects, fleet, .. } = fleet_objects(&world, &Unavailable::new());
    assert_eq!(fleet.gateways.len(), 2);
    let report = ClustersReport::new(&objects, &fleet, &Scope::default(), None, Vec::new());
    let of = |name: &str| {
        let is_of = |answer: &&policy_sync_topology::show::ClusterResult| answer.path[1].id.ends_with(name);
        report.answers.iter().find(is_of).unwrap().policies.len()
    };
    assert_eq!((of("shop/web"), of("shop/api")), (1, 0));
}

#[test]
fn unreadable_kind_makes_its_gateways_uncertain() {
    let enforced = enforced();
    let world =
        enforced.resolution("ratelimitpolicies", Resolution::UnknownVersion("the hub serves v2".to_owned()));
    let FleetObjects { fleet, unknown, .. } = fleet_objects(&world, &Unavailable::new());
    let cluster_state = &fleet.gateways[&ObjectKey::new("shop", "web")][&ClusterName::from("eu-1")];
    assert!(!cluster_state.certain, "{cluster_state:?}");
    assert!(
        unknown.iter().any(|text| text.starts_with("policies of the kind ratelimitpolicies.kuadrant.io: ")),
        "{unknown:?}"
    );
}

#[test]
fn gateway_that_leaves_a_cluster_is_reported_as_unknown() {
    let world = enforced().with(gateway("web").placed_on("all").deleting());
    let FleetObjects { fleet, unknown, .. } = fleet_objects(&world, &Unavailable::new());
    assert!(fleet.gateways.is_empty() || !fleet.gateways.contains_key(&ObjectKey::new("shop", "web")));
    assert!(
        unknown.iter().any(|text| text.contains("on cluster eu-1, from which it is being removed: ")),
        "{unknown:?}"
    );
}

#[test]
fn creation_times_on_the_cluster_decide_between_two_policies() {
    let rates = |limit: u32| json!({"all": {"rates": [{"limit": limit}]}});
    // On the hub `limits` is older. Both policies are defaults; of two defaults on one target, the newer one
    // is in force.
    let limits = limits().metadata("creationTimestamp", "2026-01-01T00:00:00Z".into());
    let other = policy("zzz").targets("web").spec("limits", rates(20));
    let other = other.metadata("creationTimestamp", "2026-01-01T00:00:01Z".into());
    let world = world().with(limits).with(other).settled(&[
        policy_origin("zzz"),
        policy_origin("limits"),
        gateway_origin("web"),
    ]);
    let enforced =
        |created: &str| applied().observed(1).condition("Enforced", "True", "Enforced", "").created(created);
    let (first, second) = ("2026-02-01T00:00:01Z", "2026-02-01T00:00:02Z");
    let world =
        world.with_report("eu-1", &enforced(first)).with_policy_report("zzz", "eu-1", &enforced(second));
    let report = |world: &World| {
        let FleetObjects { objects, fleet, .. } = fleet_objects(world, &Unavailable::new());
        let report = ClustersReport::new(&objects, &fleet, &Scope::default(), None, Vec::new());
        serde_json::to_value(&report).unwrap()
    };
    let limit_on = |json: &serde_json::Value, cluster: &str| {
        let answers = json["answers"].as_array().unwrap();
        let of =
            |answer: &&serde_json::Value| answer["clusters"].as_array().unwrap().contains(&json!(cluster));
        let answer = answers.iter().find(of).unwrap();
        let rules = &answer["effective"]["RateLimitPolicy.kuadrant.io"]["rules"];
        rules["limits#all"]["value"]["rates"][0]["limit"].clone()
    };
    let is_unknown = |json: &serde_json::Value| {
        json["unknown"]
            .as_array()
            .unwrap()
            .iter()
            .any(|text| text.as_str().unwrap().contains("the age of policies"))
    };
    // us-1 reports no creation time, so the hub's creation times are used, with a note.
    let without =
        world.with_report("us-1", &applied().observed(1).condition("Enforced", "True", "Enforced", ""));
    let without = without.with_policy_report("zzz", "us-1", &enforced(first));
    let json = report(&without);
    assert_eq!((limit_on(&json, "eu-1"), limit_on(&json, "us-1")), (json!(20), json!(20)), "{json:#}");
    assert!(is_unknown(&json));
    // On us-1 `zzz` is older, so `limits` is in force.
    let world = without.with_report("us-1", &enforced(second));
    let json = report(&world);
    assert_eq!((limit_on(&json, "eu-1"), limit_on(&json, "us-1")), (json!(20), json!(10)), "{json:#}");
    assert!(!is_unknown(&json));
    // Different creation times in the same order give the same result.
    let same = report(&world.with_report("us-1", &enforced(first)).with_policy_report(
        "zzz",
        "us-1",
        &enforced(second),
    ));
    assert_eq!(same["answers"].as_array().unwrap().len(), 1, "{same:#}");
}
