//! Objects that are small but expensive to read, each paired with a *plain* object of the same kind and about the same
//! size, which is cheap to read.
//!
//! API servers accept these objects. Each object attacks an operation whose cost grows faster than the object. Such
//! operations compile an expression, compare all pairs of items, or hash or search a long text once for every item.

use std::sync::LazyLock;

use policy_sync_api::annotations::{CLUSTER_ATTRIBUTES, PARENT};
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::names::{ControllerName, Origin, WorkName};
use policy_sync_rego::carrier::DATA_LABEL;
use serde_json::{Map, Value, json};

/// An expensive object and a plain object.
#[derive(Clone, Debug)]
pub struct CostlyObject {
    /// The part of the object that is expensive.
    pub name: &'static str,
    /// Plural name of the kind.
    pub plural: &'static str,
    /// The expensive object.
    pub hostile: Value,
    /// The plain object. It may be smaller than the expensive object. Comparisons scale the cost by size.
    pub plain: Value,
}

/// The name of the controller that the expensive and the plain objects refer to.
pub static CONTROLLER: LazyLock<ControllerName> =
    LazyLock::new(|| ControllerName::new("kuadrant.io/policy-sync"));

const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";

/// Regular expressions that are slow to parse or compile. The number makes each expression unique.
pub const EXPRESSIONS: [fn(usize) -> String; 6] = [
    // Expands to 200 Unicode classes.
    |number| format!(r"(\w{{10}}){{20}}{number}"),
    |number| format!(r"((((a{{1,9}}){{1,9}}){{1,9}}){{1,9}}){{1,9}}{number}"),
    |number| format!("{}{number}{}", "(".repeat(200), ")".repeat(200)),
    |number| format!("{}{number}", r"\p{L}\P{Greek}[^\w\s]".repeat(20)),
    |number| format!("{}{number}", "a|".repeat(200)),
    |number| format!("{}{number}{}", "[a&&".repeat(100), "]".repeat(100)),
];

/// An HTTPRoute with 16 rules of 16 matches of 16 headers: 4,096 different regular expressions.
#[must_use]
pub fn route_of_expressions(namespace: &str, name: &str, expression: fn(usize) -> String) -> Value {
    route("HTTPRoute", (namespace, name), "RegularExpression", &expression)
}

/// `rules` rules for an HTTPRoute, each with 256 different regular expressions.
#[must_use]
pub fn rules_of_expressions(rules: usize, expression: fn(usize) -> String) -> Vec<Value> {
    rules_of_headers(rules, "RegularExpression", &expression)
}

fn rules_of_headers(rules: usize, comparison: &str, value: &dyn Fn(usize) -> String) -> Vec<Value> {
    let header = |number: usize| json!({"name": format!("x-{}", number % 16), "type": comparison, "value": value(number)});
    let written = |first: usize| json!({"headers": (first..first + 16).map(header).collect::<Vec<_>>()});
    let rule = |rule: usize| json!({"matches": (0..16).map(|of| written((rule * 16 + of) * 16)).collect::<Vec<_>>()});
    (0..rules).map(rule).collect()
}

fn route(kind: &str, key: (&str, &str), comparison: &str, value: &dyn Fn(usize) -> String) -> Value {
    let rules = rules_of_headers(16, comparison, value);
    object(GATEWAY_API, kind, key, json!({"parentRefs": [{"name": "web"}], "rules": rules}))
}

fn object(api_version: &str, kind: &str, (namespace, name): (&str, &str), spec: Value) -> Value {
    let metadata =
        json!({"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "1", "generation": 1});
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
}

/// All pairs of an expensive and a plain object.
#[must_use]
pub fn costly() -> Vec<CostlyObject> {
    let mut all = routes();
    all.extend(calls());
    all.extend(others_of_gateway_api());
    all.extend(clusters());
    all.extend(grants_and_secrets());
    all.extend(carriers());
    all.extend(works());
    all
}

fn routes() -> Vec<CostlyObject> {
    let of = |name, hostile, plain| CostlyObject { name, plural: "httproutes", hostile, plain };
    let names = ["classes", "repetitions", "groups", "unicode", "alternatives", "sets"];
    let mut all: Vec<CostlyObject> = names
        .into_iter()
        .zip(EXPRESSIONS)
        .map(|(name, expression)| {
            let plain =
                route("HTTPRoute", ("mob", "r"), "Exact", &|number| "x".repeat(expression(number).len()));
            of(name, route_of_expressions("mob", "r", expression), plain)
        })
        .collect();
    // The API server rejects these routes today, but a later API version may accept them. The error for each route
    // contains the position of the fault.
    let plain = || route("HTTPRoute", ("mob", "r"), "Exact", &|_| "x".repeat(300));
    let mut wrong = plain();
    wrong["spec"]["rules"][15]["matches"][15]["headers"][15]["name"] = "a b".into();
    all.push(of("invalid name of the last header", wrong, plain()));
    let mut wrong = plain();
    wrong["spec"]["rules"][15]["matches"][15]["headers"][15]["value"] = 7.into();
    all.push(of("number as the value of the last header", wrong, plain()));
    let mut long = plain();
    long["spec"]["hostnames"] = vec!["a.example.com"; 40_000].into();
    all.push(of("too many hostnames", long, plain()));
    all
}

/// GRPCRoutes with regular expressions for headers and methods.
fn calls() -> Vec<CostlyObject> {
    let of = |comparison: &str, value: &dyn Fn(usize) -> String| {
        let mut calls = route("GRPCRoute", ("mob", "r"), comparison, value);
        for number in 0..256 {
            let method = json!({"type": comparison, "service": value(number), "method": value(number + 256)});
            calls["spec"]["rules"][number / 16]["matches"][number % 16]["method"] = method;
        }
        calls
    };
    let named = [("character classes", EXPRESSIONS[0]), ("Unicode classes", EXPRESSIONS[3])];
    named
        .map(|(name, expression)| CostlyObject {
            name,
            plural: "grpcroutes",
            hostile: of("RegularExpression", &expression),
            plain: of("Exact", &|number| "x".repeat(expression(number).len())),
        })
        .into()
}

fn others_of_gateway_api() -> Vec<CostlyObject> {
    let listener = |number: usize, routes: Value| json!({"name": format!("l{number}"), "port": 80 + number, "protocol": "HTTP", "allowedRoutes": routes});
    let gateway = |kind: &str, listeners: Vec<Value>| {
        let spec = json!({"gatewayClassName": "c", "parentRef": {"name": "web"}, "listeners": listeners});
        object(GATEWAY_API, kind, ("mob", "web"), spec)
    };
    let expression =
        |number: usize| json!({"key": format!("k{number}"), "operator": "In", "values": ["a", "b", "c"]});
    let selector = json!({"namespaces": {"from": "Selector",
        "selector": {"matchExpressions": (0..8_000).map(expression).collect::<Vec<_>>()}}});
    let plain = |kind: &str| {
        let kinds: Vec<Value> =
            (0..8).map(|_| json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"})).collect();
        let labels = json!({"matchLabels": {"team": "shop", "stage": "test"}});
        let kinds = json!({"kinds": kinds, "namespaces": {"from": "Selector", "selector": labels}});
        gateway(kind, (0..64).map(|number| listener(number, kinds.clone())).collect())
    };
    let port = |number: usize| json!({"name": format!("p{number}"), "port": 1 + number % 65_535});
    let service = |ports: Vec<Value>| object("v1", "Service", ("mob", "s"), json!({"ports": ports}));
    let target = |number: usize| json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": format!("g{number}")});
    let policy = |targets: usize, rest: Value| {
        let targets: Vec<Value> = (0..targets).map(target).collect();
        object(
            "kuadrant.io/v1",
            "RateLimitPolicy",
            ("mob", "p"),
            json!({"targetRefs": targets, "limits": rest}),
        )
    };
    let limits =
        || json!((0..8_000).map(|number| json!({"limit": number, "window": "10s"})).collect::<Vec<_>>());
    let mut deep = json!(1);
    (0..100).for_each(|_| deep = json!({ "a": [deep] }));
    vec![
        CostlyObject {
            name: "namespace selector of a listener",
            plural: "gateways",
            hostile: gateway("Gateway", vec![listener(0, selector.clone())]),
            plain: plain("Gateway"),
        },
        CostlyObject {
            name: "namespace selector of a ListenerSet's listener",
            plural: "listenersets",
            hostile: gateway("ListenerSet", vec![listener(0, selector)]),
            plain: plain("ListenerSet"),
        },
        CostlyObject {
            name: "ports",
            plural: "services",
            hostile: service((0..20_000).map(port).collect()),
            plain: service((0..2_000).map(port).collect()),
        },
        CostlyObject {
            name: "targets",
            plural: "ratelimitpolicies",
            hostile: policy(10_000, json!({})),
            plain: policy(1_000, limits()),
        },
        CostlyObject {
            name: "depth",
            plural: "ratelimitpolicies",
            hostile: policy(16, json!(vec![deep; 500])),
            plain: policy(16, limits()),
        },
    ]
}

/// ManagedClusters and PlacementDecisions.
fn clusters() -> Vec<CostlyObject> {
    const GROUP: &str = "cluster.open-cluster-management.io";
    let cluster = |labels: Vec<String>, conditions: usize| {
        let labels: Map<String, Value> = labels.into_iter().map(|key| (key, "v".into())).collect();
        let condition = |number: usize| {
            json!({"type": format!("T{number}"), "status": "True", "reason": "r", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let mut cluster = object(&format!("{GROUP}/v1"), "ManagedCluster", ("", "rogue"), json!({}));
        cluster["metadata"]["labels"] = labels.into();
        cluster["status"] = json!({"conditions": (0..conditions).map(condition).collect::<Vec<_>>()});
        cluster
    };
    let labels = |prefix: &str, count: usize| -> Vec<String> {
        (0..count).map(|number| format!("{prefix}{number}")).collect()
    };
    let decision = |names: Vec<String>| {
        let mut decision =
            object(&format!("{GROUP}/v1beta1"), "PlacementDecision", ("mob", "all"), json!({}));
        let decisions: Vec<Value> =
            names.into_iter().map(|name| json!({"clusterName": name, "reason": ""})).collect();
        decision["metadata"]["labels"] = json!({PLACEMENT_LABEL: "all"});
        decision["status"] = json!({"decisions": decisions});
        decision
    };
    let of_cluster = |name, hostile, plain| CostlyObject { name, plural: "managedclusters", hostile, plain };
    let of_decision =
        |name, hostile, plain| CostlyObject { name, plural: "placementdecisions", hostile, plain };
    let plain_cluster = || cluster(labels("team-", 100), 10);
    let plain_decision = || decision((0..1_000).map(|number| format!("cluster-{number}")).collect());
    vec![
        of_cluster("labels of a cluster", cluster(labels(CLUSTER_ATTRIBUTES, 20_000), 10), plain_cluster()),
        of_cluster("conditions of a cluster", cluster(labels("team-", 100), 5_000), plain_cluster()),
        of_decision(
            "invalid cluster names",
            decision((0..20_000).map(|number| format!("../{number}")).collect()),
            plain_decision(),
        ),
        of_decision(
            "long cluster names",
            decision((0..100).map(|number| format!("{}{number}", "a-".repeat(4_000))).collect()),
            plain_decision(),
        ),
    ]
}

fn grants_and_secrets() -> Vec<CostlyObject> {
    let grant = |items: usize| {
        let from = |number: usize| json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": format!("n{number}")});
        let to = |number: usize| json!({"group": "", "kind": "Secret", "name": format!("s{number}")});
        let spec = json!({
            "from": (0..items).map(from).collect::<Vec<_>>(), "to": (0..items).map(to).collect::<Vec<_>>(),
        });
        object("gateway.networking.k8s.io/v1beta1", "ReferenceGrant", ("mob", "g"), spec)
    };
    let secret = |keys: usize| {
        let keys = (0..keys).map(|number| (format!("key-{number}"), Value::from("eA==")));
        let keys: Map<String, Value> = keys.collect();
        let mut secret = object("v1", "Secret", ("mob", "s"), Value::Null);
        secret["type"] = "kubernetes.io/tls".into();
        secret["data"] = keys.into();
        secret
    };
    vec![
        CostlyObject {
            name: "many references",
            plural: "referencegrants",
            hostile: grant(10_000),
            plain: grant(16),
        },
        CostlyObject { name: "many keys", plural: "secrets", hostile: secret(40_000), plain: secret(1_000) },
    ]
}

/// ConfigMaps with Rego modules, and ConfigMaps with data for them.
fn carriers() -> Vec<CostlyObject> {
    let config_map = |keys: usize, ending: &str, text: &str| {
        let keys = (0..keys).map(|number| (format!("key-{number}{ending}"), Value::from(text)));
        let keys: Map<String, Value> = keys.collect();
        let mut map = object("v1", "ConfigMap", ("policies", "c"), Value::Null);
        map["metadata"]["labels"] = json!({ DATA_LABEL.0: DATA_LABEL.1 });
        map["data"] = keys.into();
        map
    };
    let of = |name, hostile, plain| CostlyObject { name, plural: "configmaps", hostile, plain };
    let modules = |keys: usize| config_map(keys, ".rego", "package a");
    let data = |keys: usize| config_map(keys, "", r#"{"limit": 1}"#);
    vec![of("modules", modules(20_000), modules(500)), of("data", data(20_000), data(500))]
}

/// Works, whose fields an agent can change without limits.
fn works() -> Vec<CostlyObject> {
    let origin = Origin::named("kuadrant.io", "ratelimitpolicies", "shop", "limits");
    let name = WorkName::planned(&CONTROLLER, "RateLimitPolicy", &origin).to_string();
    let manifest = |kind: String| json!({"apiVersion": "kuadrant.io/v1", "kind": kind, "metadata": {"name": "limits", "namespace": "n"}});
    let work = |name: &str, origin: &str, manifests: Vec<Value>, rules: Value, status: Value| {
        let spec = json!({"workload": {"manifests": manifests}, "manifestConfigs": rules});
        let mut work = object("work.open-cluster-management.io/v1", "ManifestWork", ("rogue", name), spec);
        work["metadata"]["annotations"] = json!({ PARENT: origin });
        work["status"] = status;
        work
    };
    let of = |name, hostile, plain| CostlyObject { name, plural: "manifestworks", hostile, plain };
    let (nothing, parent) = (|| json!({}), origin.to_string());
    let plain_manifests =
        || -> Vec<Value> { (0..5_000).map(|_| manifest("RateLimitPolicy".to_owned())).collect() };
    let plain = || work(&name, &parent, plain_manifests(), json!([]), nothing());
    let long_parent = format!("ratelimitpolicies.kuadrant.io/shop/{}", "x".repeat(200_000));
    let kinds = |length: usize| -> Vec<Value> {
        (0..5_000).map(|number| manifest(format!("{}{number}", "K".repeat(length)))).collect()
    };
    let condition = |message: String| {
        json!({"type": "StatusFeedbackSynced", "status": "False", "reason": "r", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1})
    };
    let status = |conditions: Vec<Value>, values: Vec<Value>| {
        let meta = json!({"group": "kuadrant.io", "resource": "ratelimitpolicies"});
        json!({"resourceStatus": {"manifests": [{"resourceMeta": meta, "conditions": conditions,
            "statusFeedback": {"values": values}}]}})
    };
    let paths = |count: usize| {
        let path = |number: usize| json!({"name": format!("_T{number}_status"), "path": ".a"});
        let fields = (0..64).map(|number| json!({"name": format!("field{number}"), "path": ".a"}));
        let paths: Vec<Value> = fields.chain((0..count).map(path)).collect();
        json!([{"resourceIdentifier": {"group": "kuadrant.io", "resource": "ratelimitpolicies", "name": "n", "namespace": "s"},
            "feedbackRules": [{"type": "JSONPaths", "jsonPaths": paths}]}])
    };
    let value = |number: usize| json!({"name": format!("_T{number}_status"), "fieldValue": {"type": "String", "string": "True"}});
    vec![
        of("long origin", work(&"a-".repeat(120), &long_parent, Vec::new(), json!([]), nothing()), plain()),
        of("long origin, many manifests", work("w", &long_parent, kinds(1), json!([]), nothing()), plain()),
        of("many kinds", work("w", &parent, kinds(1), json!([]), nothing()), plain()),
        of("long kinds", work("w", &parent, kinds(80), json!([]), nothing()), plain()),
        of(
            "many conditions StatusFeedbackSynced",
            work(
                &name,
                &parent,
                Vec::new(),
                paths(0),
                status((0..5_000).map(|_| condition("m".repeat(60))).collect(), vec![]),
            ),
            plain(),
        ),
        of(
            "one long condition",
            work(
                &name,
                &parent,
                Vec::new(),
                paths(0),
                status(vec![condition("of the value for ".repeat(10_000))], vec![]),
            ),
            plain(),
        ),
        of(
            "conditions of many types",
            work(&name, &parent, Vec::new(), paths(5_000), status(vec![], (0..5_000).map(value).collect())),
            plain(),
        ),
    ]
}
