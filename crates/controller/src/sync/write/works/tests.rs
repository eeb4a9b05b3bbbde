use std::sync::Arc;

use super::*;
use policy_sync_api::annotations::CONTROLLER;
use policy_sync_sync::desired::{Outcome, access};
use policy_sync_sync::rows::Strings;
use policy_sync_sync::testing::objects::{gateway_origin, policy, policy_origin};
use policy_sync_sync::testing::world::{World, shop};

fn world() -> World {
    shop(&["eu-1"]).with(policy("limits").targets("web"))
}

fn planned(outcomes: &BTreeMap<ClusterName, Outcome>) -> PlannedWork {
    let outcome = &outcomes[&ClusterName::from("eu-1")];
    (**outcome.work().unwrap_or_else(|| panic!("no work is planned: {outcome:?}"))).clone()
}

/// One work for each purpose: for a policy, for a Gateway, and for access to a cluster.
fn one_of_each() -> Vec<PlannedWork> {
    let world = world();
    let of = |origin| planned(&world.plan_of(&origin).outcomes);
    let (limits, web) = (of(policy_origin("limits")), of(gateway_origin("web")));
    let access = world.written().see(|view| access::plan(view, &"eu-1".into()));
    vec![limits, web, planned(&access.outcomes)]
}

/// The metadata of `work` on the server, with these labels.
fn metadata(work: &PlannedWork, labels: Strings) -> Metadata {
    let annotations = work.annotations.clone();
    Metadata { uid: "uid".into(), generation: 3, labels, annotations, ..Metadata::default() }
}

#[test]
fn own_work_regains_a_lost_label() {
    for work in one_of_each() {
        let mut labels = work.labels.clone();
        labels.remove(CONTROLLER);
        for labels in [labels, Strings::new()] {
            let found = classify_existing(&"eu-1".into(), &work, &metadata(&work, labels.clone()));
            let ExistingWork::Unlabelled(request) = found else { panic!("{}: {found:?}", work.name) };
            let body = String::from_utf8(request.unwrap().into_body()).unwrap();
            assert!(body.contains("kuadrant.io~1controller"), "{body}");
        }
        let found = classify_existing(&"eu-1".into(), &work, &metadata(&work, work.labels.clone()));
        assert!(matches!(found, ExistingWork::Lagging), "{}: {found:?}", work.name);
    }
}

#[test]
fn each_patch_tests_uid_and_generation_first() {
    let (cluster, uid) = (ClusterName::from("eu-1"), "uid-1".into());
    for work in one_of_each() {
        let name = work.name.clone();
        let marks = [None, Some(Moment(1_000))].map(|unplaced| WorkAction::Mark {
            cluster: cluster.clone(),
            name: name.clone(),
            uid: Arc::clone(&uid),
            unplaced,
        });
        let update = WorkAction::Update {
            cluster: cluster.clone(),
            work: Arc::new(work),
            uid: uid.clone(),
            generation: 3,
        };
        for action in marks.into_iter().chain([update]) {
            let patch: Value = serde_json::from_slice(request(&action).unwrap().body()).unwrap();
            assert_eq!(patch[0], json!({"op": "test", "path": "/metadata/uid", "value": "uid-1"}));
            if matches!(action, WorkAction::Update { .. }) {
                assert_eq!(patch[1], json!({"op": "test", "path": "/metadata/generation", "value": 3}));
            }
            assert!(patch.as_array().unwrap().iter().any(|operation| operation["op"] != "test"), "{patch}");
        }
    }
}

#[test]
fn work_without_the_planned_origin_is_foreign() {
    for work in one_of_each().into_iter().take(2) {
        for origin in [None, Some("ratelimitpolicies.kuadrant.io/shop/other")] {
            let mut theirs = metadata(&work, Strings::new());
            theirs.annotations =
                origin.map(|origin| (PARENT.to_owned(), origin.to_owned())).into_iter().collect();
            assert!(
                matches!(classify_existing(&"eu-1".into(), &work, &theirs), ExistingWork::Foreign),
                "{}",
                work.name
            );
        }
    }
}
