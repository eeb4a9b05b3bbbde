//! Compares istiod's statuses of listeners and routes with the statuses in the output of `topology`.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use kube::api::DynamicObject;
use policy_sync_testenv::wait;
use policy_sync_topology::Graph;
use policy_sync_topology::conditions::{ListenerConditions, RouteConditions};
use policy_sync_topology::locator::Locator;
use serde_json::{Value, json};

use crate::cluster::{Cluster, LIMIT};
use crate::differences::Difference;
use crate::fixtures::{ReportedValues, World};
use crate::shorthand::objects;

const ROUTES: [&str; 5] = ["HTTPRoute", "GRPCRoute", "TCPRoute", "TLSRoute", "UDPRoute"];
/// The suffix of `BackendNotFound` in `topology` if the Service exists without that port.
const NO_PORT: &str = " (no port)";
const CONTROLLER: &str = "istio.io/gateway-controller";

/// Applies `worlds` and waits until istiod has written the statuses.
pub(crate) async fn apply_and_collect(cluster: &Cluster, mut worlds: Vec<Vec<Value>>) -> Result<Vec<World>> {
    cluster.create(&mut worlds).await?;
    let mut before = None;
    // Several workers of istiod write statuses. The workers have finished once two consecutive rounds read the same
    // statuses.
    for round in 1.. {
        mark(cluster, round).await?;
        let answers = statuses(cluster).await?;
        if before.as_ref() == Some(&answers) {
            break;
        }
        ensure!(round < 20, "the statuses do not settle");
        before = Some(answers);
    }
    let mut answers = before.context("no statuses were read")?;
    let world = |objects: Vec<Value>| {
        let namespaces: Vec<&str> = objects.iter().filter_map(|short| short["Namespace"].as_str()).collect();
        let is_of = |key: &str| namespaces.iter().any(|namespace| key.contains(&format!(" {namespace}/")));
        let answers = answers.extract_if(.., |key, _| is_of(key)).collect();
        World { objects, answers }
    };
    Ok(worlds.into_iter().map(world).collect())
}

/// Writes a Gateway, a ListenerSet and routes of all kinds, and waits until istiod has attached all of them.
async fn mark(cluster: &Cluster, round: u32) -> Result<()> {
    let section = format!("m{round}");
    let listener = |port: u32, protocol: &str| json!({"name": format!("{section}{protocol}").to_lowercase(), "port": port, "protocol": protocol});
    let mut tls = listener(443, "TLS");
    tls["mode"] = "Passthrough".into();
    let mut gateway =
        json!({"Gateway": "marker/marker", "allowedListeners": {"namespaces": {"from": "All"}}});
    gateway["listeners"] = json!([listener(80, "HTTP"), tls, listener(90, "TCP")]);
    let set = json!({"ListenerSet": "marker/marker", "parent": "Gateway/marker", "listeners": [listener(81, "HTTP")]});
    let mut all = vec![gateway, set];
    for kind in &ROUTES[..4] {
        let protocol = match *kind {
            "TCPRoute" => "tcp",
            "TLSRoute" => "tls",
            _ => "http",
        };
        let mut route =
            json!({"parents": [format!("marker#{section}{protocol}")], "rules": [{"backends": ["none:80"]}]});
        if *kind == "HTTPRoute" {
            route["parents"] =
                json!([format!("marker#{section}http"), format!("ListenerSet/marker#{section}http")]);
        } else if *kind == "TLSRoute" {
            route["hostnames"] = json!(["a.example.com"]);
        }
        route[*kind] = "marker/marker".into();
        all.push(route);
    }
    for short in &all {
        cluster.apply_short(short).await?;
    }
    wait::until("istiod has attached the routes of the marker", LIMIT, || async {
        for (kind, count) in [("Gateway", 3), ("ListenerSet", 1)] {
            let marker =
                cluster.list(kind).await?.into_iter().find(is_marker).context("the marker does not exist")?;
            let found = marker.data["status"]["listeners"].as_array().cloned().unwrap_or_default();
            let attached = found.iter().filter(|listener| {
                listener["attachedRoutes"].as_u64() > Some(0)
                    && listener["name"]
                        .as_str()
                        .is_some_and(|name| name.trim_end_matches(char::is_alphabetic) == section)
            });
            ensure!(
                attached.count() == count,
                "the {kind} of the marker has the status {}",
                marker.data["status"]
            );
        }
        Ok(())
    })
    .await
}

fn is_marker(object: &DynamicObject) -> bool {
    object.metadata.namespace.as_deref() == Some("marker")
}

fn name(object: &DynamicObject) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", part(&object.metadata.namespace), part(&object.metadata.name))
}

/// The status and the reason of a condition.
fn condition(conditions: &Value, name: &str) -> Option<Value> {
    let found = conditions.as_array()?.iter().find(|condition| condition["type"] == name)?;
    Some(format!("{} {}", found["status"].as_str()?, found["reason"].as_str()?).into())
}

/// All that istiod reports about listeners and routes.
async fn statuses(cluster: &Cluster) -> Result<ReportedValues> {
    let mut answers = ReportedValues::new();
    for kind in ["Gateway", "ListenerSet"] {
        for object in cluster.list(kind).await?.iter().filter(|object| !is_marker(object)) {
            for listener in object.data["status"]["listeners"].as_array().into_iter().flatten() {
                let listener_name = listener["name"].as_str().unwrap_or_default();
                let key = |field: &str| format!("{kind} {}#{listener_name} {field}", name(object));
                answers.insert(key("attachedRoutes"), listener["attachedRoutes"].clone());
                for field in ["Accepted", "Conflicted", "ResolvedRefs"] {
                    answers
                        .extend(condition(&listener["conditions"], field).map(|found| (key(field), found)));
                }
            }
        }
    }
    for kind in ROUTES {
        for object in cluster.list(kind).await?.iter().filter(|object| !is_marker(object)) {
            let parents = object.data["spec"]["parentRefs"].as_array().cloned().unwrap_or_default();
            let entries = object.data["status"]["parents"].as_array().into_iter().flatten();
            for entry in entries.filter(|entry| entry["controllerName"] == CONTROLLER) {
                let place = parents.iter().position(|parent| same_parent(parent, &entry["parentRef"]));
                let place = place.with_context(|| format!("{entry} matches no parentRef"))?;
                for field in ["Accepted", "ResolvedRefs"] {
                    let found = condition(&entry["conditions"], field);
                    answers.extend(
                        found.map(|found| (format!("{kind} {} {place} {field}", name(object)), found)),
                    );
                }
            }
        }
    }
    Ok(answers)
}

fn same_parent(left: &Value, right: &Value) -> bool {
    ["kind", "namespace", "name", "sectionName", "port"].iter().all(|field| left[field] == right[field])
}

/// The statuses of the world's listeners and routes according to `topology`.
fn ours(objects_of_world: &[Value]) -> ReportedValues {
    let objects = objects(objects_of_world);
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let mut answers = ReportedValues::new();
    let conditions = ListenerConditions::new(&graph);
    let is_refused = |set: Locator<'_>| graph.unattached().iter().any(|item| item.from == set.with(None));
    for node in graph.nodes().filter(|node| graph.listener(*node).is_some()) {
        let locator = graph.locator(node);
        // istiod has no status for listeners of a ListenerSet that the Gateway does not allow.
        if is_refused(locator) {
            continue;
        }
        let section = locator.section.map(|section| section.to_string()).unwrap_or_default();
        let key = |field: &str| format!("{} {}#{section} {field}", locator.kind.kind, locator.object());
        let routes = graph.links(node).count();
        answers.insert(key("attachedRoutes"), routes.into());
        let found = conditions.of(node);
        for (field, fine) in [
            ("Accepted", "True Accepted"),
            ("Conflicted", "False NoConflicts"),
            ("ResolvedRefs", "True ResolvedRefs"),
        ] {
            let found = found.iter().find(|condition| condition.name == field);
            let text = found.map(|found| format!("{} {}", found.status, found.reason));
            answers.insert(key(field), text.unwrap_or_else(|| fine.to_owned()).into());
        }
    }
    RouteConditions::new(&graph, |_: Locator<'_>| true).each(|kind, locator, _, entries| {
        for entry in entries {
            for text in entry.conditions.texts.iter().filter(|text| !text.name.contains('/')) {
                let key =
                    format!("{} {} {} {}", kind.kind().kind, locator.object(), entry.reference, text.name);
                let is_port =
                    text.message.contains("has no port") && !text.message.contains("does not exist");
                let why = if is_port { NO_PORT } else { "" };
                answers.insert(key, format!("{} {}{why}", text.status, text.reason).into());
            }
        }
    });
    answers
}

/// The differences between istiod's statuses and the statuses in the output of `topology`.
pub(crate) fn compare(world: &World) -> Vec<Difference> {
    let ours = ours(&world.objects);
    let context =
        Context { ours: &ours, theirs: &world.answers, listeners: listeners(&world.objects), world };
    let keys: BTreeSet<&String> = ours.keys().chain(world.answers.keys()).collect();
    let mut differences = Vec::new();
    for key in keys {
        let (ours, theirs) = (text(&ours, key), text(&world.answers, key));
        if ours.trim_end_matches(NO_PORT) != theirs {
            let class = format!("{}: {ours}, istiod: {theirs}", context.class(key));
            differences.push(Difference { class, detail: format!("{key} in {}", json!(world.objects)) });
        }
    }
    differences
}

fn text(answers: &ReportedValues, key: &str) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    answers.get(key).map_or("none".to_owned(), text)
}

/// A listener of a world.
struct Listener<'w> {
    /// `Gateway namespace/name#listener`.
    key: String,
    /// The Gateway of the listener, directly or through a ListenerSet.
    gateway: &'w str,
    port: &'w Value,
    protocol: &'w str,
}

/// The results of this product and of the controller, from which the class of a difference is determined.
struct Context<'w> {
    ours: &'w ReportedValues,
    theirs: &'w ReportedValues,
    listeners: Vec<Listener<'w>>,
    world: &'w World,
}

impl Context<'_> {
    /// Returns the kind and the field of `key`. Adds the parent's kind, or the protocols on the port, if they
    /// explain differences.
    fn class(&self, key: &str) -> String {
        let words: Vec<&str> = key.split(' ').collect();
        let field = words[words.len() - 1];
        let object = format!("{} {}", words[0], words[1]);
        if let Some(listener) = self.listeners.iter().find(|listener| listener.key == object) {
            return self.class_of_listener(listener, field);
        }
        let kind = if words[0] == "UDPRoute" { "UDPRoute" } else { "route" };
        let parent = self.parent(words[0], words[1], words[2]);
        match field {
            "Accepted" if parent.starts_with("ListenerSet/") => format!("{kind} of a ListenerSet Accepted"),
            "Accepted" if self.conflicts_differ(parent) => {
                format!("{kind} Accepted where Conflicted differs")
            }
            "ResolvedRefs" if parent.starts_with("ListenerSet/") => {
                format!("{kind} of a ListenerSet ResolvedRefs")
            }
            _ => format!("{kind} {field}"),
        }
    }

    fn class_of_listener(&self, listener: &Listener<'_>, field: &str) -> String {
        let is_conflicted = text(self.theirs, &format!("{} Conflicted", listener.key)).starts_with("True");
        match field {
            "Conflicted" => {
                let on_port = self
                    .listeners
                    .iter()
                    .filter(|other| other.gateway == listener.gateway && other.port == listener.port);
                let protocols: BTreeSet<&str> = on_port.map(|listener| listener.protocol).collect();
                let protocols = protocols.into_iter().collect::<Vec<_>>().join(", ");
                format!("{} listener Conflicted on a port with {protocols}", listener.protocol)
            }
            "attachedRoutes" if self.conflicts_differ(listener.gateway) => {
                "attachedRoutes where Conflicted differs".to_owned()
            }
            _ if is_conflicted => format!("conflicted listener {field}"),
            _ => format!("{} listener {field}", listener.protocol),
        }
    }

    /// Whether istiod and `topology` report the condition `Conflicted` differently for a listener of `gateway`.
    fn conflicts_differ(&self, gateway: &str) -> bool {
        let name = gateway.split(['#', ':']).next().unwrap_or_default();
        self.listeners.iter().filter(|listener| listener.gateway == name).any(|listener| {
            let key = format!("{} Conflicted", listener.key);
            text(self.ours, &key) != text(self.theirs, &key)
        })
    }

    /// The parent with the index `place` of the route `name`.
    fn parent(&self, kind: &str, name: &str, place: &str) -> &str {
        let route = self.world.objects.iter().find(|short| short[kind] == name);
        let place = place.parse().unwrap_or(usize::MAX);
        route.and_then(|route| route["parents"].get(place)).and_then(Value::as_str).unwrap_or_default()
    }
}

/// The listeners of Gateways and ListenerSets.
fn listeners(objects: &[Value]) -> Vec<Listener<'_>> {
    let mut listeners = Vec::new();
    for short in objects {
        for kind in ["Gateway", "ListenerSet"] {
            let Some(name) = short.get(kind).and_then(Value::as_str) else { continue };
            let parent = short["parent"].as_str().and_then(|parent| parent.strip_prefix("Gateway/"));
            for listener in short["listeners"].as_array().into_iter().flatten() {
                listeners.push(Listener {
                    key: format!("{kind} {name}#{}", listener["name"].as_str().unwrap_or_default()),
                    gateway: parent.unwrap_or(name),
                    port: &listener["port"],
                    protocol: listener["protocol"].as_str().unwrap_or("HTTP"),
                });
            }
        }
    }
    listeners
}
