//! Builds a topology with objects beyond the kinds of Gateway API. These are a root above all GatewayClasses, and the
//! objects that a controller creates for a Gateway.
//!
//! Run it with `cargo run -p policy-sync-topology --example adjacent_objects | dot -Tsvg > topology.svg`.

use std::error::Error;

use policy_sync_topology::locator::{GATEWAY, GATEWAY_CLASS, KindRef, Locator};
use policy_sync_topology::{Graph, Objects, Topology};
use serde_json::json;

const CLASS: Locator<'static> = Locator::new(GATEWAY_CLASS, "", "istio");
const WEB: Locator<'static> = Locator::new(GATEWAY, "infra", "web");

/// The topology as DOT.
fn dot() -> Result<String, Box<dyn Error>> {
    let mut objects = Objects::default();
    objects.take(&serde_json::from_value(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": {"name": "istio"}, "spec": {"controllerName": "istio.io/gateway-controller"},
    }))?)?;
    objects.take(&serde_json::from_value(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": "web", "namespace": "infra"},
        "spec": {"gatewayClassName": "istio", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
    }))?)?;
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let kind = |group, kind| KindRef { group, kind };
    let kuadrant = Locator::new(kind("kuadrant.io", "Kuadrant"), "kuadrant-system", "kuadrant");
    let plugin = Locator::new(kind("extensions.istio.io", "WasmPlugin"), "infra", "kuadrant-web");
    let settings = Locator::new(kind("", "ConfigMap"), "infra", "web-settings");
    let adjacent = [kuadrant, plugin, settings];
    let topology = Topology::builder()
        .gateway_api(&graph)
        .objects(&adjacent)
        .link(kuadrant, CLASS)
        .link(WEB, plugin)
        .link(WEB, settings)
        .build()?;
    Ok(topology.dot())
}

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", dot()?);
    Ok(())
}

#[test]
fn adjacent_objects_are_above_and_below_gateways() {
    let dot = dot().expect("objects are valid");
    let web = "gateway.gateway.networking.k8s.io:infra/web";
    for link in [
        "\"kuadrant.kuadrant.io:kuadrant-system/kuadrant\" -> \"gatewayclass.gateway.networking.k8s.io:istio\";",
        &format!("\"{web}\" -> \"{web}#http\";"),
        &format!("\"{web}\" -> \"wasmplugin.extensions.istio.io:infra/kuadrant-web\";"),
        &format!("\"{web}\" -> \"configmap:infra/web-settings\";"),
    ] {
        assert!(dot.contains(link), "{link} is not in {dot}");
    }
}
