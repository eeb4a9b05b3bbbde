//! Random worlds in the short form of `tests/topology`, with fixed seeds. The namespaces of each world have
//! unique names, so that one cluster can hold all worlds.

use fastrand::Rng;
use serde_json::{Value, json};

const ROUTE_WORLDS: u64 = 30;
const POLICY_WORLDS: u64 = 60;

/// Worlds of listeners and routes.
pub(crate) fn of_routes() -> Vec<Vec<Value>> {
    (0..ROUTE_WORLDS).map(|seed| Generator::new("i", seed).routes()).collect()
}

/// Worlds of policies.
pub(crate) fn of_policies() -> Vec<Vec<Value>> {
    (0..POLICY_WORLDS).map(|seed| Generator::new("k", seed).policies()).collect()
}

struct Generator {
    rng: Rng,
    /// The names of two namespaces with the labels `red` and `blue`.
    red: String,
    blue: String,
}

/// Adds `kind` and `name` to the `fields` of an object in short form.
fn named(kind: &str, name: String, mut fields: Value) -> Value {
    fields[kind] = name.into();
    fields
}

impl Generator {
    fn new(prefix: &str, seed: u64) -> Self {
        let namespace = |color: &str| format!("{prefix}{seed:02}-{color}");
        Self { rng: Rng::with_seed(seed), red: namespace("red"), blue: namespace("blue") }
    }

    /// A random element of `values`.
    fn any<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.rng.usize(..values.len())].clone()
    }

    fn once_in(&mut self, times: u32) -> bool {
        self.rng.u32(..times) == 0
    }

    fn namespace(&mut self) -> String {
        let both = [self.red.clone(), self.blue.clone()];
        self.any(&both)
    }

    /// The GatewayClass, the two namespaces, and a Service in each namespace.
    fn ground(&self) -> Vec<Value> {
        let ports = json!([{"name": "http", "port": 80}, {"name": "grpc", "port": 90}]);
        let mut objects = vec![json!({"GatewayClass": "istio"})];
        for (namespace, team) in [(&self.red, "red"), (&self.blue, "blue")] {
            objects.push(json!({"Namespace": namespace, "labels": {"team": team}}));
            objects.push(json!({"Service": format!("{namespace}/orders"), "ports": ports}));
        }
        objects
    }

    fn routes(&mut self) -> Vec<Value> {
        let (red, blue) = (self.red.clone(), self.blue.clone());
        let mut objects = self.ground();
        objects.push(json!({"Secret": format!("{red}/cert"), "tls": true}));
        objects.push(json!({"Secret": format!("{blue}/cert"), "tls": true}));
        objects.push(json!({"Secret": format!("{red}/broken"), "tls": false}));
        let outside = json!({"type": "ExternalName", "externalName": "example.org", "ports": [{"port": 80}]});
        objects.push(named("Service", format!("{red}/outside"), outside));
        for (index, namespace) in [&red, &blue].into_iter().enumerate() {
            let sets = self.any(&["All", "Same", "None"]);
            let fields =
                json!({"listeners": self.listeners(4), "allowedListeners": {"namespaces": {"from": sets}}});
            objects.push(named("Gateway", format!("{namespace}/g{index}"), fields));
        }
        if self.once_in(2) {
            let namespace = self.namespace();
            let parent = format!("Gateway/{red}/g0");
            let fields =
                json!({"parent": parent, "listeners": self.listeners(3), "created": self.rng.u32(..2)});
            objects.push(named("ListenerSet", format!("{namespace}/s0"), fields));
        }
        if self.once_in(2) {
            let kind = self.any(&["HTTPRoute", "GRPCRoute", "Gateway", "TCPRoute"]);
            let to = if kind == "Gateway" { "Secret" } else { "Service" };
            let group = "gateway.networking.k8s.io";
            let fields = json!({"from": [{"group": group, "kind": kind, "namespace": red}], "to": [{"group": "", "kind": to}]});
            objects.push(named("ReferenceGrant", format!("{blue}/grant"), fields));
        }
        let kinds = [
            "HTTPRoute",
            "HTTPRoute",
            "HTTPRoute",
            "GRPCRoute",
            "GRPCRoute",
            "TCPRoute",
            "TLSRoute",
            "UDPRoute",
        ];
        for index in 0..self.rng.u32(2..7) {
            let kind = self.any(&kinds);
            let (namespace, fields) = (self.namespace(), self.route(kind));
            objects.push(named(kind, format!("{namespace}/r{index}"), fields));
        }
        objects
    }

    /// A host of a listener or a route, if any.
    fn host(&mut self) -> Option<&'static str> {
        let hosts = ["a.example.com", "b.example.com", "*.example.com", "*.a.example.com", "x.a.example.com"];
        (!self.once_in(3)).then(|| self.any(&hosts))
    }

    fn listeners(&mut self, limit: u32) -> Value {
        let mut listeners: Vec<Value> = Vec::new();
        for index in 0..self.rng.u32(1..limit) {
            let listener = self.listener(index);
            // The API server rejects two listeners with the same port, protocol and hostname.
            let place =
                |listener: &Value| ["port", "protocol", "hostname"].map(|field| listener[field].clone());
            if !listeners.iter().any(|other| place(other) == place(&listener)) {
                listeners.push(listener);
            }
        }
        listeners.into()
    }

    fn listener(&mut self, index: u32) -> Value {
        let protocol =
            self.any(&["HTTP", "HTTP", "HTTP", "HTTP", "HTTPS", "HTTPS", "TLS", "TLS", "TCP", "UDP"]);
        let port = self.any(&[80, 80, 81]);
        let mut listener = json!({"name": format!("l{index}"), "port": port, "protocol": protocol});
        if !["TCP", "UDP"].contains(&protocol)
            && let Some(host) = self.host()
        {
            listener["hostname"] = host.into();
        }
        match self.rng.u32(..6) {
            0 => {}
            1 => listener["selector"] = json!({"team": "red"}),
            _ => listener["from"] = "All".into(),
        }
        if listener.get("selector").is_some() {
            listener["from"] = "Selector".into();
        }
        if self.once_in(5) {
            let kinds = ["HTTPRoute", "GRPCRoute", "TCPRoute", "TLSRoute", "UDPRoute", "PingRoute"];
            listener["kinds"] = json!([self.any(&kinds), "HTTPRoute"]);
        }
        let passes = protocol == "TLS" && self.once_in(2);
        if passes {
            listener["mode"] = "Passthrough".into();
        } else if ["HTTPS", "TLS"].contains(&protocol) {
            let blue = format!("{}/cert", self.blue);
            let names = ["cert", "cert", "cert", "broken", "gone", "ConfigMap./cert", &blue];
            listener["mode"] = "Terminate".into();
            listener["certificates"] = json!([self.any(&names)]);
        }
        listener
    }

    fn route(&mut self, kind: &str) -> Value {
        let mut parents =
            vec![format!("{}/g0", self.red), format!("{}/g1", self.blue), format!("{}/nope", self.red)];
        parents.push(format!("ListenerSet/{}/s0", self.red));
        self.rng.shuffle(&mut parents);
        parents.truncate(self.rng.usize(1..3));
        for parent in &mut parents {
            *parent += self.any(&["", "", "", "#l0", "#l1", "#l9", ":80", ":81"]);
        }
        let rules: Vec<Value> = (0..self.rng.u32(1..3)).map(|_| self.rule(kind)).collect();
        let is_raw = ["TCPRoute", "TLSRoute", "UDPRoute"].contains(&kind);
        let mut route = json!({"parents": parents, "rules": &rules[..if is_raw { 1 } else { rules.len() }]});
        let hosts: Vec<&str> = (0..2).filter_map(|_| self.host()).collect();
        match kind {
            "TLSRoute" => route["hostnames"] = json!([hosts.first().copied().unwrap_or("a.example.com")]),
            "HTTPRoute" | "GRPCRoute" => route["hostnames"] = json!(hosts),
            _ => {}
        }
        route["created"] = self.rng.u32(..2).into();
        route
    }

    fn rule(&mut self, kind: &str) -> Value {
        let elsewhere = format!("{}/orders:80", self.blue);
        let own = ["orders:80"; 6];
        let others = ["orders:81", "gone:80", "outside:80", "Pool.example.com/p", "ConfigMap./c", &elsewhere];
        let all = [own, others].concat();
        let mut rule = json!({"backends": [self.any(&all)]});
        if ["HTTPRoute", "GRPCRoute"].contains(&kind) && self.once_in(4) {
            let name = self.any(&["orders", "gone"]);
            let mirror = json!({"backendRef": {"name": name, "port": 80}});
            rule["filters"] = json!([{"type": "RequestMirror", "requestMirror": mirror}]);
        }
        rule
    }

    fn policies(&mut self) -> Vec<Value> {
        let (red, blue) = (self.red.clone(), self.blue.clone());
        let mut objects = self.ground();
        for (index, namespace) in [&red, &blue].into_iter().enumerate() {
            let mut listeners = Vec::new();
            for number in 0..self.rng.u32(1..3) {
                let from = self.any(&["All", "All", "All", "All", "Same"]);
                let mut listener = json!({"name": format!("l{number}"), "port": 80 + number, "from": from});
                if self.once_in(4) {
                    listener["hostname"] = self.any(&["a.example.com", "*.example.com"]).into();
                }
                listeners.push(listener);
            }
            objects.push(named("Gateway", format!("{namespace}/g{index}"), json!({"listeners": listeners})));
        }
        for index in 0..self.rng.u32(1..4) {
            let kind = self.any(&["HTTPRoute", "HTTPRoute", "HTTPRoute", "GRPCRoute"]);
            let mut parents = vec![format!("{red}/g0"), format!("{blue}/g1")];
            self.rng.shuffle(&mut parents);
            parents.truncate(self.rng.usize(1..3));
            for parent in &mut parents {
                *parent += self.any(&["", "", "", "#l0", "#l1"]);
            }
            let rules: Vec<Value> = (0..self.rng.u32(1..3)).map(|rule| self.named_rule(rule)).collect();
            let mut fields = json!({"parents": parents, "rules": rules, "created": self.rng.u32(..2)});
            if self.once_in(4) {
                fields["hostnames"] = json!([self.any(&["a.example.com", "b.example.com"])]);
            }
            let namespace = self.namespace();
            objects.push(named(kind, format!("{namespace}/r{index}"), fields));
        }
        for index in 0..self.rng.u32(3..9) {
            let kind = self.any(&[
                "AuthPolicy",
                "AuthPolicy",
                "RateLimitPolicy",
                "RateLimitPolicy",
                "TokenRateLimitPolicy",
            ]);
            let (namespace, fields) = (self.namespace(), self.policy(kind, index));
            objects.push(named(kind, format!("{namespace}/p{index}"), fields));
        }
        objects
    }

    fn named_rule(&mut self, index: u32) -> Value {
        let mut rule = json!({"backends": ["orders:80"]});
        if self.once_in(2) {
            rule["name"] = format!("n{index}").into();
        }
        rule
    }

    fn policy(&mut self, kind: &str, index: u32) -> Value {
        let targets = [
            "Gateway/g0",
            "Gateway/g0",
            "Gateway/g1",
            "Gateway/g1",
            "Gateway/g0#l0",
            "Gateway/g1#l1",
            "HTTPRoute/r0",
            "HTTPRoute/r0",
            "HTTPRoute/r1",
            "HTTPRoute/r2",
            "GRPCRoute/r0",
            "GRPCRoute/r1",
            "HTTPRoute/r0#n0",
            "HTTPRoute/r0#rule-2",
            "GRPCRoute/r1#rule-1",
        ];
        let target = self.any(&targets);
        let target =
            if kind == "TokenRateLimitPolicy" { target.replace("GRPC", "HTTP") } else { target.to_owned() };
        let mut block = self.block(kind, index);
        let part = self.any(&["", "", "defaults", "overrides"]);
        if !part.is_empty() && self.once_in(2) {
            block["strategy"] = self.any(&["merge", "merge", "atomic"]).into();
        }
        let mut fields = if part.is_empty() { block } else { json!({part: block}) };
        fields["target"] = target.into();
        fields["created"] = self.rng.u32(..3).into();
        fields
    }

    /// The rules of a policy: each value names the policy by its `index`.
    fn block(&mut self, kind: &str, index: u32) -> Value {
        let mut names = vec!["x", "y", "z"];
        self.rng.shuffle(&mut names);
        names.truncate(self.rng.usize(1..4));
        let mut rules = json!({});
        for name in names {
            rules[name] = match kind {
                "AuthPolicy" => json!({"opa": {"rego": format!("allow = {index}")}}),
                _ => json!({"rates": [{"limit": index + 1, "window": "1m"}]}),
            };
        }
        let mut block = match kind {
            "AuthPolicy" => json!({"rules": {"authorization": rules}}),
            _ => json!({"limits": rules}),
        };
        if self.once_in(4) {
            block["when"] = json!([{"predicate": format!("request.path == '/{index}'")}]);
        }
        block
    }
}
