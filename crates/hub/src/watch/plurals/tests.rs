use serde_json::json;

use super::*;

fn groups() -> Vec<APIGroupDiscovery> {
    let group = |name: &str, versions: &[(&str, &[&str])]| {
        let version = |(version, plurals): &(&str, &[&str])| {
            let resources: Vec<_> = plurals
                .iter()
                .map(|plural| match plural.strip_prefix('-') {
                    Some(plural) => json!({"resource": plural, "verbs": ["create"]}),
                    None => json!({"resource": plural, "verbs": ["get", "list", "watch"]}),
                })
                .collect();
            json!({"version": version, "resources": resources})
        };
        let versions: Vec<_> = versions.iter().map(version).collect();
        serde_json::from_value(json!({"metadata": {"name": name}, "versions": versions})).unwrap()
    };
    vec![
        group("", &[("v1", &["pods", "events", "-bindings"])]),
        group("events.k8s.io", &[("v1", &["events"])]),
        group("gateway.networking.k8s.io", &[("v1", &["gateways"]), ("v1beta1", &["gateways", "grants"])]),
        group("networking.istio.io", &[("v1", &["gateways"])]),
    ]
}

#[test]
fn plurals_resolve_as_in_kubectl() {
    let of =
        |group, version, plural| ResolvedPlural::Resource(GroupVersionResource::new(group, version, plural));
    for (name, expected) in [
        ("pods", of("", "v1", "pods")),
        ("events", of("", "v1", "events")),
        ("events.events.k8s.io", of("events.k8s.io", "v1", "events")),
        ("gateways", of("gateway.networking.k8s.io", "v1", "gateways")),
        ("gateways.networking.istio.io", of("networking.istio.io", "v1", "gateways")),
        // The hub serves `grants` only in a version that is not the preferred version.
        ("grants", of("gateway.networking.k8s.io", "v1beta1", "grants")),
        ("bindings", ResolvedPlural::NotWatchable),
        ("Pod", ResolvedPlural::NotServed),
        ("pods.apps", ResolvedPlural::NotServed),
        ("widgets", ResolvedPlural::NotServed),
        ("", ResolvedPlural::NotServed),
    ] {
        assert_eq!(served(&groups(), name), expected, "{name}");
    }
}
