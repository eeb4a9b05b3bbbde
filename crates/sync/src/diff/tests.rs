//! Tests which works are created, updated, deleted or left unchanged.

use serde_json::json;

use super::WorkAction;
use crate::testing::objects::{gateway_origin, listing, policy, policy_origin};
use crate::testing::world::{World, shop};

const NOTHING: [&str; 0] = [];

fn written() -> World {
    shop(&["eu-1"]).with(policy("limits").targets("web")).written()
}

#[test]
fn unchanged_works_are_not_written() {
    assert_eq!(written().writes("limits"), NOTHING);
    assert_eq!(written().access_writes("eu-1"), NOTHING);
}

#[test]
fn changed_policy_updates_its_works() {
    let world = written().with(policy("limits").targets("web").spec("rate", json!(5)));
    assert_eq!(world.writes("limits"), ["update eu-1"]);
}

#[test]
fn update_has_the_uid_and_generation_of_the_mirror() {
    let world = written().with(policy("limits").targets("web").spec("rate", json!(5)));
    match &world.diff_of(&policy_origin("limits")).actions[..] {
        [WorkAction::Update { uid, generation, .. }] => {
            assert!(uid.ends_with("-eu-1"));
            assert_eq!(*generation, 1);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn edited_work_is_restored() {
    for path in [
        "/spec/deleteOption/propagationPolicy",
        "/spec/manifestConfigs/1/updateStrategy/serverSideApply/force",
    ] {
        let world = written().edited(&policy_origin("limits"), "eu-1", |work| {
            *work.pointer_mut(path).unwrap() =
                if path.ends_with("force") { json!(true) } else { json!("Orphan") };
        });
        assert_eq!(world.writes("limits"), ["update eu-1"], "{path}");
    }
}

#[test]
fn edited_label_is_restored() {
    let world = written().edited(&policy_origin("limits"), "eu-1", |work| {
        work["metadata"]["labels"]["kuadrant.io/work-for"] = "gateway".into();
    });
    assert_eq!(world.writes("limits"), ["update eu-1"]);
}

#[test]
fn additions_by_others_are_kept() {
    let world = written().edited(&policy_origin("limits"), "eu-1", |work| {
        work["metadata"]["labels"]["team"] = "a".into();
        work["metadata"]["annotations"]["team"] = "a".into();
        work["metadata"]["finalizers"] = json!(["cluster.open-cluster-management.io/manifest-work-cleanup"]);
        work["spec"]["executor"] = json!({"subject": {}});
    });
    assert_eq!(world.writes("limits"), NOTHING);
}

#[test]
fn work_of_the_planned_name_with_another_origin_is_foreign() {
    let world = written().edited(&policy_origin("limits"), "eu-1", |work| {
        work["metadata"]["annotations"]["kuadrant.io/parent"] =
            "ratelimitpolicies.kuadrant.io/shop/other".into();
    });
    assert_eq!(world.writes("limits"), NOTHING);
    let problem = world.diff_of(&policy_origin("limits")).problems[0].to_string();
    assert!(problem.contains("of another owner: it is not changed"), "{problem}");
    let world = world.without(policy("limits"));
    assert_eq!(world.writes("limits"), NOTHING, "nor is it deleted");
}

#[test]
fn work_whose_name_does_not_match_its_origin_is_ignored() {
    let claim = json!({"metadata": {"name": "mine", "namespace": "eu-1", "uid": "x", "annotations":
        {"kuadrant.io/parent": "ratelimitpolicies.kuadrant.io/shop/limits"}}});
    let world = shop(&[]).with_work(claim);
    assert_eq!(world.writes("limits"), NOTHING);
}

#[test]
fn terminating_work_is_neither_deleted_nor_updated() {
    let world = written().terminating(&policy_origin("limits"), "eu-1");
    assert_eq!(world.writes("limits"), NOTHING, "still wanted");
    let world = world.with(policy("limits").targets("web").spec("rate", json!(5)));
    assert_eq!(world.writes("limits"), NOTHING, "wanted otherwise");
    let world = world.without(policy("limits"));
    assert_eq!(world.writes("limits"), NOTHING, "wanted no more");
}

#[test]
fn planned_work_is_created_once_the_old_one_is_gone() {
    let world =
        written().terminating(&policy_origin("limits"), "eu-1").gone(&policy_origin("limits"), "eu-1");
    assert_eq!(world.writes("limits"), ["create eu-1"]);
}

#[test]
fn works_of_a_deleted_policy_are_deleted() {
    assert_eq!(written().without(policy("limits")).writes("limits"), ["delete eu-1"]);
}

#[test]
fn works_of_a_renamed_kind_are_replaced() {
    let world = written().kind("ratelimitpolicies", "LimitPolicy").with(policy("limits").targets("web"));
    assert_eq!(world.writes("limits"), ["create eu-1", "delete eu-1"]);
}

#[test]
fn scrape_types_are_omitted_if_the_hub_lacks_them() {
    use crate::rows::schema::WorkSchema;
    let world = written();
    let older = WorkSchema { feedback_scrape_type: false, ..WorkSchema::FULL };
    world.change(crate::found::work_schema(older));
    match &world.diff_of(&policy_origin("limits")).actions[..] {
        [WorkAction::Update { work, .. }] => {
            assert!(!work.object("eu-1").unwrap().to_string().contains("feedbackScrapeType"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn work_combines_the_parameters_of_several_classes() {
    let params = |conflicts: &str, skip: &str, fields: &[(&str, &str)]| {
        let fields: Vec<_> = fields.iter().map(|(name, path)| json!({"name": name, "path": path})).collect();
        let mut params = listing(&["ratelimitpolicies"]);
        params["conflicts"] = conflicts.into();
        params["metadataToSkip"] = json!([skip]);
        params["policiesToSync"][0]["statusFields"] = json!(fields);
        params
    };
    let world = shop(&["eu-1"])
        .class("multi", &params("overwrite", "one", &[("a", ".a"), ("b", ".b")]))
        .class("second", &params("keep", "two", &[("b", ".other"), ("c", ".c")]))
        .with(crate::testing::objects::gateway("internal").of_class("second").placed_on("all"))
        .with(
            policy("limits")
                .targets_all(&["web", "internal"])
                .label("one", "")
                .label("two", "")
                .label("three", ""),
        );
    let plan = world.plan("limits");
    let Some(crate::desired::Outcome::Work(work)) = plan.outcomes.values().next() else { panic!() };
    let spec = work.spec().unwrap();
    let config = &spec.manifest_configs[1];
    let names: Vec<&str> =
        config.feedback_rules[0].json_paths.iter().map(|path| path.name.as_str()).collect();
    assert!(names.ends_with(&["a", "b", "c"]), "the union of their fields: {names:?}");
    let strategy = config.update_strategy.as_ref().unwrap().server_side_apply.as_ref().unwrap();
    assert!(!strategy.force, "keep wins over overwrite");
    let labels = &spec.workload.manifests[1].0["metadata"]["labels"];
    assert_eq!(*labels, json!({"three": ""}), "what one of them skips stays");
}

#[test]
fn overwrite_applies_if_all_classes_request_it() {
    let mut params = listing(&["ratelimitpolicies"]);
    params["conflicts"] = "overwrite".into();
    let world = written().params("multi", &params.to_string());
    assert_eq!(world.writes("limits"), ["update eu-1"]);
    assert_eq!(world.writes_of(&gateway_origin("web")), ["update eu-1"]);
}
