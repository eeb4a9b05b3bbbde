//! Compares the stored topology and its statuses with a graph of all objects.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use policy_sync_api::gateway::{GatewayClassSpec, GatewaySpec};
use policy_sync_api::object::HubObject;
use policy_sync_controller::manager::Manager;
use policy_sync_controller::stored_topology::{LIMIT, Settings, StoredTopology, TopologyMetrics, text};
use policy_sync_topology::conditions::{
    AFFECTED_DOMAIN, AFFECTED_LIMIT, ConditionText, RouteConditions, gateway_conditions,
};
use policy_sync_topology::locator::{GATEWAY, GATEWAY_CLASS, HTTP_ROUTE, KindRef, Locator};
use policy_sync_topology::objects::{GRANT, ObjectRole, role};
use policy_sync_topology::{Graph, Objects};
use serde_json::{Value, json};

use super::MemoryServer;

/// Namespace of the topology ConfigMap.
const NAMESPACE: &str = "default";

/// Enables the stored topology in `flow`.
///
/// # Errors
///
/// Returns an error if the metrics cannot be registered.
pub fn keep_topology(flow: &mut Manager) -> Result<()> {
    let metrics = TopologyMetrics::new(&flow.metrics)?;
    let settings = Settings::new(NAMESPACE, true);
    flow.topology =
        Some(StoredTopology::new(flow.controller.clone(), settings, flow.clock, &flow.metrics, metrics));
    Ok(())
}

impl MemoryServer {
    /// Checks the ConfigMap and the statuses; see [`check_topology`].
    ///
    /// # Errors
    ///
    /// Returns the first difference.
    pub fn check_topology(&self, controller: &str, listed: impl Fn(&str) -> bool) -> Result<()> {
        let found: Vec<HubObject> =
            self.objects().into_values().filter_map(|object| serde_json::from_value(object).ok()).collect();
        check_topology(&found, controller, listed, false)
    }

    /// Checks the statuses of the Gateways and HTTPRoutes in `namespace` against the graph of all objects.
    /// Objects in other namespaces may be unreadable. The ConfigMap covers all namespaces and is not compared.
    ///
    /// # Errors
    ///
    /// Returns the first difference.
    pub fn check_statuses(
        &self,
        controller: &str,
        listed: impl Fn(&str) -> bool,
        namespace: &str,
    ) -> Result<()> {
        let found: Vec<HubObject> =
            self.objects().into_values().filter_map(|object| serde_json::from_value(object).ok()).collect();
        let objects = taken(&found, listed, true)?;
        let graph_input = objects.graph_input();
        compare_statuses(&Graph::build(&graph_input), &found, controller, |of| of == namespace)
    }
}

/// Checks that the ConfigMap matches the graph of the objects in `found`. Also checks the statuses that `controller`
/// writes to Gateways and HTTPRoutes. Only kinds that `listed` accepts are policies. If `unreadable` is true, objects
/// that cannot be read are skipped.
///
/// # Errors
///
/// Returns the first difference.
pub fn check_topology(
    found: &[HubObject],
    controller: &str,
    listed: impl Fn(&str) -> bool,
    unreadable: bool,
) -> Result<()> {
    let objects = taken(found, listed, unreadable)?;
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let stored = found.iter().find(|object| object.kind == "ConfigMap" && object.metadata.name == "topology");
    let stored: BTreeMap<String, String> = stored.context("no ConfigMap")?.data_as();
    let expected = text(&graph, LIMIT).dot;
    ensure!(stored["topology"] == expected, "stored: {}, expected: {expected}", stored["topology"]);
    compare_statuses(&graph, found, controller, |_| true)
}

/// Reads the objects into the input of a graph. The list of ReferenceGrants counts as complete. Otherwise, the expected
/// conditions would include a tenant's policy on another tenant's Gateway.
fn taken(found: &[HubObject], listed: impl Fn(&str) -> bool, unreadable: bool) -> Result<Objects> {
    let kinds = [GATEWAY_CLASS, GATEWAY, HTTP_ROUTE, GRANT].map(|kind| kind.to_kind());
    let mut objects = Objects::of_cluster(kinds.into());
    for object in found {
        match role(object) {
            ObjectRole::None => continue,
            ObjectRole::Policy if !listed(&object.kind) => continue,
            ObjectRole::Definition | ObjectRole::Policy | ObjectRole::GraphObject(_) => {}
        }
        let taken = objects.take(object);
        ensure!(unreadable || taken.is_ok(), "{} cannot be read: {taken:?}", object.metadata.name);
    }
    Ok(objects)
}

/// Compares the statuses of the Gateways and HTTPRoutes in the namespaces that `such` accepts with `graph`.
fn compare_statuses(
    graph: &Graph<'_>,
    found: &[HubObject],
    controller: &str,
    such: impl Fn(&str) -> bool,
) -> Result<()> {
    let of_kind = |kind: &'static str| found.iter().filter(move |object| object.kind == kind);
    let is_ours = |class: &&HubObject| class.spec_as::<GatewayClassSpec>().controller_name == controller;
    let classes: BTreeSet<&str> =
        of_kind("GatewayClass").filter(is_ours).map(|class| &*class.metadata.name).collect();
    let ours: BTreeSet<(&str, &str)> = of_kind("Gateway")
        .filter(|gateway| classes.contains(&*gateway.spec_as::<GatewaySpec>().gateway_class_name))
        .map(|gateway| (&*gateway.metadata.namespace, &*gateway.metadata.name))
        .collect();
    for gateway in of_kind("Gateway").filter(|gateway| such(&gateway.metadata.namespace)) {
        let metadata = &gateway.metadata;
        let locator = locator_of(GATEWAY, gateway);
        let is_ours = ours.contains(&(&*metadata.namespace, &*metadata.name));
        let node = graph.nodes().find(|node| is_ours && graph.locator(*node) == locator);
        let expected = node.map(|node| gateway_conditions(graph, node, AFFECTED_LIMIT)).unwrap_or_default();
        let status: Value = gateway.status_as();
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let is_affected = |condition: &&Value| {
            condition["type"].as_str().is_some_and(|name| name.starts_with(AFFECTED_DOMAIN))
        };
        let mut found: Vec<&Value> = conditions.filter(is_affected).collect();
        found.sort_by_key(|condition| condition["type"].as_str());
        are(locator, &found, metadata.generation, &expected)?;
    }
    let mut expected = BTreeMap::new();
    RouteConditions::new(graph, |gateway| ours.contains(&(gateway.namespace, gateway.name))).each(
        |_, locator, _, entries| {
            expected.insert((locator.namespace, locator.name), entries);
        },
    );
    for route in of_kind("HTTPRoute").filter(|route| such(&route.metadata.namespace)) {
        let metadata = &route.metadata;
        let locator = locator_of(HTTP_ROUTE, route);
        let expected = expected.remove(&(&*metadata.namespace, &*metadata.name)).unwrap_or_default();
        let status: Value = route.status_as();
        let parents = status["parents"].as_array().into_iter().flatten();
        let found: Vec<&Value> = parents.filter(|entry| entry["controllerName"] == controller).collect();
        ensure!(found.len() == expected.len(), "{locator} has {found:?}");
        let spec: Value = route.spec_value();
        for (entry, expected) in found.iter().zip(&expected) {
            let reference = &spec["parentRefs"][expected.reference];
            ensure!(entry["parentRef"] == *reference, "{locator} has {entry} for {reference}");
            let conditions: Vec<&Value> = entry["conditions"].as_array().into_iter().flatten().collect();
            are(locator, &conditions, metadata.generation, &expected.conditions.texts)?;
        }
    }
    Ok(())
}

fn locator_of<'o>(kind: KindRef<'static>, object: &'o HubObject) -> Locator<'o> {
    let HubObject { metadata, .. } = object;
    Locator { kind, namespace: &metadata.namespace, name: &metadata.name, section: None }
}

/// Checks that conditions are as `expected`, with this observed generation.
fn are(what: Locator<'_>, found: &[&Value], generation: i64, expected: &[ConditionText]) -> Result<()> {
    ensure!(found.len() == expected.len(), "{what} has {found:?}, expected {expected:?}");
    found.iter().zip(expected).try_for_each(|(found, text)| {
        let expected = json!({"type": text.name, "status": text.status, "reason": text.reason, "message": text.message,
            "observedGeneration": generation, "lastTransitionTime": found["lastTransitionTime"]});
        ensure!(**found == expected, "{what} has {found}, expected {expected}");
        Ok(())
    })
}
