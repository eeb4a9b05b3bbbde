use regorus::Value;
use serde_json::json;

use crate::rego_loading::tests::{Hub, NOW, object};
use policy_sync_api::names::GroupResource;

fn documents(hub: &Hub, plural: &str) -> serde_json::Value {
    let guard = hub.0.read();
    let value: Value = guard.view(NOW).documents(&GroupResource::new("", plural));
    serde_json::to_value(value).unwrap()
}

#[test]
fn objects_appear_by_namespace_and_name_until_deleted() {
    let hub = Hub::new();
    let (web, db) = (object("Pod", Some("shop"), "web"), object("Pod", Some("shop"), "db"));
    let other = object("Pod", Some("other"), "web");
    let node = object("Node", None, "n1");
    hub.documents("pods", &[web.clone(), db.clone(), other.clone()]);
    hub.documents("nodes", std::slice::from_ref(&node));
    assert_eq!(documents(&hub, "pods"), json!({"shop": {"web": web, "db": db}, "other": {"web": other}}));
    assert_eq!(documents(&hub, "nodes"), json!({"n1": node}));
    hub.documents("pods", std::slice::from_ref(&web));
    assert_eq!(documents(&hub, "pods"), json!({"shop": {"web": web}}), "a namespace without any goes, too");
    hub.documents("pods", &[]);
    hub.documents("nodes", &[]);
    assert_eq!(documents(&hub, "pods"), json!({}));
    assert_eq!(documents(&hub, "nodes"), json!({}));
}

#[test]
fn published_values_do_not_change() {
    let hub = Hub::new();
    let web = object("Pod", Some("shop"), "web");
    hub.documents("pods", std::slice::from_ref(&web));
    let before = hub.0.read().view(NOW).documents(&GroupResource::new("", "pods"));
    let mut changed = web.clone();
    changed["metadata"]["labels"] = json!({"tier": "front"});
    hub.documents("pods", &[changed.clone(), object("Pod", Some("shop"), "db")]);
    assert_eq!(serde_json::to_value(before).unwrap(), json!({"shop": {"web": web}}));
    assert_eq!(documents(&hub, "pods")["shop"]["web"], changed);
}
