//! The short form of objects: one line of YAML for each object.
//!
//! ```yaml
//! - {Gateway: infra/web, created: 1, listeners: [{from: All, hostname: "*.example.com"}]}
//! - {HTTPRoute: orders, parents: [infra/web#http], rules: [{backends: [orders:80]}]}
//! - {RateLimitPolicy: limits, target: HTTPRoute/orders, limits: {a: {}}}
//! ```
//!
//! The key that begins with an upper-case letter is the kind. Kinds outside of Gateway API and Kuadrant have their
//! group as a suffix. The value of this key is the name, by default in the namespace `shop`. `created` is in seconds.
//! Fields that are not part of the metadata belong to the spec.

use policy_sync_api::object::HubObject;
use policy_sync_topology::Objects;
use serde_json::{Map, Value, json};

const GATEWAY_API: &str = "gateway.networking.k8s.io";
/// The kinds of Gateway API that are written without their group.
const KINDS: [&str; 9] = [
    "GatewayClass",
    "Gateway",
    "ListenerSet",
    "GRPCRoute",
    "HTTPRoute",
    "TCPRoute",
    "TLSRoute",
    "UDPRoute",
    "ReferenceGrant",
];

/// The default namespace.
const NAMESPACE: &str = "shop";

fn group(kind: &str) -> &str {
    match kind {
        "Service" | "Namespace" | "Secret" => "",
        "CustomResourceDefinition" => "apiextensions.k8s.io",
        kind if KINDS.contains(&kind) => GATEWAY_API,
        _ => "kuadrant.io",
    }
}

/// Splits `Kind.group`, or adds the group of a known kind.
fn kind(text: &str) -> (&str, &str) {
    text.split_once('.').unwrap_or((text, group(text)))
}

/// The object for the short form `short`.
pub(crate) fn object(short: &Value) -> Value {
    let fields = short.as_object().unwrap();
    let is_kind = |key: &&String| key.starts_with(|c: char| c.is_ascii_uppercase());
    let named = fields.keys().find(is_kind).unwrap();
    let (kind, group) = kind(named);
    let name = fields[named].as_str().unwrap();
    let (namespace, name) = name.split_once('/').unwrap_or((NAMESPACE, name));
    let mut metadata = json!({"name": name});
    if !["GatewayClass", "Namespace", "CustomResourceDefinition"].contains(&kind) {
        metadata["namespace"] = namespace.into();
    }
    let mut spec = Map::new();
    let (mut status, mut data) = (Value::Null, Value::Null);
    for (key, value) in fields {
        match key.as_str() {
            key if key == named => {}
            "created" => {
                metadata["creationTimestamp"] =
                    format!("2026-01-01T00:00:{:02}Z", value.as_u64().unwrap()).into()
            }
            "deleting" => metadata["deletionTimestamp"] = "2026-02-01T00:00:00Z".into(),
            "annotations" | "generation" | "labels" => metadata[key] = value.clone(),
            "status" => status = value.clone(),
            "tls" if kind == "Secret" => data = certificate(value.as_bool().unwrap()),
            "parents" => drop(spec.insert("parentRefs".into(), list(value, reference))),
            "parent" => drop(spec.insert("parentRef".into(), reference(value))),
            "target" => drop(spec.insert("targetRef".into(), reference(value))),
            "targets" => drop(spec.insert("targetRefs".into(), list(value, reference))),
            "listeners" => drop(spec.insert("listeners".into(), list(value, listener))),
            "rules" if kind.ends_with("Route") => drop(spec.insert("rules".into(), list(value, rule))),
            key => drop(spec.insert(key.into(), value.clone())),
        }
    }
    if kind == "Gateway" {
        spec.entry("gatewayClassName").or_insert("istio".into());
    }
    let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
    if !status.is_null() {
        object["status"] = status;
    }
    if !data.is_null() {
        object["data"] = data;
        object["type"] = "kubernetes.io/tls".into();
    }
    object
}

fn list(value: &Value, item: fn(&Value) -> Value) -> Value {
    value.as_array().unwrap().iter().map(item).collect()
}

/// Parses `[Kind/][namespace/]name[:port][#section]`.
fn reference(text: &Value) -> Value {
    let Some(text) = text.as_str() else { return text.clone() };
    let (text, section) = text.split_once('#').map_or((text, None), |(text, section)| (text, Some(section)));
    let (text, port) = text.split_once(':').map_or((text, None), |(text, port)| (text, Some(port)));
    let mut parts: Vec<&str> = text.split('/').collect();
    let mut reference = json!({"name": parts.pop().unwrap()});
    if parts.first().is_some_and(|part| part.starts_with(|c: char| c.is_ascii_uppercase())) {
        let (kind, group) = kind(parts.remove(0));
        reference["kind"] = kind.into();
        reference["group"] = group.into();
    }
    if let Some(namespace) = parts.pop() {
        reference["namespace"] = namespace.into();
    }
    if let Some(section) = section {
        reference["sectionName"] = section.into();
    }
    if let Some(port) = port {
        reference["port"] = port.parse::<u16>().unwrap().into();
    }
    reference
}

/// A listener, by default `http` with the protocol HTTP at port 80.
fn listener(short: &Value) -> Value {
    let mut listener = json!({"name": "http", "port": 80, "protocol": "HTTP"});
    for (key, value) in short.as_object().unwrap() {
        match key.as_str() {
            "from" => listener["allowedRoutes"]["namespaces"]["from"] = value.clone(),
            "selector" => listener["allowedRoutes"]["namespaces"]["selector"]["matchLabels"] = value.clone(),
            "kinds" => {
                let kinds = value.as_array().unwrap().iter();
                listener["allowedRoutes"]["kinds"] = kinds.map(|kind| json!({"kind": kind})).collect();
            }
            "mode" => listener["tls"]["mode"] = value.clone(),
            "certificates" => listener["tls"]["certificateRefs"] = list(value, reference),
            key => listener[key] = value.clone(),
        }
    }
    listener
}

fn rule(short: &Value) -> Value {
    let mut rule = short.clone();
    if let Some(backends) = rule.as_object_mut().unwrap().remove("backends") {
        rule["backendRefs"] = list(&backends, reference);
    }
    rule
}

/// The data of a Secret with a certificate, `valid` or not.
fn certificate(valid: bool) -> Value {
    // "-----BEGIN CERTIFICATE-----\n", or "Hello world\n".
    let certificate = if valid { "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==" } else { "SGVsbG8gd29ybGQK" };
    json!({"tls.crt": certificate, "tls.key": "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCg=="})
}

/// The object `json` as the controller parses it.
pub(crate) fn hub_object(json: &Value) -> HubObject {
    serde_json::from_str(&json.to_string()).unwrap()
}

/// The objects of a cluster in short form.
pub(crate) fn objects<'s>(short: impl IntoIterator<Item = &'s Value>) -> Objects {
    let mut objects = Objects::default();
    for short in short {
        let json = object(short);
        objects.take(&hub_object(&json)).unwrap_or_else(|fault| panic!("{json}: {fault}"));
    }
    objects
}
