//! Tests of the keys that each change affects.

use serde_json::json;

use super::*;
use crate::kinds::needed;
use crate::rows::schema::WorkSchema;
use crate::testing::objects::{
    Object, class, cluster, config_map, decision, gateway, gateway_origin, limits, listing, placement,
    policy, policy_of, policy_origin,
};
use crate::testing::reports::applied;
use crate::testing::world::{START, World, resolved, shop, unlisted};
use crate::{Key, found, rows};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::GroupResource;
use policy_sync_mirror::SourceEvent;

/// A world in which the policy `limits` is written to `eu-1`.
pub(crate) fn hub() -> World {
    shop(&["eu-1"]).with(policy("limits").targets("web")).written()
}

pub(crate) fn fold() -> Key {
    Key::Fold(policy_origin("limits"))
}

pub(crate) fn access() -> Key {
    Key::Access("eu-1".into())
}

fn of_class() -> Key {
    Key::Class(ObjectKey::new("", "multi"))
}

/// The key of the published status of the Gateway `web`.
pub(crate) fn gateway_fold() -> Key {
    Key::Fold(gateway_origin("web"))
}

/// The keys of all objects in the namespace of `hub`.
fn of_namespace() -> Keys {
    Keys::from([
        Key::Works(gateway_origin("web")),
        gateway_fold(),
        Key::Works(policy_origin("limits")),
        fold(),
    ])
}

/// The keys that a change of classes or parameters affects in `hub`.
fn of_classes() -> Keys {
    let mut keys = of_namespace();
    keys.extend([Key::Watches, of_class()]);
    keys
}

#[test]
fn nothing_is_affected_before_everything_is_listed() {
    let mut world = unlisted();
    for object in [class("multi"), gateway("web"), placement("all"), decision("all", "all-1", &["eu-1"])] {
        assert_eq!(world.apply(&object), Keys::new());
    }
    for source in needed() {
        assert!(!world.see(|view| view.ready()));
        world.mirror.begin_resync(&source);
        world.apply(&Object { source: source.clone(), ..gateway("web") });
        let keys = affected(&world.mirror.end_resync(&source, 9, Moment(START)));
        assert_eq!(keys.is_empty(), source != needed().last().unwrap(), "{source:?}: {keys:?}");
    }
    assert!(world.see(|view| view.ready()));
}

#[test]
fn schema_without_required_features_is_not_ready() {
    for schema in [
        WorkSchema { server_side_apply: false, ..WorkSchema::FULL },
        WorkSchema { create_only: false, ..WorkSchema::FULL },
    ] {
        let world = hub();
        world.change(found::work_schema(schema));
        assert!(!world.see(|view| view.ready()));
        let keys = world.change(found::work_schema(WorkSchema::FULL));
        assert!(keys.contains(&access()) && keys.contains(&fold()) && keys.contains(&of_class()));
    }
}

#[test]
fn unchanged_object_affects_nothing() {
    let mut world = hub();
    for object in [
        class("multi"),
        config_map("multi", &listing(&["ratelimitpolicies"]).to_string()),
        gateway("web").placed_on("all"),
        policy("limits").targets("web"),
    ] {
        assert_eq!(world.apply(&object), Keys::new(), "{object:?}");
    }
    assert_eq!(world.resolve("v1", "ratelimitpolicies", resolved("RateLimitPolicy")), Keys::new());
    world.apply(&cluster("eu-1"));
    assert_eq!(world.apply(&cluster("eu-1")), Keys::new());
    assert_eq!(world.edit(&policy_origin("limits"), "eu-1", |_| {}), Keys::new(), "a work");
}

#[test]
fn class_and_parameters_affect_everything_that_depends_on_classes() {
    assert_eq!(hub().apply(&config_map("multi", "{}")), of_classes());
    assert_eq!(hub().delete(&config_map("multi", "")), of_classes());
    assert_eq!(hub().delete(&class("multi")), &of_classes() - &Keys::from([of_class()]));
    let renamed = class("multi").spec("controllerName", "example.com/other".into());
    assert_eq!(hub().apply(&renamed), of_classes());
}

#[test]
fn status_of_a_class_affects_only_the_class() {
    let object = class("multi")
        .status(json!({"conditions": [{"type": "Accepted", "status": "True", "reason": "A",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}));
    assert_eq!(hub().apply(&object), Keys::from([of_class()]));
}

#[test]
fn a_gateway_affects_its_namespace() {
    assert_eq!(hub().apply(&gateway("web").placed_on("all").label("a", "b")), of_namespace());
    assert_eq!(hub().delete(&gateway("web")), of_namespace());
    let elsewhere = hub().apply(&gateway("web").in_ns("bank"));
    assert_eq!(elsewhere.len(), 2, "{elsewhere:?}");
}

#[test]
fn published_fields_of_a_gateway_affect_only_its_fold() {
    let web = || gateway("web").placed_on("all");
    let status = json!({"addresses": [{"type": "Hostname", "value": "example.com"}]});
    for object in [
        web().annotation("kuadrant.io/gateway-clusters", "[]"),
        web().label("clusters.kuadrant.io/eu-1_region", "eu"),
        web().metadata("generation", json!(2)),
        web().status(status),
    ] {
        assert_eq!(hub().apply(&object), Keys::from([gateway_fold()]), "{object:?}");
    }
}

#[test]
fn a_placement_and_its_decisions_affect_their_namespace() {
    assert_eq!(hub().apply(&placement("all").selects(7)), of_namespace());
    assert_eq!(hub().delete(&placement("all")), of_namespace());
    assert_eq!(hub().apply(&decision("all", "all-1", &[])), of_namespace());
    assert_eq!(hub().delete(&decision("all", "all-1", &[])), of_namespace());
    assert_eq!(hub().apply(&decision("far", "far-1", &[]).in_ns("bank")), Keys::new());
}

#[test]
fn cluster_labels_affect_gateways_and_policies_that_select_by_label() {
    let waits = Key::Works(gateway_origin("web"));
    assert_eq!(hub().apply(&cluster("eu-1").label("a", "b")), Keys::from([waits.clone(), gateway_fold()]));
    let selective = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "a=b");
    let mut world = hub().with(selective);
    let keys = Keys::from([Key::Works(policy_origin("limits")), fold(), waits, gateway_fold()]);
    assert_eq!(world.apply(&cluster("eu-1").label("a", "b")), keys);
    assert_eq!(world.delete(&cluster("eu-1")), keys);
    let overridden = policy("limits")
        .targets("web")
        .annotation("kuadrant.io/cluster-overrides", r#"[{"clusterSelector": "a=b", "patch": {}}]"#);
    assert_eq!(hub().with(overridden).apply(&cluster("eu-1").label("a", "b")), keys);
}

#[test]
fn pause_of_a_cluster_affects_all_objects_on_the_cluster() {
    let keys = Keys::from([
        Key::Works(policy_origin("limits")),
        fold(),
        Key::Works(gateway_origin("web")),
        gateway_fold(),
    ]);
    let paused = || cluster("eu-1").annotation("kuadrant.io/paused", "true");
    let mut world = hub();
    assert_eq!(world.apply(&paused()), keys);
    assert_eq!(world.apply(&cluster("eu-1")), keys);
    assert_eq!(hub().apply(&cluster("far-1").annotation("kuadrant.io/paused", "true")), Keys::new());
}

#[test]
fn policy_affects_itself_watches_and_gateways_that_may_wait() {
    let keys = Keys::from([Key::Watches, Key::Works(policy_origin("limits")), fold(), gateway_fold()]);
    assert_eq!(hub().apply(&policy("limits").targets("other")), keys);
    assert_eq!(
        hub().apply(&policy("limits").targets("web").annotation("kuadrant.io/policies-synced", "")),
        keys
    );
    assert_eq!(hub().delete(&policy("limits")), keys);
}

#[test]
fn kind_affects_its_policies_gateways_watches_and_classes() {
    let mut keys = Keys::from([Key::Watches, of_class(), Key::Works(policy_origin("limits")), fold()]);
    keys.extend([Key::Works(gateway_origin("web")), gateway_fold()]);
    let gone = rows::kind::Resolution::Gone;
    assert_eq!(hub().resolve("v1", "ratelimitpolicies", gone), keys);
    assert_eq!(hub().forget(&POLICIES.resource(limits())), keys);
}

#[test]
fn first_listing_of_a_kind_affects_its_policies_even_if_empty() {
    let mut world = hub();
    world.forget(&POLICIES.resource(limits()));
    let keys = world.list(&POLICIES.resource(limits()), &[]);
    assert_eq!(
        keys,
        Keys::from([
            Key::Works(policy_origin("limits")),
            fold(),
            Key::Works(gateway_origin("web")),
            gateway_fold()
        ]),
        "of the works that are there"
    );
    assert_eq!(world.list(&POLICIES.resource(limits()), &[]), Keys::new(), "the second");
}

#[test]
fn content_of_a_work_affects_its_plan_its_fold_and_access() {
    let keys = Keys::from([Key::Works(policy_origin("limits")), fold(), access()]);
    let origin = policy_origin("limits");
    assert_eq!(hub().edit(&origin, "eu-1", |work| work["spec"]["workload"] = json!({})), keys);
    let deleted =
        |work: &mut serde_json::Value| work["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(hub().edit(&origin, "eu-1", deleted), keys);
    assert_eq!(hub().edit(&origin, "eu-1", |work| work["metadata"]["uid"] = "new".into()), keys);
}

#[test]
fn deleted_gateway_work_affects_policies_and_folds_of_missing_ones() {
    let mut world = hub().with(policy("refused").targets("web"));
    let refused = Key::Fold(policy_origin("refused"));
    let deleted =
        |work: &mut serde_json::Value| work["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let keys = world.edit(&gateway_origin("web"), "eu-1", deleted);
    assert!(keys.is_superset(&Keys::from([Key::Works(policy_origin("limits")), refused])), "{keys:?}");
    assert!(!keys.contains(&fold()), "its own work tells when it goes");
}

#[test]
fn restored_gateway_work_on_an_unchosen_cluster_affects_policies() {
    let restored = |clusters: &[&str]| {
        let (mut world, web) = (hub(), gateway_origin("web"));
        let mut own = json!({});
        world.edit(&web, "eu-1", |work| {
            own = work.clone();
            work["metadata"]["annotations"] = json!({});
        });
        world.apply(&decision("all", "all-1", clusters));
        own["metadata"]["resourceVersion"] = "1000000".into();
        world.apply_as_it_is(&WORKS.all(), &own)
    };
    let policies = Keys::from([Key::Works(policy_origin("limits")), fold()]);
    assert!(restored(&["eu-1"]).is_disjoint(&policies));
    let displaced = restored(&[]);
    assert!(displaced.is_superset(&policies), "{displaced:?}");
}

#[test]
fn report_of_an_agent_affects_only_the_fold() {
    let mut world = hub();
    let report = |work: &mut serde_json::Value| work["status"] = applied().status(work);
    assert_eq!(world.edit(&policy_origin("limits"), "eu-1", report), Keys::from([fold()]));
    assert_eq!(world.edit(&policy_origin("limits"), "eu-1", report), Keys::new(), "an unchanged report");
    assert_eq!(world.edit(&gateway_origin("web"), "eu-1", report), Keys::from([gateway_fold()]));
}

#[test]
fn foreign_work_of_a_planned_name_affects_its_origin() {
    let mut world = hub().with(policy_of("ratelimitpolicies", "other"));
    let theirs = |work: &mut serde_json::Value| work["metadata"]["annotations"] = json!({});
    let name = world.see(|view| view.works_of(&policy_origin("limits")).next().unwrap().0.clone());
    let of_limits = Keys::from([Key::Works(policy_origin("limits")), fold()]);
    assert!(world.edit(&policy_origin("limits"), "eu-1", theirs).is_superset(&of_limits));
    let gone = SourceEvent::Deleted {
        source: WORKS.all(),
        key: ObjectKey { namespace: "eu-1".into(), name: name.0 },
        version: 1_000_000,
    };
    assert_eq!(world.change(gone), of_limits);
}

#[test]
fn work_whose_name_contradicts_its_new_origin_becomes_foreign() {
    let mut world = hub().with(policy_of("ratelimitpolicies", "other"));
    let name = world.see(|view| view.works_of(&policy_origin("limits")).next().unwrap().0.clone());
    let keys = world.edit(&policy_origin("limits"), "eu-1", |work| {
        work["metadata"]["annotations"]["kuadrant.io/parent"] =
            "ratelimitpolicies.kuadrant.io/shop/other".into();
    });
    assert_eq!(
        keys,
        Keys::from([Key::Works(policy_origin("limits")), fold(), access()]),
        "its name proves no other"
    );
    assert_eq!(world.see(|view| view.works_of(&policy_origin("limits")).count()), 0);
    let purpose = world.see(|view| view.work(&name, &"eu-1".into()).unwrap().purpose.clone());
    assert_eq!(purpose, rows::work::Purpose::Foreign);
    assert_eq!(world.see(|view| view.kinds_in_works(&"eu-1".into())), [GroupResource::gateways()].into());
}

#[test]
fn the_creation_time_of_a_copy_affects_younger_policies_and_the_order_of_its_neighbors() {
    let aged = |name: &str, second: u32| {
        let created = json!(format!("2025-12-31T00:00:{second:02}Z"));
        policy(name).targets("web").metadata("creationTimestamp", created)
    };
    let mut world =
        shop(&["eu-1"]).with(aged("zzz", 0)).with(aged("aaa", 5)).settled(&[policy_origin("zzz")]);
    let younger = Key::Fold(policy_origin("aaa"));
    let created = |work: &mut serde_json::Value| {
        work["status"] = applied().created("2026-01-01T00:00:00Z").status(work);
    };
    let keys = world.edit(&policy_origin("zzz"), "eu-1", created);
    assert!(keys.contains(&younger), "{keys:?}");
    assert_eq!(world.edit(&policy_origin("zzz"), "eu-1", created), Keys::new(), "again");
    let deleted =
        |work: &mut serde_json::Value| work["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let keys = world.edit(&policy_origin("zzz"), "eu-1", deleted);
    assert!(keys.contains(&younger), "{keys:?}");
    let retargeted = aged("zzz", 0).spec("targetRef", crate::testing::objects::target("api"));
    for keys in [world.apply(&retargeted), world.apply(&aged("zzz", 0)), world.delete(&aged("zzz", 0))] {
        assert!(keys.contains(&younger), "{keys:?}");
    }
}

#[test]
fn the_next_younger_policy_without_a_work_is_affected_however_many_have_one() {
    let aged = |name: &str, second: u32| {
        let created = json!(format!("2025-12-31T00:{:02}:{:02}Z", second / 60, second % 60));
        policy(name).targets("web").metadata("creationTimestamp", created)
    };
    let mut world = shop(&["eu-1"]).with(aged("zzz", 0)).settled(&[policy_origin("zzz")]);
    for second in 1..=70 {
        let name = format!("p{second:02}");
        world = world.with(aged(&name, second)).settled(&[policy_origin(&name)]);
    }
    let mut world = world.with(aged("p71", 71));
    let keys = world.edit(&policy_origin("zzz"), "eu-1", |work: &mut serde_json::Value| {
        work["status"] = applied().created("2026-01-01T00:00:00Z").status(work);
    });
    assert!(keys.contains(&Key::Fold(policy_origin("p71"))), "{keys:?}");
}
