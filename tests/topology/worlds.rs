//! Random objects: small worlds with many references between their objects.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

const HOSTS: [&str; 6] =
    ["a.example.com", "b.example.com", "*.example.com", "*.a.example.com", "x.a.example.com", "example.org"];
const NAMESPACES: [&str; 2] = ["one", "two"];

fn namespace() -> impl Strategy<Value = &'static str> {
    select(&NAMESPACES[..])
}

fn hosts(most: usize) -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(HOSTS.to_vec(), 0..=most)
}

fn created() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(0_u64..4)
}

/// `fields` with the creation time.
fn with_age(mut fields: Value, created: Option<u64>) -> Value {
    if let Some(created) = created {
        fields["created"] = created.into();
    }
    fields
}

fn listener() -> impl Strategy<Value = Value> {
    let protocol = prop_oneof![6 => Just("HTTP"), 2 => Just("HTTPS"), 1 => Just("TCP")];
    (hosts(1), select(vec![80, 81]), protocol, select(vec!["All", "Same"])).prop_map(
        |(hosts, port, protocol, from)| {
            let mut listener = json!({"port": port, "protocol": protocol, "from": from});
            if let Some(host) = hosts.first() {
                listener["hostname"] = (*host).into();
            }
            listener
        },
    )
}

fn listeners() -> impl Strategy<Value = Value> {
    vec(listener(), 1..4).prop_map(|mut listeners| {
        for (index, listener) in listeners.iter_mut().enumerate() {
            listener["name"] = format!("l{index}").into();
        }
        listeners.into()
    })
}

fn gateway() -> impl Strategy<Value = Value> {
    (listeners(), created(), select(vec!["All", "Same", "None"])).prop_map(|(listeners, created, sets)| {
        let fields = json!({"listeners": listeners, "allowedListeners": {"namespaces": {"from": sets}}});
        with_age(fields, created)
    })
}

fn parents() -> impl Strategy<Value = Value> {
    let section = prop_oneof![Just(""), Just("#l0"), Just("#l1"), Just(":81")];
    let parent = (
        prop_oneof![4 => Just("one/g0"), 4 => Just("two/g1"), 1 => Just("one/nope"), 2 => Just("ListenerSet/one/s0")],
        section,
    );
    vec(parent.prop_map(|(parent, section)| format!("{parent}{section}")), 1..3).prop_map(Value::from)
}

fn matches() -> impl Strategy<Value = Value> {
    let path = prop::option::of(
        (
            select(vec!["Exact", "PathPrefix", "RegularExpression"]),
            select(vec!["/", "/a", "/a/b", "/a/", "/.*"]),
        )
            .prop_filter("paths begin with a slash", |(kind, value)| {
                *kind == "RegularExpression" || !value.contains('.')
            }),
    );
    let method = prop::option::of(select(vec!["GET", "POST"]));
    let values = || subsequence(vec!["x", "y"], 0..=2);
    (path, method, values(), values()).prop_map(|(path, method, headers, query)| {
        let values = |names: Vec<&str>| -> Value {
            names.into_iter().map(|name| json!({"name": name, "value": "1"})).collect()
        };
        let mut written = json!({"headers": values(headers), "queryParams": values(query)});
        if let Some((kind, value)) = path {
            written["path"] = json!({"type": kind, "value": value});
        }
        if let Some(method) = method {
            written["method"] = method.into();
        }
        written
    })
}

fn rules() -> impl Strategy<Value = Value> {
    let rule = (prop::option::of(vec(matches(), 1..3)), prop::bool::ANY);
    vec(rule, 1..4).prop_map(|rules| {
        let rule = |(index, (matches, named)): (usize, (Option<Vec<Value>>, bool))| {
            let mut rule = json!({"backends": ["orders:80"]});
            if named {
                rule["name"] = format!("r{index}").into();
            }
            if let Some(matches) = matches {
                rule["matches"] = matches.into();
            }
            rule
        };
        rules.into_iter().enumerate().map(rule).collect()
    })
}

fn route() -> impl Strategy<Value = (&'static str, Value)> {
    let kind = prop_oneof![5 => Just("HTTPRoute"), 1 => Just("GRPCRoute"), 1 => Just("TCPRoute")];
    (kind, hosts(3), parents(), rules(), created()).prop_map(|(kind, hosts, parents, mut rules, created)| {
        if kind != "HTTPRoute" {
            for rule in rules.as_array_mut().unwrap() {
                rule.as_object_mut().unwrap().remove("matches");
            }
        }
        let mut fields = json!({"parents": parents, "rules": rules});
        if kind != "TCPRoute" {
            fields["hostnames"] = hosts.into();
        }
        (kind, with_age(fields, created))
    })
}

/// The part of a policy that contains the rules.
fn block(kind: &'static str) -> impl Strategy<Value = Value> {
    let names = subsequence(vec!["x", "y", "z"], 0..=3);
    (names, 0_u32..1000).prop_map(move |(names, value)| {
        let entries: serde_json::Map<String, Value> =
            names.into_iter().map(|name| (name.to_owned(), json!({"value": value}))).collect();
        match kind {
            "AuthPolicy" => json!({"rules": {"authentication": entries}}),
            "RateLimitPolicy" => json!({"limits": entries}),
            _ => Value::Object(entries),
        }
    })
}

fn policy() -> impl Strategy<Value = (&'static str, Value)> {
    let kind = select(vec!["AuthPolicy", "RateLimitPolicy", "DNSPolicy", "OtherPolicy.example.com"]);
    let target = select(vec![
        "GatewayClass/istio",
        "Gateway/g0",
        "Gateway/g1",
        "Gateway/g0#l0",
        "Gateway/g1#l1",
        "HTTPRoute/r0",
        "HTTPRoute/r1",
        "HTTPRoute/r2",
        "GRPCRoute/r1",
        "HTTPRoute/r0#r0",
        "HTTPRoute/r1#rule-1",
        "Service/orders",
        "ListenerSet/s0",
    ]);
    let targets = vec(target, 1..3);
    kind.prop_flat_map(move |kind| {
        let wrapped = select(vec!["", "", "defaults", "overrides"]);
        (Just(kind), targets.clone(), wrapped, prop::bool::ANY, block(kind), created())
    })
    .prop_map(|(kind, targets, wrapped, merged, block, created)| {
        let mut fields = match wrapped {
            "" => block,
            part => {
                let mut block = block;
                if merged {
                    block["strategy"] = "merge".into();
                }
                json!({part: block})
            }
        };
        fields["targets"] = targets.into();
        (kind, with_age(fields, created))
    })
}

/// Objects in short form, all with different names.
pub(crate) fn world() -> impl Strategy<Value = Vec<Value>> {
    let set = (listeners(), created()).prop_map(|(listeners, created)| {
        with_age(json!({"parent": "one/g0", "listeners": listeners}), created)
    });
    let routes = vec((namespace(), route()), 0..6);
    let policies = vec((namespace(), policy()), 0..9);
    let objects = (gateway(), gateway(), prop::option::of(set), routes, policies);
    objects.prop_map(|(one, two, set, routes, policies)| {
        let named = |kind: &str, name: String, mut fields: Value| {
            fields[kind] = name.into();
            fields
        };
        let mut objects = vec![json!({"GatewayClass": "istio"})];
        objects.push(named("Gateway", "one/g0".into(), one));
        objects.push(named("Gateway", "two/g1".into(), two));
        objects.extend(set.map(|set| named("ListenerSet", "one/s0".into(), set)));
        for namespace in NAMESPACES {
            objects.push(
                json!({"Service": format!("{namespace}/orders"), "ports": [{"name": "http", "port": 80}]}),
            );
        }
        for (index, (namespace, (kind, fields))) in routes.into_iter().enumerate() {
            objects.push(named(kind, format!("{namespace}/r{index}"), fields));
        }
        for (index, (namespace, (kind, fields))) in policies.into_iter().enumerate() {
            objects.push(named(kind, format!("{namespace}/p{index}"), fields));
        }
        objects
    })
}
