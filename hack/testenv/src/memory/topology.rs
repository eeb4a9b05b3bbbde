//! Whether what a controller keeps of the topology is that of what there is.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, anyhow, ensure};
use policy_sync::api::gateway::{GatewayClassSpec, GatewaySpec};
use policy_sync::api::object::HubObject;
use policy_sync::flow::Flow;
use policy_sync::topology::locator::{GATEWAY, GATEWAY_CLASS, HTTP_ROUTE, Locator};
use policy_sync::topology::objects::{Role, role};
use policy_sync::topology::stored::{LIMIT, Settings, Stored, TopologyMetrics, text};
use policy_sync::topology::told::{AFFECTED_DOMAIN, AFFECTED_LIMIT, RoutesTold, Said, affected};
use policy_sync::topology::{Graph, Objects};
use serde_json::{Value, json};

use super::MemoryServer;

/// Where the ConfigMap is.
const NAMESPACE: &str = "default";

/// Has `flow` keep the topology.
///
/// # Errors
///
/// Where metrics cannot be set up.
pub fn keep_topology(flow: &mut Flow) -> Result<()> {
    let metrics = TopologyMetrics::new(&flow.metrics)?;
    let settings = Settings::new(NAMESPACE, true);
    flow.topology = Some(Stored::new(flow.controller.clone(), settings, flow.clock, &flow.metrics, metrics));
    Ok(())
}

impl MemoryServer {
    /// Whether the ConfigMap, and the statuses of all Gateways and HTTPRoutes, are those of the graph of what there is, as far as the
    /// controller `controller` writes them. Policies are objects of kinds that are `listed`.
    ///
    /// # Errors
    ///
    /// What is not.
    pub fn topology_is_told(&self, controller: &str, listed: impl Fn(&str) -> bool) -> Result<()> {
        let found: Vec<HubObject> =
            self.objects().into_values().filter_map(|object| serde_json::from_value(object).ok()).collect();
        let kinds = [GATEWAY_CLASS, GATEWAY, HTTP_ROUTE].map(|kind| kind.to_kind());
        let mut objects = Objects::of_cluster(kinds.into());
        for object in &found {
            match role(object) {
                Role::None => continue,
                Role::Policy if !listed(&object.kind) => continue,
                Role::Definition | Role::Policy | Role::Of(_) => {}
            }
            objects.take(object).map_err(|fault| anyhow!("{fault}"))?;
        }
        let facts = objects.facts();
        let graph = Graph::build(&facts);
        let stored =
            found.iter().find(|object| object.kind == "ConfigMap" && object.metadata.name == "topology");
        let stored: BTreeMap<String, String> = stored.context("there is no ConfigMap")?.data_as();
        let expected = text(&graph, LIMIT).dot;
        ensure!(
            stored["topology"] == expected,
            "the ConfigMap says {}, and not {expected}",
            stored["topology"]
        );

        let of_kind = |kind: &'static str| found.iter().filter(move |object| object.kind == kind);
        let is_ours = |class: &&HubObject| class.spec_as::<GatewayClassSpec>().controller_name == controller;
        let classes: BTreeSet<&str> =
            of_kind("GatewayClass").filter(is_ours).map(|class| &*class.metadata.name).collect();
        let ours: BTreeSet<(String, String)> = of_kind("Gateway")
            .filter(|gateway| classes.contains(&*gateway.spec_as::<GatewaySpec>().gateway_class_name))
            .map(|gateway| (gateway.metadata.namespace.clone(), gateway.metadata.name.clone()))
            .collect();
        let is_ours =
            |locator: Locator<'_>| ours.contains(&(locator.namespace.to_owned(), locator.name.to_owned()));
        let named = |locator: Locator<'_>| {
            let mut objects = of_kind(if locator.kind == GATEWAY { "Gateway" } else { "HTTPRoute" });
            let is_it = |object: &&HubObject| {
                object.metadata.namespace == locator.namespace && object.metadata.name == locator.name
            };
            objects.find(is_it).with_context(|| format!("{locator} is gone"))
        };
        for node in
            graph.nodes().filter(|node| graph.locator(*node).kind == GATEWAY && !graph.is_section(*node))
        {
            let locator = graph.locator(node);
            let status: Value = named(locator)?.status_as();
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let is_affected = |condition: &&Value| {
                condition["type"].as_str().is_some_and(|name| name.starts_with(AFFECTED_DOMAIN))
            };
            let room = if is_ours(locator) { AFFECTED_LIMIT } else { 0 };
            let mut found: Vec<&Value> = conditions.filter(is_affected).collect();
            found.sort_by_key(|condition| condition["type"].as_str());
            is_said(locator, &found, named(locator)?.metadata.generation, &affected(&graph, node, room))?;
        }
        let mut told = Ok(());
        RoutesTold::new(&graph, is_ours).each(|locator, _, entries| {
            told = std::mem::replace(&mut told, Ok(())).and_then(|()| {
                let route = named(locator)?;
                let status: Value = route.status_as();
                let parents = status["parents"].as_array().into_iter().flatten();
                let found: Vec<&Value> =
                    parents.filter(|entry| entry["controllerName"] == controller).collect();
                ensure!(found.len() == entries.len(), "{locator} has {found:?}");
                found.iter().zip(&entries).try_for_each(|(entry, told)| {
                    let conditions: Vec<&Value> =
                        entry["conditions"].as_array().into_iter().flatten().collect();
                    is_said(locator, &conditions, route.metadata.generation, &told.conditions.said)
                })
            });
        });
        told
    }
}

/// Whether the conditions that were `found` are `said`, of this generation.
fn is_said(what: Locator<'_>, found: &[&Value], generation: i64, said: &[Said]) -> Result<()> {
    ensure!(found.len() == said.len(), "{what} says {found:?}, and not {said:?}");
    found.iter().zip(said).try_for_each(|(found, said)| {
        let expected = json!({"type": said.name, "status": said.status, "reason": said.reason, "message": said.message,
            "observedGeneration": generation, "lastTransitionTime": found["lastTransitionTime"]});
        ensure!(**found == expected, "{what} says {found}, and not {expected}");
        Ok(())
    })
}
