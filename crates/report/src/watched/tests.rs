//! Tests which Gateways a change affects.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, GroupResource, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{Mirror, MirrorChange, SourceEvent};
use policy_sync_topology::objects::kind_of;

const GROUP: &str = "gateway.networking.k8s.io";

fn object(kind: &str, name: &str, spec: &Value) -> (&'static str, HubObject) {
    let (group, plural) = match kind {
        "Gateway" => (GROUP, "gateways"),
        "ListenerSet" => (GROUP, "listenersets"),
        "HTTPRoute" => (GROUP, "httproutes"),
        "ReferenceGrant" => (GROUP, "referencegrants"),
        _ => ("kuadrant.io", "ratelimitpolicies"),
    };
    let object = json!({
        "apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec,
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1"},
    });
    (plural, serde_json::from_value(object).unwrap())
}

/// Puts an object into the mirror. Returns the affected Gateways, separated by commas; `*` for all.
fn put(mirror: &Mirror<TopologyIndex>, (plural, object): (&'static str, HubObject)) -> String {
    let kind = kind_of(&object);
    let source = source(kind, GroupResource::new(kind.group, plural));
    let row = source.prune(&object, &ControllerName::new("example.com/sync")).unwrap();
    let change = SourceEvent::Applied { source, key: object.key(), version: 1, row };
    let changes = mirror.change(change, Moment(0));
    let all: Vec<Option<BTreeSet<ObjectKey>>> =
        changes.iter().map(|changed| changes.view().gateways(changed)).collect();
    let named = |gateways: Option<BTreeSet<ObjectKey>>| match gateways {
        Some(gateways) => gateways.into_iter().map(|key| key.to_string()).collect::<Vec<_>>().join(","),
        None => "*".to_owned(),
    };
    all.into_iter().map(named).collect::<Vec<_>>().join(" ")
}

fn target(kind: &str, name: &str) -> Value {
    let group = if kind == "Service" { "" } else { GROUP };
    json!({"targetRef": {"group": group, "kind": kind, "name": name}})
}

#[test]
fn change_affects_the_gateways_that_the_object_attaches_to() {
    let mirror = Mirror::new(ControllerName::new("example.com/sync"));
    let gateway = json!({"gatewayClassName": "synced", "listeners": []});
    assert_eq!(put(&mirror, object("Gateway", "web", &gateway)), "shop/web");
    let listeners = json!([{"name": "a", "port": 80, "protocol": "HTTP"}]);
    let set = json!({"parentRef": {"name": "web", "namespace": "infra"}, "listeners": listeners});
    assert_eq!(put(&mirror, object("ListenerSet", "own", &set)), "infra/web");
    let route = |parents: Value| object("HTTPRoute", "cart", &json!({"parentRefs": parents}));
    let to_set = json!([{"name": "own", "kind": "ListenerSet"}, {"name": "web"}]);
    assert_eq!(put(&mirror, route(to_set)), "infra/web,shop/web");
    assert_eq!(
        put(&mirror, object("RateLimitPolicy", "a", &target("HTTPRoute", "cart"))),
        "infra/web,shop/web"
    );
    // The affected Gateways include those that the route was attached to before.
    assert_eq!(put(&mirror, route(json!([{"name": "other"}]))), "infra/web,shop/other,shop/web");
    assert_eq!(
        put(&mirror, object("RateLimitPolicy", "a", &target("Gateway", "web"))),
        "shop/other,shop/web"
    );
    assert_eq!(put(&mirror, object("RateLimitPolicy", "b", &target("ListenerSet", "own"))), "infra/web");
}

#[test]
fn object_that_may_be_attached_anywhere_affects_all_gateways() {
    let mirror = Mirror::new(ControllerName::new("example.com/sync"));
    assert_eq!(put(&mirror, object("RateLimitPolicy", "c", &target("Service", "cart"))), "*");
    let grant = json!({"from": [{"group": GROUP, "kind": "HTTPRoute", "namespace": "a"}], "to": [{"group": "", "kind": "Service"}]});
    assert_eq!(put(&mirror, object("ReferenceGrant", "any", &grant)), "*");
    let broken = json!({"parentRefs": "web"});
    assert_eq!(put(&mirror, object("HTTPRoute", "broken", &broken)), "*");
    let source = source(policy_sync_topology::objects::GRANT, GroupResource::new(GROUP, "referencegrants"));
    let changes = mirror.end_resync(&source, 1, Moment(0));
    assert!(changes.iter().all(|changed| changes.view().gateways(changed).is_none()));
    assert!(changes.iter().any(|changed| matches!(changed, MirrorChange::Listed(_))));
}

#[test]
fn object_with_a_dangling_or_cyclic_parent_affects_no_gateway() {
    let mirror = Mirror::new(ControllerName::new("example.com/sync"));
    let to = |kind: &str, name: &str| json!({"parentRefs": [{"name": name, "kind": kind}]});
    assert_eq!(put(&mirror, object("HTTPRoute", "loop", &to("HTTPRoute", "loop"))), "");
    assert_eq!(put(&mirror, object("HTTPRoute", "mesh", &to("Service", "cart"))), "");
    assert_eq!(put(&mirror, object("HTTPRoute", "astray", &to("ListenerSet", "nowhere"))), "");
    let listeners = json!([{"name": "a", "port": 80, "protocol": "HTTP"}]);
    let set = json!({"parentRef": {"name": "own", "kind": "ListenerSet"}, "listeners": listeners});
    assert_eq!(put(&mirror, object("ListenerSet", "own", &set)), "");
    let policies = json!({"targetRef": {"group": "kuadrant.io", "kind": "RateLimitPolicy", "name": "self"}});
    assert_eq!(put(&mirror, object("RateLimitPolicy", "self", &policies)), "*");
}
