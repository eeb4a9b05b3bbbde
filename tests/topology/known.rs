//! What of a cluster is known, of which not everything may be listed.

use policy_sync::topology::locator::{GATEWAY, HTTP_ROUTE, KindRef};
use policy_sync::topology::objects::{GRANT, NAMESPACE};
use policy_sync::topology::show::{Scope, TopologyReport};
use policy_sync::topology::{Graph, Needs, Objects};
use serde_json::{Value, json};

use crate::shorthand::{hub_object, object};

/// The objects of a cluster of which all of these kinds are listed.
fn cluster(kinds: &[KindRef<'_>], short: &[Value]) -> Objects {
    let mut objects = Objects::of_cluster(kinds.iter().map(|kind| kind.to_kind()).collect());
    for short in short {
        objects.take(&hub_object(&object(short))).unwrap();
    }
    objects
}

/// What is not attached, the reason of each, and the kinds that are not known.
fn unattached(objects: &Objects) -> (Vec<String>, Vec<String>) {
    let facts = objects.facts();
    let graph = Graph::build(&facts);
    let json = serde_json::to_value(TopologyReport::new(&graph, Scope::default(), Vec::new())).unwrap();
    let items = json["unattached"].as_array().unwrap().iter();
    let unknown = graph.unknown().into_iter().map(|kind| kind.kind.to_owned());
    (items.map(|item| item["reason"].as_str().unwrap().to_owned()).collect(), unknown.collect())
}

#[test]
fn of_a_kind_of_which_only_some_are_known_the_others_are_leaves() {
    let short = [
        json!({"Gateway": "web", "listeners": [{}]}),
        json!({"HTTPRoute": "here", "parents": ["web"]}),
        json!({"HTTPRoute": "there", "parents": ["elsewhere/web"]}),
        json!({"HTTPRoute": "nowhere", "parents": ["gone"]}),
        json!({"RateLimitPolicy": "a", "target": "HTTPRoute/other"}),
    ];
    // Routes are known, Gateways of one namespace alone.
    let partial = cluster(&[HTTP_ROUTE], &short);
    let unknown = ["Gateway", "GatewayClass"].map(str::to_owned).to_vec();
    assert_eq!(unattached(&partial), (Vec::new(), unknown));
    let facts = partial.facts();
    let graph = Graph::build(&facts);
    assert!(graph.policies()[0].void.is_some(), "all routes are known");
    let whole = cluster(&[HTTP_ROUTE, GATEWAY], &short);
    assert_eq!(unattached(&whole).0, ["ParentNotFound", "ParentNotFound"]);
}

#[test]
fn what_may_be_granted_is_no_fault_where_grants_are_not_known() {
    let short = [
        json!({"Gateway": "web", "listeners": [{}]}),
        json!({"HTTPRoute": "r", "parents": ["web"], "rules": [{"backends": ["other/api:80"]}]}),
    ];
    let known = [GATEWAY, HTTP_ROUTE, GRANT];
    assert_eq!(unattached(&cluster(&known, &short)).0, ["RefNotPermitted"]);
    assert_eq!(unattached(&cluster(&known[..2], &short)).0, Vec::<String>::new());
}

#[test]
fn labels_that_are_not_known_keep_nothing_away_but_names_do() {
    let listener = |selector: Value| json!([{"from": "Selector", "selector": selector}]);
    let short = |selector: Value| {
        [
            json!({"Gateway": "web", "listeners": listener(selector)}),
            json!({"HTTPRoute": "other/r", "parents": ["shop/web"]}),
        ]
    };
    let reasons = |kinds: &[KindRef<'_>], selector: Value| unattached(&cluster(kinds, &short(selector))).0;
    let known = [GATEWAY, HTTP_ROUTE, NAMESPACE];
    let refused = ["NotAllowedByListeners"];
    assert_eq!(reasons(&known, json!({"team": "a"})), refused);
    assert_eq!(reasons(&known[..2], json!({"team": "a"})), Vec::<String>::new());
    assert_eq!(reasons(&known[..2], json!({"kubernetes.io/metadata.name": "mine"})), refused);
    assert_eq!(reasons(&known[..2], json!({"kubernetes.io/metadata.name": "other"})), Vec::<String>::new());
}

#[test]
fn what_else_has_to_be_read_follows_from_what_is_there() {
    let needs = |short: &[Value]| cluster(&[], short).needs();
    assert_eq!(needs(&[]), Needs::default());
    let route =
        |backend: &str| json!({"HTTPRoute": "r", "parents": ["web"], "rules": [{"backends": [backend]}]});
    assert_eq!(needs(&[route("api:80")]), Needs { backends: [true, false, false], ..Needs::default() });
    let across = Needs { backends: [true, false, false], grants: true, namespaces: false };
    assert_eq!(needs(&[route("other/api:80")]), across);
    let import = needs(&[route("ServiceImport.multicluster.x-k8s.io/api:80")]);
    assert_eq!(import, Needs { backends: [false, true, false], ..Needs::default() });
    let certificate =
        json!({"Gateway": "web", "listeners": [{"protocol": "HTTPS", "certificates": ["other/cert"]}]});
    assert_eq!(needs(&[certificate]), Needs { grants: true, ..Needs::default() });
    assert_eq!(needs(&[route("Bucket.example.com/b")]), Needs::default());
    let policy = json!({"RateLimitPolicy": "a", "target": "Gateway/other/web"});
    assert!(
        needs(&[policy]).backends == [false; 3]
            && needs(&[json!({"RateLimitPolicy": "a", "target": "Gateway/other/web"})]).grants
    );
    let selecting = |selector: Value| {
        needs(&[json!({"Gateway": "web", "listeners": [{"from": "Selector", "selector": selector}]})])
            .namespaces
    };
    assert!(selecting(json!({"team": "a"})));
    assert!(!selecting(json!({"kubernetes.io/metadata.name": "shop"})));
}
