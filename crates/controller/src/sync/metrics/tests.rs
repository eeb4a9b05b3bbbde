use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use policy_sync_api::names::ObjectKey;
use policy_sync_mirror::{AnyRow, SourceEvent};
use policy_sync_sync::counts;
use policy_sync_sync::kinds::WORKS;
use policy_sync_sync::rows::kind::Resolution;
use policy_sync_sync::status;
use policy_sync_sync::testing::objects::{Object, class, cluster, gateway, listing, policy, policy_origin};
use policy_sync_sync::testing::reports::{applied, programmed, refused};
use policy_sync_sync::testing::world::{World, shop, started};

/// A ManagedCluster whose `Available` condition has this status.
fn managed(name: &str, status: &str) -> Object {
    let condition = json!({
        "type": "ManagedClusterConditionAvailable", "status": status, "reason": "Fine", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    cluster(name).status(json!({"conditions": [condition]}))
}

/// The metrics of a world, with the states that the folds of `policies` and of the Gateway `web` record.
struct Measured {
    metrics: Metrics,
    hub: HubMetrics,
}

impl Measured {
    fn new() -> Self {
        let metrics = Metrics::new().unwrap();
        Self { hub: HubMetrics::new(&metrics).unwrap(), metrics }
    }

    fn fold(&self, world: &World, policies: &[&str]) {
        world.see(|view| {
            for origin in policies.iter().map(|name| policy_origin(name)) {
                self.hub.record_state(
                    view,
                    &origin,
                    status::policy::plan(view, &world.settings, &origin).sync_state,
                );
            }
            let web = ObjectKey::new("shop", "web");
            let sync_state = status::gateway::plan(view, &world.settings, &web).sync_state;
            self.hub.record_state(view, &Origin::Gateway(web), sync_state);
        });
    }

    fn text(&self, world: &World, leads: bool) -> String {
        self.metrics.gather(|| world.see(|view| self.hub.measure(view, leads)))
    }

    /// The value of `series`, whose name omits the common prefix.
    fn value(&self, world: &World, series: &str) -> f64 {
        let text = self.text(world, true);
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("policy_sync_{series} ")));
        line.unwrap_or_else(|| panic!("{series} is missing: {text}")).parse().unwrap()
    }
}

/// The Gateway `web` with the policy `limits` on `eu-1` and `us-1`. Both clusters are available and have not reported
/// yet.
fn unreported() -> World {
    shop(&["eu-1", "us-1"])
        .with(managed("eu-1", "True"))
        .with(managed("us-1", "True"))
        .with(policy("limits").targets("web"))
        .written()
}

/// The Gateway and the policy. Both clusters have applied the policy, and neither has reported on the Gateway.
fn fleet() -> World {
    unreported().with_report("eu-1", &applied()).with_report("us-1", &applied()).written()
}

#[test]
fn follower_exports_zeros_for_the_hub() {
    let (measured, world) = (Measured::new(), fleet());
    measured.fold(&world, &["limits"]);
    measured.hub.problem(&Problem::PoliciesPending, 1);
    for line in measured.text(&world, false).lines().filter(|line| line.starts_with("policy_sync_")) {
        let of_the_process = line.starts_with("policy_sync_build_info") || line.contains("_bucket{");
        assert!(of_the_process || line.ends_with(" 0"), "{line}");
    }
    assert_eq!(measured.value(&world, "policies{state=\"synced\"}"), 1.0);
}

#[test]
fn each_policy_and_gateway_is_counted_once_by_state() {
    let measured = Measured::new();
    let mut world = unreported();
    let states = |world: &World, policy: &str, gateway: &str| {
        measured.fold(world, &["limits"]);
        for (kind, states, expected) in [
            ("policies", &SyncPhase::OF_POLICIES[..], policy),
            ("gateways", &SyncPhase::OF_GATEWAYS[..], gateway),
        ] {
            for state in states {
                let series = format!("{kind}{{state=\"{}\"}}", state.as_str());
                let count = if state.as_str() == expected { 1.0 } else { 0.0 };
                assert_eq!(measured.value(world, &series), count, "{series} where {expected} is expected");
            }
        }
    };
    states(&world, "pending", "pending");
    world = world.with_report("eu-1", &applied());
    states(&world, "pending", "pending");
    world = world.with_report("us-1", &applied());
    states(&world, "synced", "pending");
    world = world.with_gateway_report("eu-1", &programmed("192.0.2.1"));
    states(&world, "synced", "pending");
    world = world.with_gateway_report("us-1", &programmed("192.0.2.2"));
    states(&world, "synced", "programmed");
    let unprogrammed = programmed("192.0.2.2").condition("Programmed", "False", "NoResources", "full");
    world = world.with_gateway_report("us-1", &unprogrammed);
    states(&world, "synced", "not_programmed");
    world = world.with(policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "(("));
    states(&world, "frozen", "not_programmed");
    let world = shop(&[]).with(policy("limits").targets("web"));
    states(&world, "unplaced", "unplaced");
    states(&world.without(policy("limits")).without(gateway("web")), "none", "none");
}

#[test]
fn gateway_waiting_for_its_policies_counts_as_held() {
    let measured = Measured::new();
    let world = shop(&["eu-1"]).with(policy("limits").targets("web"));
    measured.fold(&world, &["limits"]);
    assert_eq!(measured.value(&world, "gateways{state=\"held\"}"), 1.0);
}

#[test]
fn objects_of_foreign_gateways_are_not_counted() {
    let (measured, world) = (Measured::new(), fleet().with(policy("other").targets("none")));
    measured.fold(&world, &["limits", "other"]);
    let counts = SyncPhase::OF_POLICIES
        .map(|state| measured.value(&world, &format!("policies{{state=\"{}\"}}", state.as_str())));
    assert_eq!(counts, [0.0, 0.0, 0.0, 0.0, 1.0]);
}

#[test]
fn change_waits_from_its_watch_event_until_the_last_cluster_applied_it() {
    let measured = Measured::new();
    let world = fleet();
    measured.fold(&world, &["limits"]);
    assert_eq!(measured.value(&world, "propagation_oldest_seconds"), 0.0);
    let changed =
        policy("limits").targets("web").metadata("generation", json!(2)).spec("limits", json!({"a": 1}));
    let world = world.after(10_000).with(changed).after(500);
    measured.fold(&world, &["limits"]);
    let world = world.after(7_000);
    assert_eq!(measured.value(&world, "propagation_oldest_seconds"), 7.5);
    let world = world.written().with_report("eu-1", &applied().for_work_generation(2));
    measured.fold(&world, &["limits"]);
    assert_eq!(measured.value(&world, "propagation_oldest_seconds"), 7.5, "one cluster is awaited still");
    let world = world.with(managed("us-1", "Unknown"));
    assert_eq!(
        measured.value(&world, "propagation_oldest_seconds"),
        0.0,
        "a silent cluster is another matter"
    );
    let world = world.with(managed("us-1", "True"));
    assert_eq!(measured.value(&world, "propagation_oldest_seconds"), 7.5);
    let frozen = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "((");
    let world = world.with(frozen);
    measured.fold(&world, &["limits"]);
    assert_eq!(measured.value(&world, "propagation_oldest_seconds"), 0.0, "so is a frozen policy");
}

#[test]
fn works_are_stuck_after_five_minutes_on_available_clusters() {
    let measured = Measured::new();
    let world = fleet().with_report("us-1", &refused("no"));
    measured.fold(&world, &["limits"]);
    let stuck = |world: &World| {
        ["policy", "gateway", "access"]
            .map(|purpose| measured.value(world, &format!("works_stuck{{for=\"{purpose}\"}}")))
    };
    assert_eq!(stuck(&world), [0.0; 3]);
    let world = world.after(299_000);
    assert_eq!(stuck(&world), [0.0; 3]);
    let world = world.after(2_000);
    assert_eq!(stuck(&world), [1.0, 2.0, 2.0]);
    world.see(|view| measured.hub.begin(view));
    measured.fold(&world, &["limits"]);
    assert_eq!(stuck(&world), [1.0, 2.0, 2.0], "whoever begins to lead knows when they were made");
    let world = world.with(managed("us-1", "Unknown"));
    assert_eq!(stuck(&world), [0.0, 1.0, 1.0]);
    assert_eq!(measured.value(&world, "clusters{state=\"silent\"}"), 1.0);
    assert_eq!(measured.value(&world, "clusters{state=\"available\"}"), 1.0);
}

#[test]
fn new_leader_counts_objects_with_works_as_pending_until_folded() {
    let measured = Measured::new();
    let world = fleet();
    measured.fold(&world, &["limits"]);
    assert_eq!(measured.value(&world, "policies{state=\"synced\"}"), 1.0);
    world.see(|view| measured.hub.begin(view));
    assert_eq!(measured.value(&world, "policies{state=\"synced\"}"), 0.0);
    assert_eq!(measured.value(&world, "policies{state=\"pending\"}"), 1.0);
    assert_eq!(measured.value(&world, "gateways{state=\"pending\"}"), 1.0);
    measured.fold(&world, &["limits"]);
    assert_eq!(measured.value(&world, "policies{state=\"synced\"}"), 1.0);
}

#[test]
fn classes_and_kinds_are_counted_by_state() {
    let measured = Measured::new();
    let world = started()
        .class("multi", &listing(&["ratelimitpolicies", "authpolicies", "dnspolicies"]))
        .kind("ratelimitpolicies", "RateLimitPolicy")
        .resolution("authpolicies", Resolution::Forbidden("no".into()))
        .class("other", &listing(&["ratelimitpolicies"]))
        .class("invalid", &json!({"policiesToSync": 3}))
        .with(class("unread"));
    for (series, count) in [
        ("classes{state=\"accepted\"}", 2.0),
        ("classes{state=\"invalid\"}", 1.0),
        ("classes{state=\"unread\"}", 1.0),
        ("kinds{state=\"Resolved\"}", 1.0),
        ("kinds{state=\"Forbidden\"}", 1.0),
        ("kinds{state=\"UnknownResource\"}", 0.0),
    ] {
        assert_eq!(measured.value(&world, series), count, "{series}");
    }
}

#[test]
fn works_are_counted_by_state() {
    let origin = policy_origin("limits");
    let state = |answer| {
        let world = fleet().with_report("eu-1", &answer);
        world.see(|view| counts::state(view.work_of(&origin, &"eu-1".into()).unwrap()))
    };
    assert_eq!(state(applied()), "applied");
    assert_eq!(state(applied().condition("Enforced", "False", "Overridden", "")), "applied");
    assert_eq!(state(refused("no")), "not_applied");
    let world = unreported();
    let states: Vec<_> = world.see(|view| view.works().map(|(.., work)| counts::state(work)).collect());
    assert!(states.iter().all(|state| *state == "pending"), "{states:?}");
}

#[test]
fn policy_clusters_are_counted_by_state() {
    let measured = Measured::new();
    let states = |world: &World| {
        measured.fold(world, &["limits"]);
        let count = |state: PolicyState| {
            measured.value(world, &format!("policy_clusters{{state=\"{}\"}}", state.as_str()))
        };
        let counts = POLICY_STATES.map(|state| (state.as_str(), count(state)));
        counts.into_iter().filter(|(_, count)| *count > 0.0).collect::<Vec<_>>()
    };
    let world = unreported();
    assert_eq!(states(&world), [("Pending", 2.0)]);
    let enforced = applied().condition("Enforced", "True", "Enforced", "").observed(1);
    let world = world.with_report("eu-1", &enforced).with_report("us-1", &refused("no"));
    assert_eq!(states(&world), [("NotApplied", 1.0), ("Enforced", 1.0)]);
    // The availability of agents is checked once per cluster, not once per policy.
    let world = world.with(managed("us-1", "Unknown"));
    assert_eq!(states(&world), [("NotApplied", 1.0), ("Enforced", 1.0)]);
    assert_eq!(measured.value(&world, "clusters{state=\"silent\"}"), 1.0);
    let frozen = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "((");
    let world = world.with(frozen);
    assert_eq!(states(&world), [("Frozen", 2.0)]);
    let none = world.without(policy("limits")).without(gateway("web"));
    none.see(|view| measured.hub.record_state(view, &policy_origin("limits"), None));
    assert!(!measured.text(&none, true).contains("policy_sync_policy_clusters{state=\"Frozen\"} 2"));
}

#[test]
fn status_delay_runs_from_a_report_until_it_is_written() {
    let (measured, world, origin) = (Measured::new(), unreported(), policy_origin("limits"));
    let reported = unreported().with_report("eu-1", &applied());
    let (name, row) = reported.see(|view| {
        let (name, _, work) = view.works_of(&origin).next().unwrap();
        (name.clone(), work.clone())
    });
    let key = ObjectKey::new("eu-1", &name.0);
    let report_at = |at: i64| {
        let (source, row) = (WORKS.all(), AnyRow::new(row.clone()));
        let change = SourceEvent::Applied { source, key: key.clone(), version: 1_000, row };
        measured.hub.reported(&world.mirror.change(change, Moment(world.now + at)));
    };
    report_at(0);
    // A repeated identical report does not count.
    report_at(900);
    measured.hub.status_written(&origin, Some(Moment(world.now + 1_200)));
    measured.hub.status_written(&origin, Some(Moment(world.now + 5_000)));
    assert_eq!(measured.value(&world, "status_delay_seconds_count"), 1.0);
    assert_eq!(measured.value(&world, "status_delay_seconds_sum"), 1.2);
}

#[test]
fn measuring_stays_fast_with_many_stuck_works() {
    let measured = Measured::new();
    let clusters: Vec<String> = (0..100).map(|number| format!("c-{number:02}")).collect();
    let world = clusters.iter().fold(fleet(), |world, name| world.with(managed(name, "True")));
    let awaited: Vec<ClusterName> = clusters.iter().map(|name| name.as_str().into()).collect();
    world.see(|view| {
        for number in 0..1_000 {
            let sync_state = SyncState { awaited: awaited.clone(), ..SyncState::UNKNOWN };
            measured.hub.record_state(view, &policy_origin(&format!("limits-{number}")), Some(sync_state));
        }
    });
    let world = world.after(400_000);
    let measure = || {
        let start = Instant::now();
        world.see(|view| measured.hub.measure(view, true));
        start.elapsed()
    };
    // Other load on the machine hardly affects the minimum of several measurements.
    let least = (0..5).map(|_| measure()).min().unwrap();
    assert!(least < Duration::from_millis(50), "{least:?}");
    assert_eq!(measured.value(&world, "propagation_oldest_seconds"), 400.0);
}
