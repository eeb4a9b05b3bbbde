//! Objects of a cluster. Of 10,000 objects, 7,000 are routes with two rules, 2,000 Services with two ports, 950
//! policies of three kinds, and the rest Gateways. A tenth of the policies target Gateways, and a tenth
//! listeners. Three of a Gateway's four listeners accept each route.

use anyhow::{Context, Result, anyhow};
use policy_sync_api::object::HubObject;
use policy_sync_topology::Objects;
use serde_json::{Value, json};

const GROUP: &str = "gateway.networking.k8s.io";

/// The objects as JSON.
#[derive(Debug)]
pub struct World {
    /// Routes.
    pub routes: Vec<String>,
    /// All other objects.
    pub others: Vec<String>,
}

fn object(api_version: &str, kind: &str, name: String, spec: Value) -> String {
    let metadata = json!({
        "name": name, "namespace": "shop", "uid": format!("{kind}-{name}"), "resourceVersion": "12345", "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    });
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}).to_string()
}

fn gateway(index: usize) -> String {
    let listener = |(name, protocol, port, host): (&str, &str, u16, &str)| json!({"name": name, "protocol": protocol, "port": port, "hostname": host, "allowedRoutes": {"namespaces": {"from": "All"}}});
    let listeners = [
        ("http", "HTTP", 80, "*.example.com"),
        ("https", "HTTPS", 443, "*.example.com"),
        ("alternative", "HTTPS", 8443, "*.example.com"),
        ("internal", "HTTPS", 9443, "*.internal.example.org"),
    ];
    let spec = json!({"gatewayClassName": "istio", "listeners": listeners.map(listener)});
    object("gateway.networking.k8s.io/v1", "Gateway", format!("gateway-{index}"), spec)
}

fn route(index: usize, gateways: usize, services: usize) -> String {
    let rule = |path: &str| {
        json!({
            "matches": [{"path": {"type": "PathPrefix", "value": path}}],
            "backendRefs": [{"name": format!("service-{}", index % services), "port": 80}],
        })
    };
    let spec = json!({
        "parentRefs": [{"name": format!("gateway-{}", index % gateways)}],
        "hostnames": [format!("host-{index}.example.com")],
        "rules": [rule("/"), rule("/api")],
    });
    object("gateway.networking.k8s.io/v1", "HTTPRoute", format!("route-{index}"), spec)
}

fn policy(index: usize, gateways: usize, routes: usize) -> String {
    let target = match index % 10 {
        0 => json!({"group": GROUP, "kind": "Gateway", "name": format!("gateway-{}", index % gateways)}),
        1 => {
            json!({"group": GROUP, "kind": "Gateway", "name": format!("gateway-{}", index % gateways), "sectionName": "https"})
        }
        _ => json!({"group": GROUP, "kind": "HTTPRoute", "name": format!("route-{}", index % routes)}),
    };
    let limits = json!({"a": {"rates": [{"limit": 5, "window": "10s"}]}, "b": {"rates": [{"limit": 50, "window": "60s"}]}});
    let name = format!("policy-{index}");
    match index % 3 {
        0 => {
            object("kuadrant.io/v1", "RateLimitPolicy", name, json!({"targetRef": target, "limits": limits}))
        }
        1 => {
            let rules = json!({"authentication": {"key": {"apiKey": {}}}, "authorization": {"opa": {"opa": {"rego": "allow = true"}}}});
            object(
                "kuadrant.io/v1",
                "AuthPolicy",
                name,
                json!({"targetRef": target, "defaults": {"strategy": "merge", "rules": rules}}),
            )
        }
        _ => {
            let spec = json!({"targetRefs": [target], "timeout": {"http": {"requestTimeout": "5s"}}, "retry": {"numRetries": 3}});
            object("gateway.envoyproxy.io/v1alpha1", "BackendTrafficPolicy", name, spec)
        }
    }
}

impl World {
    /// Creates this number of objects.
    #[must_use]
    pub fn new(objects: usize) -> Self {
        let (routes, services, policies) = (objects * 7 / 10, (objects / 5).max(1), objects * 95 / 1000);
        let gateways = objects.saturating_sub(routes + services + policies).max(1);
        let service = |index: usize| {
            let ports = json!([{"name": "http", "port": 80}, {"name": "admin", "port": 81}]);
            object("v1", "Service", format!("service-{index}"), json!({"ports": ports}))
        };
        let class = object(
            "gateway.networking.k8s.io/v1",
            "GatewayClass",
            "istio".into(),
            json!({"controllerName": "a/b"}),
        );
        let others = (0..gateways).map(gateway).chain((0..services).map(service));
        let others = others.chain((0..policies).map(|index| policy(index, gateways, routes)));
        Self {
            routes: (0..routes).map(|index| route(index, gateways, services)).collect(),
            others: others.chain([class.replace(r#""namespace":"shop","#, "")]).collect(),
        }
    }

    /// Parses all objects, and keeps the fields from which a graph is built.
    ///
    /// # Errors
    ///
    /// Returns an error if an object cannot be read.
    pub fn objects(&self) -> Result<Objects> {
        let mut objects = Objects::default();
        self.routes.iter().chain(&self.others).try_for_each(|json| take(&mut objects, json))?;
        Ok(objects)
    }
}

/// Adds the object in `json`.
///
/// # Errors
///
/// Returns an error if the object cannot be read.
pub fn take(objects: &mut Objects, json: &str) -> Result<()> {
    let object: HubObject = serde_json::from_str(json).context("parsing an object")?;
    objects.take(&object).map_err(|fault| anyhow!("{json}: {fault}"))
}
