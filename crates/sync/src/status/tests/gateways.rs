//! Tests of the planned status and metadata of a hub Gateway.

mod again;
mod labels;
mod room;

use serde_json::{Value, json};

use crate::kinds::CONFIG_MAPS;
use crate::status::gateway::{GatewayFold, Metadata, plan};
use crate::status::sync_state::SyncState;
use crate::testing::objects::{CONTROLLER, Object, class, cluster, gateway, gateway_origin};
use crate::testing::reports::{TestReport, applied, programmed, refused};
use crate::testing::world::{World, shop};
use policy_sync_api::gateway::GatewayStatus;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ControllerName;

fn web() -> Object {
    gateway("web").placed_on("all")
}

fn fold(world: &World) -> GatewayFold {
    world.see(|view| plan(view, &world.settings, gateway_origin("web").object()))
}

fn status(world: &World) -> GatewayStatus {
    fold(world).status.expect("a status to write")
}

fn metadata(world: &World) -> Metadata {
    fold(world).metadata.expect("metadata to write")
}

/// The status, reason and message of the condition `name`.
fn condition(world: &World, name: &str) -> (String, String, String) {
    let condition = status(world).conditions.into_iter().find(|condition| condition.type_ == name).unwrap();
    (condition.status, condition.reason, condition.message)
}

fn programmed_message(world: &World) -> String {
    let (status, reason, message) = condition(world, "Programmed");
    format!("{status} {reason}: {message}")
}

fn addresses(world: &World) -> Vec<String> {
    status(world).addresses.into_iter().map(|address| address.value).collect()
}

fn listeners(world: &World) -> Vec<String> {
    status(world).listeners.into_iter().map(|listener| listener.name).collect()
}

/// The conditions of the first listener.
fn listener_messages(world: &World) -> Vec<String> {
    let conditions = status(world).listeners.remove(0).conditions;
    conditions
        .iter()
        .map(|condition| format!("{}={} {}", condition.type_, condition.status, condition.reason))
        .collect()
}

/// The Gateway `web` on these clusters, with its works written.
fn placed(clusters: &[&str]) -> World {
    shop(clusters).settled(&[gateway_origin("web")])
}

/// `object` after `fold` was written, as the server returns it.
fn after_fold(object: &Object, fold: &GatewayFold) -> Object {
    let mut object = object.clone();
    let manager = ControllerName::new(CONTROLLER).hub_field_manager();
    let mut entries = object.json["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    if let Some(Metadata { labels, annotations }) = &fold.metadata {
        entries.retain(|entry| entry["manager"] != manager.as_str() || !entry["subresource"].is_null());
        let owned = |strings: &crate::rows::Strings| -> Value {
            strings
                .keys()
                .map(|key| (format!("f:{key}"), json!({})))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let fields = json!({"f:metadata": {"f:labels": owned(labels), "f:annotations": owned(annotations)}});
        entries.push(json!({"manager": manager, "operation": "Apply", "fieldsV1": fields}));
        for (field, strings) in [("labels", labels), ("annotations", annotations)] {
            let found = object.json["metadata"][field].as_object().cloned().unwrap_or_default();
            let ours = crate::rows::gateway_fields::GatewayFields::is_ours;
            let others = found.into_iter().filter(|(key, _)| !ours(key));
            let ours = strings.iter().map(|(key, value)| (key.clone(), json!(value)));
            object.json["metadata"][field] = others.chain(ours).collect::<serde_json::Map<_, _>>().into();
        }
    }
    if let Some(status) = &fold.status {
        entries.retain(|entry| entry["manager"] != manager.as_str() || entry["subresource"].is_null());
        let step = |key: &str, item: &str| format!("k:{}", json!({ key: item }));
        let listeners: serde_json::Map<String, Value> = status
            .listeners
            .iter()
            .map(|listener| {
                let conditions: serde_json::Map<String, Value> = listener
                    .conditions
                    .iter()
                    .map(|condition| (step("type", &condition.type_), json!({".": {}})))
                    .collect();
                (step("name", &listener.name), json!({".": {}, "f:conditions": conditions}))
            })
            .collect();
        let fields = json!({"f:status": {"f:addresses": {}, "f:listeners": listeners}});
        entries.push(
            json!({"manager": manager, "operation": "Apply", "subresource": "status", "fieldsV1": fields}),
        );
        object.json["status"] = json!(status);
    }
    object.json["metadata"]["managedFields"] = json!(entries);
    object
}

/// The world after the planned status of `web` was written.
fn settled(world: World, web: &Object) -> (World, Object) {
    let object = after_fold(web, &fold(&world));
    (world.with(object.clone()), object)
}

fn says_all(world: &World) {
    let fold = fold(world);
    assert_eq!((fold.metadata, fold.status), (None, None));
}

/// A copy of the world that contains the Gateway `object`.
fn world_with(world: &World, object: &Object) -> World {
    World {
        mirror: world.mirror.clone(),
        settings: world.settings.clone(),
        refused: world.refused.clone(),
        waits: world.waits.clone(),
        works: world.works.clone(),
        ..*world
    }
    .with(object.clone())
}

#[test]
fn gateway_is_programmed_if_every_cluster_reports_it() {
    let world = placed(&["eu-1", "us-1"]).with_gateway_report("us-1", &programmed("192.0.2.2"));
    assert_eq!(
        programmed_message(&world),
        "False Pending: not programmed on 1 of 2 clusters: eu-1 (pending)"
    );
    let world = world.with_gateway_report("eu-1", &programmed("a.example.com"));
    assert_eq!(programmed_message(&world), "True Programmed: programmed on all of its clusters: 2");
    let (accepted, reason, _) = condition(&world, "Accepted");
    assert_eq!((&*accepted, &*reason), ("True", "Accepted"));
    let expected = json!([
        {"type": "kuadrant.io/MultiClusterHostnameAddress", "value": "eu-1/a.example.com"},
        {"type": "kuadrant.io/MultiClusterIPAddress", "value": "us-1/192.0.2.2"},
    ]);
    assert_eq!(json!(status(&world).addresses), expected);
    let mut listener = json!(status(&world).listeners[0]);
    listener["conditions"][0]["lastTransitionTime"].take();
    let expected = json!({
        "name": "eu-1.http", "attachedRoutes": 1,
        "supportedKinds": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}],
        "conditions": [{"type": "Programmed", "status": "True", "reason": "Programmed", "message": "",
            "observedGeneration": 1, "lastTransitionTime": null}],
    });
    assert_eq!(listener, expected);
}

#[test]
fn cluster_without_address_is_named() {
    let world = placed(&["eu-1", "us-1"])
        .with_gateway_report("eu-1", &programmed("192.0.2.1"))
        .with_gateway_report("us-1", &applied().condition("Programmed", "True", "Programmed", ""));
    let expected = "True Programmed: programmed on all of its clusters: 2; without an address: us-1";
    assert_eq!(programmed_message(&world), expected);
    assert_eq!(addresses(&world), ["eu-1/192.0.2.1"]);
}

#[test]
fn undeleted_gateway_is_reported_after_five_minutes() {
    const LONG: i64 = 300_000;
    let world = placed(&["eu-1", "us-1"])
        .with_gateway_report("eu-1", &programmed("192.0.2.1"))
        .decisions("all", &["eu-1"])
        .after(10_000);
    let now = Moment(world.now).rfc3339();
    let world = world.edited(&gateway_origin("web"), "us-1", |work| {
        work["metadata"]["deletionTimestamp"] = now.into();
    });
    let (expected, stuck) =
        ("True Programmed: programmed on all of its clusters: 1", "not deleted on us-1 after 5 minutes");
    let at = |world: &World| fold(world).recheck.map(|Moment(at)| at - world.now);
    assert_eq!((programmed_message(&world), at(&world)), (expected.to_owned(), Some(LONG)));
    let world = world.after(LONG - 1);
    assert_eq!((programmed_message(&world), at(&world)), (expected.to_owned(), Some(1)));
    let world = world.after(1);
    assert_eq!(programmed_message(&world), format!("{expected}; {stuck}"));
    let notices = fold(&world).notices;
    let notes: Vec<(&str, &str)> =
        notices.iter().map(|notice| (notice.reason.as_str(), notice.note.as_str())).collect();
    assert_eq!(notes[1], ("Stuck", stuck));
    assert!(!notices[1].reason.is_good());
}

#[test]
fn unprogrammed_cluster_is_named_with_its_reason() {
    let message_of =
        |report: &TestReport| programmed_message(&placed(&["eu-1"]).with_gateway_report("eu-1", report));
    let no = |text: &str| format!("False NotProgrammed: not programmed on 1 of 1 clusters: eu-1 ({text})");
    let pending = |text: &str| format!("False Pending: not programmed on 1 of 1 clusters: eu-1 ({text})");
    let invalid = programmed("a").condition("Programmed", "False", "Invalid", "no certificate");
    assert_eq!(message_of(&invalid), no("Invalid: no certificate"));
    let unaccepted = programmed("a").condition("Accepted", "False", "UnsupportedAddress", "");
    assert_eq!(message_of(&unaccepted), no("UnsupportedAddress"), "whatever else it says");
    assert_eq!(message_of(&refused("conflict with kubectl")), no("conflict with kubectl"));
    let waiting = applied().condition("Programmed", "Unknown", "Pending", "Waiting for controller");
    assert_eq!(message_of(&waiting), pending("Pending: Waiting for controller"));
    assert_eq!(message_of(&applied()), pending("pending"), "it says nothing");
}

#[test]
fn reports_of_another_revision_or_generation_do_not_count() {
    for stale in [
        programmed("a").of_revision("another"),
        programmed("a").for_work_generation(0),
        programmed("a").condition_observed("Programmed", 0),
        programmed("a").condition_observed("Accepted", 7),
    ] {
        let world = placed(&["eu-1"]).with_gateway_report("eu-1", &stale);
        let expected = "False Pending: not programmed on 1 of 1 clusters: eu-1 (pending)";
        assert_eq!(programmed_message(&world), expected, "{stale:?}");
        assert_eq!(addresses(&world), ["eu-1/a"], "traffic still goes there");
        assert_eq!(status(&world).listeners[0].attached_routes, 1);
        assert_eq!(
            listener_messages(&world),
            ["Programmed=Unknown Pending"],
            "but its conditions count no more"
        );
    }
    let old_listener = programmed("a").integer("_listener_http_observedGeneration", 0);
    let world = placed(&["eu-1"]).with_gateway_report("eu-1", &old_listener);
    assert_eq!(condition(&world, "Programmed").0, "True");
    assert_eq!(listener_messages(&world), ["Programmed=Unknown Pending"]);
}

#[test]
fn changed_gateway_is_pending_and_keeps_its_addresses() {
    let world = placed(&["eu-1"]).with_gateway_report("eu-1", &programmed("192.0.2.1"));
    let changed = web().spec("infrastructure", json!({})).metadata("generation", json!(2));
    let world = world.with(changed);
    assert_eq!(condition(&world, "Programmed").1, "Pending");
    assert_eq!(status(&world).conditions[0].observed_generation, Some(2));
    assert_eq!(addresses(&world), ["eu-1/192.0.2.1"]);
    assert_eq!(listeners(&world), ["eu-1.http"]);
}

#[test]
fn unplaced_gateway_is_not_placed() {
    let message_of = |gateway| programmed_message(&placed(&[]).with(gateway));
    let web = || gateway("web");
    for (gateway, why) in [
        (web().placed_on("all"), "Placement shop/all has selected no cluster"),
        (web(), "it has no label cluster.open-cluster-management.io/placement"),
        (web().placed_on(""), "it has an empty label cluster.open-cluster-management.io/placement"),
        (web().placed_on("none"), "it names Placement shop/none, which does not exist"),
    ] {
        assert_eq!(message_of(gateway), format!("False NotPlaced: {why}"));
    }
    let world = placed(&[]).with(gateway("web"));
    assert_eq!(metadata(&world).annotations["kuadrant.io/gateway-clusters"], "[]");
}

#[test]
fn frozen_gateway_is_not_accepted() {
    let world = placed(&["eu-1"]).with_gateway_report("eu-1", &programmed("192.0.2.1")).params("multi", "{");
    let (accepted, reason, message) = condition(&world, "Accepted");
    assert_eq!((&*accepted, &*reason), ("False", "InvalidParameters"));
    assert!(message.starts_with("GatewayClass multi has invalid parameters: "), "{message}");
    assert_eq!(
        programmed_message(&world),
        "False Pending: the current Gateway is not copied to its clusters"
    );
    assert_eq!(addresses(&world), ["eu-1/192.0.2.1"]);
}

#[test]
fn unknown_or_terminating_gateway_is_not_written() {
    let world = shop(&["eu-1"]);
    world.forget(&CONFIG_MAPS.object(policy_sync_api::names::ObjectKey::new("params", "multi")));
    assert_eq!(fold(&world), GatewayFold { sync_state: Some(SyncState::UNKNOWN), ..GatewayFold::default() });
    assert_eq!(fold(&shop(&["eu-1"]).with(web().deleting())), GatewayFold::default());
    assert_eq!(fold(&shop(&["eu-1"]).without(web())), GatewayFold::default());
}

#[test]
fn foreign_work_is_named() {
    let world = placed(&["eu-1"]);
    let (name, cluster) =
        world.work_names().into_iter().find(|(name, _)| name.starts_with("gateway-web")).unwrap();
    let theirs = json!({"metadata": {"name": name, "namespace": cluster, "uid": "other", "generation": 1}});
    let world = world.with_work(theirs);
    let message = condition(&world, "Programmed").2;
    assert!(
        message.contains("eu-1 (cluster eu-1 has a ManifestWork") && message.contains("of another owner"),
        "{message}"
    );
}

#[test]
fn ten_clusters_are_named_with_reasons_before_pending_ones() {
    let names: Vec<String> = (0..15).map(|n| format!("c{n:02}")).collect();
    let clusters: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = placed(&clusters)
        .with_gateway_report("c14", &programmed("a").condition("Programmed", "False", "Invalid", ""));
    let message = condition(&world, "Programmed").2;
    assert!(
        message.starts_with("not programmed on 15 of 15 clusters: c14 (Invalid); c00 (pending); "),
        "{message}"
    );
    assert!(message.ends_with("c08 (pending); and 5 more"), "{message}");
}

#[test]
fn leaving_cluster_loses_its_addresses() {
    let both = placed(&["eu-1", "us-1"])
        .with_gateway_report("eu-1", &programmed("192.0.2.1"))
        .with_gateway_report("us-1", &programmed("192.0.2.2"));
    assert_eq!(addresses(&both), ["eu-1/192.0.2.1", "us-1/192.0.2.2"]);
    let one = both.decisions("all", &["us-1"]).after(60_000);
    assert_eq!(addresses(&one), ["us-1/192.0.2.2"]);
    assert_eq!(condition(&one, "Programmed").0, "True");
    let going = one.terminating(&gateway_origin("web"), "us-1");
    assert_eq!(addresses(&going), Vec::<String>::new());
    assert!(condition(&going, "Programmed").2.contains("still being deleted"));
}
