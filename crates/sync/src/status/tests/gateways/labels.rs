//! Tests of the labels and the annotation about the clusters of a Gateway.

use super::*;

#[test]
fn attributes_of_clusters_are_labels() {
    let world = placed(&["eu-1", "us-1"])
        .with(cluster("eu-1").label("kuadrant.io/region", "eu").label("region", "eu"))
        .with(cluster("us-1").label("kuadrant.io/region", "us").label("other.kuadrant.io/a", "b"))
        .with(cluster("far-1").label("kuadrant.io/region", "far"));
    let found = metadata(&world);
    assert_eq!(found.annotations["kuadrant.io/gateway-clusters"], r#"["eu-1","us-1"]"#);
    let labels: Vec<String> = found.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(labels, ["clusters.kuadrant.io/eu-1_region=eu", "clusters.kuadrant.io/us-1_region=us"]);
}

#[test]
fn invalid_label_is_reported() {
    let attribute = "a".repeat(59);
    let world = placed(&["eu-1"])
        .with(cluster("eu-1").label(&format!("kuadrant.io/{attribute}"), "x").label("kuadrant.io/b", "y"));
    assert_eq!(metadata(&world).labels.len(), 1);
    let message = condition(&world, "Accepted").2;
    assert!(message.ends_with(&format!("because they do not fit: the label eu-1_{attribute}")), "{message}");
}

#[test]
fn cluster_with_many_labels_leaves_room_for_others() {
    let mut eu = cluster("eu-1").label("region", "eu");
    for number in 0..2_000 {
        eu = eu.label(&format!("kuadrant.io/a{number:04}"), &"x".repeat(63));
    }
    let us = cluster("us-1").label("kuadrant.io/region", "us");
    let world = placed(&["eu-1", "us-1"]).with(eu).with(us);
    let labels = metadata(&world).labels;
    assert_eq!(labels.len(), 17);
    assert_eq!(labels["clusters.kuadrant.io/us-1_region"], "us");
    assert!(labels.contains_key("clusters.kuadrant.io/eu-1_a0000"), "by name: {labels:?}");
    let message = condition(&world, "Accepted").2;
    let expected = "left out, because they do not fit: 1984 of eu-1's labels kuadrant.io/*";
    assert!(message.ends_with(expected), "{message}");
    assert_eq!(world.see(|view| view.cluster(&"eu-1".into()).unwrap().labels["region"].clone()), "eu");
}

#[test]
fn at_most_two_kib_of_labels_per_cluster_count() {
    let mut eu = cluster("eu-1").label("kuadrant.io/z", "z");
    for number in 0..15 {
        eu = eu.label(&format!("kuadrant.io/{number:02}{}", "a".repeat(61)), &"x".repeat(63));
    }
    let labels = placed(&["eu-1"]).with(eu).see(|view| view.cluster(&"eu-1".into()).unwrap().labels.clone());
    let bytes: usize = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(bytes <= 2048, "{bytes}");
    assert_eq!(labels.len(), 15, "one that fits is not left out for one that does not");
}

#[test]
fn labels_are_removed_with_the_cluster_and_with_the_class() {
    let region = |name: &str| cluster(name).label("kuadrant.io/region", "x");
    let world = placed(&["eu-1", "us-1"]).with(region("eu-1")).with(region("us-1"));
    let (world, object) = settled(world, &web());
    let one = world_with(&world, &object).decisions("all", &["us-1"]).after(60_000);
    assert_eq!(metadata(&one).labels.len(), 1);
    let other = world.with(class("multi").spec("controllerName", "example.com/other".into()));
    let found = fold(&other);
    assert_eq!(found.metadata, Some(Metadata::default()), "all of ours goes");
    assert_eq!(found.status, None, "the status is another's");
    let (other, _) = settled(other, &object);
    says_all(&other);
}

#[test]
fn gateway_of_another_controller_is_not_written() {
    let foreign = class("theirs").spec("controllerName", "example.com/other".into());
    let web = web().of_class("theirs").annotation("kuadrant.io/gateway-clusters", "[]");
    says_all(&shop(&["eu-1"]).with(foreign).with(web));
}

fn owned(manager: &str, fields: Value) -> Value {
    json!([{"manager": manager, "operation": "Apply", "fieldsV1": {"f:metadata": fields}}])
}

#[test]
fn metadata_owned_by_another_controller_is_contested() {
    let owned = owned("policy-sync-other", json!({"f:annotations": {"f:kuadrant.io/gateway-clusters": {}}}));
    let object = web().annotation("kuadrant.io/gateway-clusters", "[]").metadata("managedFields", owned);
    let found = fold(&placed(&["eu-1"]).with(object));
    let (contest, theirs) = found.contest.unwrap();
    assert_eq!((contest.others, contest.has_work), (["policy-sync-other".into()].into(), true));
    assert_eq!(theirs, None, "there is nothing to let go of");
    assert!(found.status.is_some());
}

/// Omitting a label from an apply does not remove the label if another manager owns the label, too.
#[test]
fn own_label_added_by_a_user_is_removed_in_two_steps() {
    let key = "clusters.kuadrant.io/eu-1_region";
    let owned = owned("kubectl", json!({"f:labels": {format!("f:{key}"): {}}}));
    let object = web().label(key, "x").metadata("managedFields", owned);
    let world = placed(&["eu-1"]).with(object.clone());
    let first = metadata(&world);
    assert_eq!(first.labels[key], "", "now it is ours alone");
    let mut object = after_fold(&object, &fold(&world));
    object.json["metadata"]["managedFields"].as_array_mut().unwrap().remove(0);
    let (world, object) = settled(world.with(object.clone()), &object);
    says_all(&world);
    assert_eq!(object.json["metadata"]["labels"][key], Value::Null);
}

#[test]
fn cluster_labels_and_annotation_are_not_copied_to_spokes() {
    let world = placed(&["eu-1"]).with(cluster("eu-1").label("kuadrant.io/region", "eu"));
    let before = world.copy_of(&gateway_origin("web"), "eu-1");
    let (world, object) = settled(world, &web());
    assert_eq!(object.json["metadata"]["labels"]["clusters.kuadrant.io/eu-1_region"], "eu");
    assert_eq!(world.copy_of(&gateway_origin("web"), "eu-1"), before);
    assert_eq!(world.writes_of(&gateway_origin("web")), Vec::<String>::new());
}

#[test]
fn cluster_list_fits_into_the_room_left_by_others() {
    let names: Vec<String> = (0..3_000).map(|n| format!("c{n:0>50}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for other in [0, 200 * 1024, 239 * 1024] {
        let world = shop(&names).with(web().annotation("example.com/large", &"x".repeat(other)));
        let text = &metadata(&world).annotations["kuadrant.io/gateway-clusters"];
        assert!(text.len() + other < 240 * 1024 && text.len() < 128 * 1024);
        let listed: Vec<String> = serde_json::from_str(text).unwrap();
        assert!(!listed.is_empty() && listed.len() < 3_000);
        let message = condition(&world, "Accepted").2;
        let expected = format!("{} clusters in kuadrant.io/gateway-clusters", 3_000 - listed.len());
        assert!(message.ends_with(&expected), "{message}");
    }
    let world = shop(&names).with(web().annotation("example.com/large", &"x".repeat(240 * 1024)));
    assert_eq!(fold(&world).metadata, None);
}
