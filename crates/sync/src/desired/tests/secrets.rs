//! Tests of the TLS Secrets that are copied with their Gateway.

mod access;
mod changes;
mod unread;

use serde_json::{Value, json};

use crate::desired::work::SIZE_LIMIT;
use crate::desired::{Outcome, PlannedWork};
use crate::kinds::{GRANTS, SECRETS};
use crate::testing::objects::{Object, gateway, gateway_origin, grant, secret};
use crate::testing::world::{World, shop};
use policy_sync_mirror::Source;

/// The Gateway `web` with these references to certificates.
fn web(references: &[Value]) -> Object {
    gateway("web").placed_on("all").certificates(references)
}

/// A reference to a Secret of the Gateway's namespace.
fn own(name: &str) -> Value {
    json!({"name": name})
}

/// A reference to a Secret of the namespace `tls`.
fn of_tls(name: &str) -> Value {
    json!({"name": name, "namespace": "tls"})
}

/// The Gateway `web` on `eu-1`, of a class that copies Secrets. The lists of Secrets and grants contain `objects`.
fn copying(references: &[Value], objects: &[Object]) -> World {
    let mut world = shop(&["eu-1"]).class("multi", &json!({"tlsSecrets": "copy"})).with(web(references));
    for source in [SECRETS.all(), GRANTS.all()] {
        let of_source: Vec<Object> =
            objects.iter().filter(|object| object.source == source).cloned().collect();
        world.list(&source, &of_source);
    }
    world
}

fn work(world: &World) -> std::sync::Arc<PlannedWork> {
    match world.plan_of(&gateway_origin("web")).outcomes.values().next() {
        Some(Outcome::Work(work)) => work.clone(),
        other => panic!("no work is planned: {other:?}"),
    }
}

fn manifests(world: &World) -> Vec<Value> {
    work(world).spec().unwrap().workload.manifests.iter().map(|manifest| manifest.0.clone()).collect()
}

/// The manifests in the work of the Gateway `web`, such as `Secret kuadrant-shop/a`.
fn manifest_names(world: &World) -> Vec<String> {
    let text = |manifest: &Value| {
        let metadata = &manifest["metadata"];
        let name = metadata["name"].as_str().unwrap();
        // The names of grants contain a hash.
        let name = if manifest["kind"] == "ReferenceGrant" { "…" } else { name };
        let namespace = metadata["namespace"].as_str().map(|namespace| format!("{namespace}/"));
        format!("{} {}{name}", manifest["kind"].as_str().unwrap(), namespace.unwrap_or_default())
    };
    manifests(world).iter().map(text).collect()
}

fn problems(world: &World) -> Vec<String> {
    world.plan_of(&gateway_origin("web")).problems.iter().map(ToString::to_string).collect()
}

fn writes(world: &World) -> Vec<String> {
    world.writes_of(&gateway_origin("web"))
}

const ALONE: [&str; 2] = ["Namespace kuadrant-shop", "Gateway kuadrant-shop/web"];
const WITH_A: [&str; 3] = ["Namespace kuadrant-shop", "Secret kuadrant-shop/a", "Gateway kuadrant-shop/web"];
const WITH_A_OF_TLS: [&str; 5] = [
    "Namespace kuadrant-shop",
    "Namespace kuadrant-tls",
    "Secret kuadrant-tls/a",
    "ReferenceGrant kuadrant-tls/…",
    "Gateway kuadrant-shop/web",
];

#[test]
fn only_secrets_that_listeners_name_are_copied() {
    let objects = [secret("a"), secret("b"), secret("a").in_ns("other")];
    let world = copying(&[own("a")], &objects);
    assert_eq!(manifest_names(&world), WITH_A);
    assert_eq!(problems(&world), Vec::<String>::new());
    assert_eq!(manifest_names(&copying(&[], &objects)), ALONE);
    let none = world.class("multi", &json!({}));
    assert_eq!(manifest_names(&none), ALONE);
    assert_eq!(problems(&none), Vec::<String>::new());
}

#[test]
fn copy_contains_the_tls_data_and_permitted_metadata() {
    let mut given = secret("a")
        .label("team", "shop")
        .label("app.kubernetes.io/managed-by", "argocd")
        .annotation("example.com/note", "x")
        .annotation("kuadrant.io/revision", "x")
        .annotation("kubectl.kubernetes.io/last-applied-configuration", "{}");
    given.json["data"]["ca.crt"] = "Y2E=".into();
    given.json["data"]["other"] = "b3RoZXI=".into();
    given.json["immutable"] = true.into();
    let expected = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "a", "namespace": "kuadrant-shop", "labels": {"team": "shop"},
            "annotations": {"example.com/note": "x"}},
        "data": {"ca.crt": "Y2E=", "tls.crt": "Y2VydA==", "tls.key": "a2V5"},
    });
    assert_eq!(manifests(&copying(&[own("a")], &[given]))[1], expected);
}

#[test]
fn secret_is_applied_like_its_gateway_and_namespaces_are_orphaned() {
    for (conflicts, force) in [("keep", false), ("overwrite", true)] {
        let world = copying(&[of_tls("a")], &[secret("a").in_ns("tls"), grant("g")])
            .class("multi", &json!({"tlsSecrets": "copy", "conflicts": conflicts}));
        let spec = serde_json::to_value(work(&world).spec().unwrap()).unwrap();
        let configs = spec["manifestConfigs"].as_array().unwrap();
        let strategies: Vec<&Value> = configs.iter().map(|config| &config["updateStrategy"]).collect();
        let apply = json!({"type": "ServerSideApply", "serverSideApply": {
            "force": force, "fieldManager": world.see(|view| view.controller().spoke_field_manager())}});
        let once = json!({"type": "CreateOnly"});
        assert_eq!(strategies, [&once, &once, &apply, &apply, &apply]);
        let identified: Vec<&Value> = configs.iter().map(|config| &config["resourceIdentifier"]).collect();
        let secret = json!({"group": "", "resource": "secrets", "name": "a", "namespace": "kuadrant-tls"});
        assert_eq!(*identified[2], secret);
        assert_eq!(identified[3]["resource"], "referencegrants");
        let orphaned: Vec<&Value> = spec["deleteOption"]["selectivelyOrphans"]["orphaningRules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rule| &rule["name"])
            .collect();
        assert_eq!(orphaned, ["kuadrant-shop", "kuadrant-tls"]);
        let fed_back = configs.iter().filter(|config| config.get("feedbackRules").is_some()).count();
        assert_eq!(fed_back, 1, "nothing of a Secret comes back");
    }
}

#[test]
fn secret_of_another_namespace_is_copied_with_its_own_grant() {
    let world = copying(&[of_tls("a")], &[secret("a").in_ns("tls"), secret("b").in_ns("tls"), grant("g")]);
    assert_eq!(manifest_names(&world), WITH_A_OF_TLS);
    let grant = &manifests(&world)[3];
    assert_eq!(grant["apiVersion"], "gateway.networking.k8s.io/v1beta1");
    let expected = json!({
        "from": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "kuadrant-shop"}],
        "to": [{"group": "", "kind": "Secret", "name": "a"}],
    });
    assert_eq!(grant["spec"], expected);
    let reference = &manifests(&world)[4]["spec"]["listeners"][0]["tls"]["certificateRefs"][0];
    assert_eq!(*reference, json!({"name": "a", "namespace": "kuadrant-tls"}));
}

#[test]
fn reference_to_the_own_namespace_needs_no_grant() {
    let world = copying(&[json!({"name": "a", "namespace": "shop"})], &[secret("a")]);
    assert_eq!(manifest_names(&world), WITH_A);
}

#[test]
fn only_a_grant_that_matches_the_reference_counts() {
    let from = |field: &str, value: &str| {
        let mut item = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "shop"});
        item[field] = value.into();
        grant("g").spec("from", json!([item]))
    };
    let to = |item: Value| grant("g").spec("to", json!([item]));
    for (other, why) in [
        (grant("g").in_ns("shop"), "a grant of the Gateway's own namespace"),
        (grant("g").in_ns("other"), "a grant of a third namespace"),
        (from("namespace", "shop-2"), "for another namespace"),
        (from("kind", "HTTPRoute"), "for another kind"),
        (from("group", "example.com"), "for another group"),
        (from("group", ""), "for a core kind"),
        (to(json!({"group": "", "kind": "Secret", "name": "b"})), "to another Secret"),
        (to(json!({"group": "", "kind": "Service"})), "to another kind"),
        (to(json!({"group": "example.com", "kind": "Secret"})), "to another group"),
        (to(json!({"group": "", "kind": "Secret", "name": ["a"]})), "to what is no name"),
        (to(json!({"kind": "Secret"})), "without a group"),
        (grant("g").spec("to", json!({})), "to nothing"),
        (grant("g").spec("from", json!("shop")), "from nothing"),
        (grant("g").deleting(), "one that goes"),
    ] {
        let world = copying(&[of_tls("a")], &[secret("a").in_ns("tls"), other]);
        assert_eq!(manifest_names(&world), ALONE, "{why}");
        let expected = "listener https: Secret tls/a is not copied: no ReferenceGrant in its namespace allows the reference";
        assert_eq!(problems(&world), [expected], "{why}");
    }
    for (fits, why) in [
        (to(json!({"group": "", "kind": "Secret", "name": "a"})), "by its name"),
        (grant("g").spec("to", json!([{"group": "", "kind": "Secret", "name": "b"}, {"group": "", "kind": "Secret", "name": "a"}])), "one of several"),
    ] {
        let world = copying(&[of_tls("a")], &[secret("a").in_ns("tls"), fits]);
        assert_eq!(manifest_names(&world), WITH_A_OF_TLS, "{why}");
    }
}

#[test]
fn grants_are_not_combined() {
    let theirs = |name: &str, namespace: &str, secret: &str| {
        grant(name)
            .spec(
                "from",
                json!([{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": namespace}]),
            )
            .spec("to", json!([{"group": "", "kind": "Secret", "name": secret}]))
    };
    let objects = [secret("a").in_ns("tls"), theirs("g", "shop", "b"), theirs("h", "other", "a")];
    assert_eq!(manifest_names(&copying(&[of_tls("a")], &objects)), ALONE);
}

#[test]
fn existence_of_a_secret_is_not_disclosed_without_a_grant() {
    let ungranted = problems(&copying(&[of_tls("a")], &[secret("a").in_ns("tls")]));
    assert_eq!(ungranted, problems(&copying(&[of_tls("a")], &[])));
}

#[test]
fn unusable_secret_is_reported_and_gateway_is_copied_without_it() {
    let mut opaque = secret("a");
    opaque.json["type"] = "Opaque".into();
    let mut untyped = secret("a");
    untyped.json["type"] = json!(["kubernetes.io/tls"]);
    for objects in [vec![], vec![opaque], vec![untyped], vec![secret("a").deleting()]] {
        let world = copying(&[own("a"), own("b")], &[objects.as_slice(), &[secret("b")]].concat());
        assert_eq!(manifest_names(&world)[1..], ["Secret kuadrant-shop/b", "Gateway kuadrant-shop/web"]);
        let expected =
            "listener https: Secret shop/a is not copied: there is no such Secret of type kubernetes.io/tls";
        assert_eq!(problems(&world), [expected]);
        assert!(!world.plan_of(&gateway_origin("web")).problems[0].freezes());
    }
}

#[test]
fn secret_is_not_copied_to_a_reserved_namespace() {
    let named = json!({"name": "a", "namespace": "system"});
    let world = copying(&[named], &[secret("a").in_ns("system"), grant("g").in_ns("system")]);
    assert_eq!(manifest_names(&world), ALONE);
    let expected = "listener https: Secret system/a is not copied: \
                    the namespace of the Secret on the spokes would be reserved or too long";
    assert_eq!(problems(&world), [expected]);
}

#[test]
fn ten_uncopied_secrets_are_reported_and_the_rest_counted() {
    let references: Vec<Value> = (0..12).map(|n| own(&format!("a{n:02}"))).collect();
    let found = problems(&copying(&references, &[]));
    assert_eq!(found.len(), 11);
    assert!(found[9].contains("shop/a09"), "{found:?}");
    assert_eq!(found[10], "2 more Secrets that its listeners name are not copied");
}

#[test]
fn secret_that_is_named_twice_is_copied_once() {
    let world = copying(&[own("a"), own("a"), json!({"name": "a", "namespace": "shop"})], &[secret("a")]);
    assert_eq!(manifest_names(&world), WITH_A);
}

#[test]
fn secrets_count_towards_the_size_limit() {
    let world = copying(&[own("a")], &[secret("a").holding(&"x".repeat(SIZE_LIMIT))]);
    assert_eq!(world.outcomes_of(&gateway_origin("web")), ["eu-1 (keep)"]);
    let found = problems(&world);
    assert!(found[0].starts_with("its work would have 5") && !found[0].contains("xx"), "{found:?}");
}

#[test]
fn gateways_that_share_a_secret_carry_equal_copies() {
    let api = gateway("api").placed_on("all").certificates(&[of_tls("a")]);
    let objects = [secret("a").in_ns("tls"), grant("g")];
    let world = copying(&[of_tls("a")], &objects).with(api);
    let of_api = match world.plan_of(&gateway_origin("api")).outcomes.values().next() {
        Some(Outcome::Work(work)) => work.spec().unwrap().workload.manifests.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(of_api[..4], work(&world).spec().unwrap().workload.manifests[..4]);
}

#[test]
fn debug_output_contains_no_keys() {
    let secret = secret("a").holding("VE9QU0VDUkVU").annotation("example.com/whole", "VE9QU0VDUkVU");
    let world = copying(&[own("a")], &[secret]);
    let plan = world.plan_of(&gateway_origin("web"));
    assert!(manifests(&world)[1].to_string().contains("VE9QU0VDUkVU"));
    let diff = world.diff_of(&gateway_origin("web"));
    let row = world.see(|view| {
        let key = policy_sync_api::names::ObjectKey::new("shop", "a");
        let row = view.secret(&key).unwrap();
        format!("{row:?} {:?} {view:?}", row.data)
    });
    for text in [format!("{plan:?}"), format!("{plan:#?}"), format!("{diff:?}"), row] {
        assert!(!text.contains("VE9QU0VDUkVU"), "{text}");
    }
}
