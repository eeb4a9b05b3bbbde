//! Tests of resources: a Placement in their own namespace selects their clusters, independent of Gateways. Copies lack
//! the status and values that the hub has assigned.

use serde_json::{Value, json};

use crate::delete_guard::{DeleteGuard, Precondition};
use crate::desired::Outcome;
use crate::rows::kind::Resolution;
use crate::status;
use crate::status::policy::Fold;
use crate::testing::objects::{
    Object, class, cluster, config_map_resource, decision, deployment, deployment_origin, gateway, placement,
    policy, resource_listing,
};
use crate::testing::world::{World, resolved, world};
use policy_sync_api::annotations::{CLUSTER_OVERRIDES, CLUSTER_SELECTOR, WORK_FOR};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};

mod shares;

const NOTHING: [&str; 0] = [];

/// A hub whose class lists Deployments and ConfigMaps, with two clusters that the Placement `all` selects.
fn fleet() -> World {
    world()
        .class("multi", &resource_listing(None))
        .resource("apps", "deployments", "Deployment")
        .resource("", "configmaps", "ConfigMap")
        .decisions("all", &["eu-1", "us-1"])
        .with(cluster("eu-1").label("region", "eu"))
        .with(cluster("us-1").label("region", "us"))
        .after(60_000)
}

fn web() -> Origin {
    deployment_origin("web")
}

fn placed() -> Object {
    deployment("web").placed_on("all")
}

fn problems(world: &World) -> Vec<String> {
    world.plan_of(&web()).problems.iter().map(ToString::to_string).collect()
}

/// The planned replicas on each cluster.
fn replicas(world: &World) -> Vec<(String, u64)> {
    let plan = world.plan_of(&web());
    let of = |(cluster, outcome): (&ClusterName, &Outcome)| {
        let spec = outcome.work()?.spec().unwrap().into_owned();
        Some((cluster.to_string(), spec.workload.manifests[1].0["spec"]["replicas"].as_u64()?))
    };
    plan.outcomes.iter().filter_map(of).collect()
}

#[test]
fn labelled_resource_is_copied_unchanged_to_its_clusters() {
    let world =
        fleet().with(placed().label("app", "web").annotation("deployment.kubernetes.io/revision", "3"));
    assert_eq!(world.outcomes_of(&web()), ["eu-1", "us-1"]);
    let copy = world.copy_of(&web(), "eu-1");
    assert_eq!((&copy["apiVersion"], &copy["kind"]), (&json!("apps/v1"), &json!("Deployment")));
    assert_eq!(copy["metadata"]["namespace"], "kuadrant-shop");
    assert_eq!(copy["metadata"]["labels"], json!({"app": "web"}));
    let annotations: Vec<&String> = copy["metadata"]["annotations"].as_object().unwrap().keys().collect();
    assert_eq!(annotations, ["kuadrant.io/policy-synced", "kuadrant.io/revision"]);
    assert_eq!(copy["spec"]["replicas"], 4);
    assert!(copy.get("status").is_none());
    let plan = world.plan_of(&web());
    let work = plan.outcomes[&ClusterName::from("eu-1")].work().unwrap();
    assert_eq!(work.labels[WORK_FOR], "resource");
    assert_eq!(work.annotations["kuadrant.io/gateways"], "[]");
    let requested = serde_json::to_string(&work.spec().unwrap().manifest_configs).unwrap();
    assert!(requested.contains(".status.readyReplicas"), "{requested}");
}

#[test]
fn resource_without_spec_is_copied_except_for_its_status() {
    let origin = Origin::named("", "configmaps", "shop", "settings");
    let data = json!({"name": "web", "namespace": "shop"});
    let settings = config_map_resource("settings", &data).placed_on("all");
    let world = fleet().with(settings.clone());
    let copy = world.copy_of(&origin, "us-1");
    assert_eq!((&copy["apiVersion"], &copy["data"]), (&json!("v1"), &data));
    assert!(copy.get("spec").is_none());
    let world = world.settled(std::slice::from_ref(&origin));
    assert_eq!(world.writes_of(&origin), NOTHING);
    let changed = config_map_resource("settings", &json!({"name": "other"})).placed_on("all");
    assert_eq!(world.with(changed).writes_of(&origin), ["update eu-1", "update us-1"]);
}

#[test]
fn addresses_assigned_by_the_hub_are_not_copied() {
    let service = |spec: Value| {
        let object = Object::resource("", "services", "web").placed_on("all").whole_spec(spec);
        let params = json!({"resourcesToSync": [{"group": "", "version": "v1", "resource": "services"}]});
        let world =
            fleet().params("multi", &params.to_string()).resource("", "services", "Service").with(object);
        world.copy_of(&Origin::named("", "services", "shop", "web"), "eu-1")["spec"].clone()
    };
    let spec = json!({"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "type": "NodePort", "healthCheckNodePort": 30001,
        "ports": [{"port": 80, "nodePort": 30000}]});
    assert_eq!(service(spec), json!({"type": "NodePort", "ports": [{"port": 80}]}));
    let headless = json!({"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80}]});
    assert_eq!(service(headless.clone()), headless);
}

#[test]
fn default_placement_applies_to_resources_without_label() {
    let unlabelled = fleet().with(deployment("web"));
    let plan = unlabelled.plan_of(&web());
    assert!(plan.outcomes.is_empty() && !plan.targeted && plan.problems.is_empty());
    let fold = unlabelled.see(|view| status::policy::plan(view, &unlabelled.settings, &web()));
    assert_eq!((fold.fold, fold.sync_state), (Fold::Settled, None), "no state is written");

    let by_default = || fleet().params("multi", &resource_listing(Some("all")).to_string());
    assert_eq!(by_default().with(deployment("web")).outcomes_of(&web()), ["eu-1", "us-1"]);
    let own = by_default().decisions("few", &["us-1"]).with(deployment("web").placed_on("few"));
    assert_eq!(own.outcomes_of(&web()), ["us-1"], "its own label comes first");
    let none = by_default().with(deployment("web").placed_on(""));
    assert_eq!(none.outcomes_of(&web()), NOTHING, "an empty one is nowhere");
    let missing =
        fleet().params("multi", &resource_listing(Some("other")).to_string()).with(deployment("web"));
    assert!(!missing.plan_of(&web()).targeted);
}

#[test]
fn resources_with_a_controlling_owner_are_not_copied() {
    let owners =
        json!([{"kind": "Rollout", "name": "web", "controller": true, "uid": "u", "apiVersion": "v1"}]);
    let world = fleet().with(placed().metadata("ownerReferences", owners));
    assert_eq!(world.outcomes_of(&web()), NOTHING);
    let root = config_map_resource("kube-root-ca.crt", &json!({"ca.crt": "hub"})).placed_on("all");
    assert_eq!(
        fleet().with(root).outcomes_of(&Origin::named("", "configmaps", "shop", "kube-root-ca.crt")),
        NOTHING
    );
    let not_its_controller = json!([{"kind": "App", "name": "web", "uid": "u", "apiVersion": "v1"}]);
    let world = fleet().with(placed().metadata("ownerReferences", not_its_controller));
    assert_eq!(world.outcomes_of(&web()), ["eu-1", "us-1"]);
}

#[test]
fn resource_is_withdrawn_once_its_placement_settles() {
    let world = fleet().with(placed()).settled(&[web()]);
    let world = world.decisions("all", &["eu-1"]);
    assert_eq!(world.outcomes_of(&web()), ["eu-1", "us-1 (keep)"]);
    let world = world.after(5_000);
    assert_eq!(world.writes_of(&web()), ["delete us-1"], "it has no grace");
    let world = fleet().with(placed()).settled(&[web()]).with(deployment("web"));
    assert_eq!(world.writes_of(&web()), ["delete eu-1", "delete us-1"], "it asks for no place any more");
}

#[test]
fn selectors_and_overrides_apply_to_resources() {
    let world = fleet().with(placed().annotation(CLUSTER_SELECTOR, "region=eu"));
    assert_eq!(world.outcomes_of(&web()), ["eu-1"]);
    let overrides = r#"[{"clusterSelector": "region=us", "patch": {"replicas": 1}}]"#;
    let world = fleet().with(placed().annotation(CLUSTER_OVERRIDES, overrides));
    assert_eq!(replicas(&world), [("eu-1".to_owned(), 4), ("us-1".to_owned(), 1)]);
    let world =
        fleet().with(placed()).settled(&[web()]).with(placed().annotation(CLUSTER_SELECTOR, "region in eu"));
    assert_eq!(world.outcomes_of(&web()), ["eu-1 (keep)", "us-1 (keep)"]);
}

#[test]
fn namespaces_in_references_are_rewritten() {
    let spec = json!({"backend": {"name": "db", "namespace": "data"}, "template": {"labels": {"name": "a", "namespace": "b"}}});
    let world = fleet().with(placed().whole_spec(spec));
    let copy = world.copy_of(&web(), "eu-1");
    assert_eq!(copy["spec"]["backend"], json!({"name": "db", "namespace": "kuadrant-data"}));
    assert_eq!(copy["spec"]["template"]["labels"], json!({"name": "a", "namespace": "b"}));
}

#[test]
fn fields_besides_the_spec_count_towards_the_size_limit() {
    let names: Vec<String> = (0..80).map(|n| format!("c{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let of = |n: &str| format!(r#"{{"clusterSelector": "name={n}", "patch": {{}}}}"#);
    let overrides = format!("[{}]", names.iter().map(|n| of(n)).collect::<Vec<_>>().join(","));
    let data = json!({"blob": "x".repeat(490_000)});
    let settings =
        config_map_resource("settings", &data).placed_on("all").annotation(CLUSTER_OVERRIDES, &overrides);
    let mut world = fleet().decisions("all", &names).with(settings);
    for name in names {
        world = world.with(cluster(name).label("name", name));
    }
    let plan = world.plan_of(&Origin::named("", "configmaps", "shop", "settings"));
    assert_eq!(plan.problems[0].category(), "TooLarge");
}

#[test]
fn deleted_class_withdraws_resources_after_a_minute() {
    let world = fleet().with(placed()).settled(&[web()]).without(class("multi"));
    assert_eq!(world.outcomes_of(&web()), ["eu-1 (keep)", "us-1 (keep)"]);
    let recheck = world.plan_of(&web()).recheck;
    assert_eq!(recheck, Some(Moment(world.now + 60_000)), "nothing else tells when that is over");
    assert_eq!(world.after(60_000).writes_of(&web()), ["delete eu-1", "delete us-1"]);
}

#[test]
fn class_missing_at_the_start_withdraws_resources_after_a_minute() {
    let world = fleet().with(placed()).settled(&[web()]);
    let objects = vec![placement("all").selects(2), decision("all", "all-1", &["eu-1", "us-1"])];
    let world = world.restarted(objects);
    assert_eq!(world.outcomes_of(&web()), ["eu-1 (keep)", "us-1 (keep)"]);
    assert_eq!(world.plan_of(&web()).recheck, Some(Moment(world.now + 60_000)));
    assert_eq!(world.after(60_000).writes_of(&web()), ["delete eu-1", "delete us-1"]);
}

#[test]
fn foreign_annotation_is_corrected_once() {
    let world = fleet().with(placed()).settled(&[web()]);
    let world = world.edited(&web(), "eu-1", |work| {
        work["metadata"]["annotations"]["kuadrant.io/gateways"] = r#"["web"]"#.into();
    });
    assert_eq!(world.writes_of(&web()), ["update eu-1"]);
    assert_eq!(world.settled(&[web()]).writes_of(&web()), NOTHING);
}

#[test]
fn unreadable_older_class_freezes_only_existing_works_after_a_start() {
    let by = |placement| resource_listing(Some(placement)).to_string();
    let world = fleet().decisions("few", &["us-1"]).params("multi", &by("few"));
    let world = world.class("zzz", &resource_listing(Some("all"))).with(deployment("web")).settled(&[web()]);
    assert_eq!(world.outcomes_of(&web()), ["us-1"]);
    let objects = vec![
        class("multi"),
        class("zzz"),
        placement("all").selects(2),
        decision("all", "all-1", &["eu-1", "us-1"]),
        placement("few").selects(1),
        decision("few", "few-1", &["us-1"]),
    ];
    let world = world.restarted(objects).params("multi", "nonsense").params("zzz", &by("all"));
    let mut world = world.resource("apps", "deployments", "Deployment");
    for object in [deployment("web"), deployment("new")] {
        world = world.with(object);
    }
    assert_eq!(world.writes_of(&web()), NOTHING, "neither withdrawn nor taken to where it was not");
    assert_eq!(
        world.outcomes_of(&deployment_origin("new")),
        ["eu-1", "us-1"],
        "what is new goes by what is known"
    );
}

#[test]
fn class_that_lists_the_kind_as_policies_withdraws_nothing() {
    let world = fleet().with(placed()).settled(&[web()]);
    let mistake = json!({"policiesToSync": [{"group": "apps", "version": "v1", "resource": "deployments"}]});
    let world = world.class("zzz", &mistake);
    assert_eq!(world.outcomes_of(&web()), ["eu-1 (keep)", "us-1 (keep)"]);
    assert_eq!(problems(&world), ["apps/v1 deployments: GatewayClass zzz lists it in policiesToSync"]);
    let world = world.params("zzz", "{}");
    assert_eq!((world.writes_of(&web()), problems(&world)), (vec![], vec![]));
}

#[test]
fn delete_guard_reads_the_placement_of_a_resource() {
    let world = fleet().with(placed()).settled(&[web()]).decisions("all", &["eu-1"]).after(5_000);
    let reads = world.see(|view| DeleteGuard::new(view, &web()).on(&ClusterName::from("us-1")).0);
    let all = ObjectKey::new("shop", "all");
    assert!(
        reads.iter().any(|read| matches!(read, Precondition::Decisions(key, _) if *key == all)),
        "{reads:?}"
    );
    let of_object = |wanted: &ObjectKey| {
        reads.iter().any(|read| matches!(read, Precondition::Object(_, _, key, _) if key == wanted))
    };
    assert!(
        of_object(&all) && of_object(web().object()) && of_object(&ObjectKey::new("params", "multi")),
        "{reads:?}"
    );
    let by_default = fleet().params("multi", &resource_listing(Some("all")).to_string());
    let world = by_default.with(deployment("web")).settled(&[web()]).decisions("all", &["eu-1"]).after(5_000);
    let reads = world.see(|view| DeleteGuard::new(view, &web()).on(&ClusterName::from("us-1")).0);
    assert!(
        reads.iter().any(|read| matches!(read, Precondition::Decisions(key, _) if *key == all)),
        "{reads:?}"
    );
}

#[test]
fn resources_are_independent_of_policies_and_gateways() {
    let world =
        fleet().with(placed()).with(gateway("web").placed_on("all")).with(policy("limits").targets("web"));
    assert_eq!(world.outcomes_of(&web()), ["eu-1", "us-1"]);
    assert_eq!(world.plan_of(&web()).problems, []);
}

#[test]
fn oldest_class_places_a_kind_and_invalid_parameters_freeze_it() {
    let second = resource_listing(Some("few"));
    let world = fleet().decisions("few", &["us-1"]).class("zzz", &second).with(deployment("web"));
    assert_eq!(world.outcomes_of(&web()), NOTHING, "multi, of the same age, comes first by name");
    let world = fleet().decisions("few", &["us-1"]).class("aaa", &second).with(deployment("web"));
    assert_eq!(world.outcomes_of(&web()), ["us-1"]);
    let frozen = fleet().with(placed()).settled(&[web()]).params("multi", "nonsense");
    assert_eq!(frozen.outcomes_of(&web()), ["eu-1 (keep)", "us-1 (keep)"]);
    let by_default = fleet().params("multi", &resource_listing(Some("all")).to_string());
    let frozen = by_default.with(deployment("web")).settled(&[web()]).params("multi", "nonsense");
    assert_eq!(frozen.outcomes_of(&web()), ["eu-1 (keep)", "us-1 (keep)"]);
    let unlisted = fleet().with(placed()).settled(&[web()]).params("multi", "{}");
    assert_eq!(unlisted.writes_of(&web()), ["delete eu-1", "delete us-1"]);
}

#[test]
fn forbidden_kinds_are_neither_watched_nor_synced() {
    for (group, resource) in [
        ("", "secrets"),
        ("", "serviceaccounts"),
        ("", "pods"),
        ("", "events"),
        ("events.k8s.io", "events"),
        ("gateway.networking.k8s.io", "gateways"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("work.open-cluster-management.io", "manifestworks"),
        ("open-cluster-management.io", "things"),
        ("policysync.kuadrant.io", "regopolicies"),
    ] {
        let kind = json!({"group": group, "version": "v1", "resource": resource});
        let world = world().class("multi", &json!({"resourcesToSync": [kind]}));
        let wanted = world.see(crate::desired::watches::plan);
        assert_eq!(wanted.len(), 1, "{resource}: only the parameters are watched");
        let status = world
            .see(|view| status::class::plan(view, &policy_sync_api::names::ObjectKey::new("", "multi")))
            .unwrap();
        let resolved = &status.conditions[1];
        assert_eq!((&*resolved.status, &*resolved.reason), ("False", "NotSyncable"), "{resource}");
    }
    let both = json!({
        "policiesToSync": [{"group": "apps", "version": "v1", "resource": "deployments"}],
        "resourcesToSync": [{"group": "apps", "version": "v1", "resource": "deployments"}],
    });
    let world = fleet().class("zzz", &both).with(placed());
    assert_eq!(world.outcomes_of(&web()), NOTHING, "what any class lists as policies is no resource");
}

#[test]
fn works_are_kept_until_the_kind_is_listed() {
    let world = fleet().with(placed()).settled(&[web()]);
    let mut world = world;
    world.resolve_as("apps", "deployments", Resolution::Forbidden("no".into()));
    assert_eq!(world.outcomes_of(&web()), ["eu-1 (keep)", "us-1 (keep)"]);
    world.resolve_as("apps", "deployments", resolved("Deployment"));
    let source = crate::kinds::objects(policy_sync_api::params::Role::Resource, web().kind());
    drop(world.forget(&source));
    assert_eq!(world.outcomes_of(&web()), ["eu-1 (keep)", "us-1 (keep)"]);
}

#[test]
fn works_are_kept_until_parameters_are_read_after_a_start() {
    let world = fleet().with(placed()).settled(&[web()]);
    let objects =
        vec![class("multi"), placement("all").selects(2), decision("all", "all-1", &["eu-1", "us-1"])];
    let world = world.restarted(objects);
    assert_eq!(world.outcomes_of(&web()), ["eu-1 (keep)", "us-1 (keep)"]);
    assert_eq!(world.writes_of(&web()), NOTHING);
    let world = world.params("multi", &resource_listing(None).to_string());
    assert_eq!(world.writes_of(&web()), NOTHING, "its kind is not listed yet");
}
