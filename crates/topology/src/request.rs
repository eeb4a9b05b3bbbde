//! Finds the route rule that serves a request, in Gateway API's order of precedence
//! ([HTTPRoute](https://gateway-api.sigs.k8s.io/reference/spec/#httprouterule),
//! [GRPCRoute](https://gateway-api.sigs.k8s.io/reference/spec/#grpcrouterule)).
//!
//! On each port of each Gateway, only the listener with the most specific host accepts the request (the extended
//! feature of listener isolation). Of the routes of this listener, the route with the most specific host serves
//! the request. If several rules remain, the more specific match decides, then age, name and position.

mod candidate;
mod parse;
mod verdict;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::Serialize;

use super::graph::{Graph, NodeId, ObjectRow};
use super::hostname;
use super::rows::{Listener, Protocol, RouteKind};
use candidate::Candidate;
pub use parse::BadRequest;
use verdict::Budget;
pub use verdict::NotEvaluated;

/// The parts of a request that select a listener and a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Request {
    /// Headers, by their names in lower case.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Vec<String>>,
    /// The host, in lower case. Without a host, only listeners and routes without a host match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The port of the `Host` header. HTTPRoutes ignore it, because a NodePort or a load balancer may map ports. It
    /// selects listeners only if a Gateway that serves the host has a listener with this port.
    #[serde(rename = "hostPort", skip_serializing_if = "Option::is_none")]
    pub host_port: Option<u16>,
    /// The method. By default `GET` for HTTP, `POST` for gRPC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The path, as the client sends it.
    pub path: String,
    /// The port of the listener. It takes precedence over the port of the host. Without a port, listeners of all ports
    /// match, except listeners for TCP and UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Query parameters. Of several parameters with the same name, the first counts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
}

/// The rule that serves a request at one port of one Gateway.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The listener that accepts the request.
    pub listener: NodeId,
    /// The route that serves the request.
    pub route: NodeId,
    /// The rule; for a route without rules the route.
    pub rule: NodeId,
    /// Whether the choice depends on a regular expression, which implementations may evaluate differently.
    pub implementation_specific: bool,
    /// The deciding criterion, and the rule that came second. `None` if no other rule matches.
    pub decided: Option<(Criterion, NodeId)>,
}

/// The rules that match a request.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// At most one choice for each port of each Gateway, in the order of listeners.
    pub chosen: Vec<Choice>,
    /// Rules whose regular expressions were not evaluated. They would take precedence if the expressions match.
    pub unknown: Vec<UnknownChoice>,
}

/// A rule with a regular expression that was not evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnknownChoice {
    /// The listener that accepts the request.
    pub listener: NodeId,
    /// The rule that was not evaluated.
    pub rule: NodeId,
    /// The reason why the regular expression was not evaluated.
    pub why: NotEvaluated,
}

/// A criterion of precedence between two matches. Criteria apply in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Criterion {
    /// The route with the more specific host.
    Hostname,
    /// HTTP: an exact path, then a regular expression, then the longest prefix.
    Path,
    /// HTTP: a match with a method.
    Method,
    /// gRPC: a match with an exact name, then the match with the longer service.
    Service,
    /// gRPC: the match with the longer method.
    ServiceMethod,
    /// The match with the greater number of headers.
    Headers,
    /// The match with the greater number of query parameters.
    Query,
    /// The older route.
    Age,
    /// The route that is first by namespace and name.
    Name,
    /// The rule that comes first in the route.
    Place,
}

impl Criterion {
    /// The criterion as text.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Hostname => "its route's host is more specific",
            Self::Path => "its path is more specific",
            Self::Method => "it matches on the method",
            Self::Service => "its service is more specific",
            Self::ServiceMethod => "its method is more specific",
            Self::Headers => "it has more headers",
            Self::Query => "it has more query parameters",
            Self::Age => "its route is older",
            Self::Name => "its route is the first by name",
            Self::Place => "it is the first in its route",
        }
    }
}

/// The specificity of a host name. An exact name is more specific than any wildcard. A longer wildcard is more
/// specific than a shorter wildcard. `*` is the least specific.
pub(super) fn specificity(hostname: &str) -> (bool, usize) {
    match hostname {
        "*" => (false, 0),
        wildcard if wildcard.starts_with('*') => (false, wildcard.chars().count()),
        exact => (true, exact.chars().count()),
    }
}

/// Whether `hostname` covers the host of a request. `*` covers all hosts. Only `*` covers a request without a host.
pub(super) fn has_host(hostname: &str, host: Option<&str>) -> bool {
    hostname == "*" || host.is_some_and(|host| hostname::covers(hostname, host))
}

impl Request {
    /// Evaluates the request at every listener that accepts it.
    #[must_use]
    pub fn choices(&self, graph: &Graph<'_>) -> Choices {
        let (mut choices, mut budget) = (Choices::default(), Budget::default());
        for node in self.listeners(graph) {
            if let Some(listener) = graph.listener(node) {
                self.choose(graph, (node, listener), &mut budget, &mut choices);
            }
        }
        choices
    }

    /// The listeners that accept the request, at most one for each port of each Gateway.
    #[must_use]
    pub fn listeners(&self, graph: &Graph<'_>) -> BTreeSet<NodeId> {
        // The key is the Gateway, the port, and whether the protocol is UDP. If the implementation assigns the port of
        // a listener, no other listener has this port.
        let mut chosen: BTreeMap<_, (NodeId, &Listener)> = BTreeMap::new();
        for (gateway, node, listener) in self.reached(graph) {
            let assigned = (listener.port == 0).then_some(node);
            let place = (gateway, listener.port, listener.protocol == Protocol::Udp, assigned);
            let rank = |listener: &Listener| specificity(listener.hostname.as_deref().unwrap_or("*"));
            let best = chosen.entry(place).or_insert((node, listener));
            if rank(listener) > rank(best.1) {
                *best = (node, listener);
            }
        }
        chosen.into_values().map(|(node, _)| node).collect()
    }

    /// The listeners that serve the host on the port, each with its Gateway.
    fn reached<'g>(&self, graph: &Graph<'g>) -> Vec<(NodeId, NodeId, &'g Listener)> {
        let listeners = graph.listeners();
        let mut listeners: Vec<(NodeId, NodeId, &Listener)> =
            listeners.filter_map(|(gateway, node)| Some((gateway, node, graph.listener(node)?))).collect();
        let port = self.port.or_else(|| self.port_of_host(&listeners));
        listeners.retain(|(.., listener)| self.reaches(listener, port));
        if port.is_none() && self.host_port.is_some() {
            let has_own_port = |listener: &Listener| listener.protocol.own_port() == Some(listener.port);
            let with_own: HashSet<NodeId> = listeners
                .iter()
                .filter(|(.., listener)| has_own_port(listener))
                .map(|(gateway, ..)| *gateway)
                .collect();
            listeners.retain(|(gateway, _, listener)| !with_own.contains(gateway) || has_own_port(listener));
        }
        listeners
    }

    /// The port of the host, if a Gateway that serves the host has a listener with this port.
    fn port_of_host(&self, listeners: &[(NodeId, NodeId, &Listener)]) -> Option<u16> {
        let port = self.host_port?;
        let serves = |listener: &Listener| self.reaches(listener, None) || self.reaches(listener, Some(port));
        let serving = listeners.iter().filter(|(.., listener)| serves(listener));
        let serving: HashSet<NodeId> = serving.map(|(gateway, ..)| *gateway).collect();
        let mut listeners = listeners.iter();
        listeners
            .any(|(gateway, _, listener)| listener.port == port && serving.contains(gateway))
            .then_some(port)
    }

    /// Whether the request has a part that only routes match, such as a path.
    #[must_use]
    pub fn chooses_routes(&self) -> bool {
        self.path != "/" || self.method.is_some() || !self.headers.is_empty() || !self.query.is_empty()
    }

    /// Whether `listener` serves the host on `port`; `None` means any port.
    fn reaches(&self, listener: &Listener, port: Option<u16>) -> bool {
        let is_port = port.is_none_or(|port| port == listener.port);
        match listener.protocol {
            Protocol::Tcp | Protocol::Udp => port == Some(listener.port),
            _ => is_port && has_host(listener.hostname.as_deref().unwrap_or("*"), self.host.as_deref()),
        }
    }

    fn choose<'g>(
        &self,
        graph: &Graph<'g>,
        (node, listener): (NodeId, &Listener),
        budget: &mut Budget<'g>,
        choices: &mut Choices,
    ) {
        let mut candidates: Vec<Candidate> = Vec::new();
        for route in graph.links(node) {
            if let ObjectRow::Route(kind, row) = graph.object(route).row {
                let expressions = budget.of_route(graph.locator(route).namespace);
                candidates.extend(self.candidates(graph, (listener, kind), (route, row), expressions));
            }
        }
        candidates.sort_by(|left, right| left.order().cmp(&right.order()));
        let is_certain = |candidate: &&Candidate| candidate.not_evaluated.is_none();
        let best = candidates.iter().find(is_certain);
        let mut unknown = BTreeMap::new();
        for before in candidates.iter().take_while(|candidate| !is_certain(candidate)) {
            if let Some(why) =
                before.not_evaluated.filter(|_| best.is_none_or(|best| best.rule != before.rule))
            {
                unknown.entry(before.rule).or_insert(why);
            }
        }
        let unknown = unknown.into_iter().map(|(rule, why)| UnknownChoice { listener: node, rule, why });
        choices.unknown.extend(unknown);
        let Some(best) = best else { return };
        let runner_up = candidates.iter().filter(is_certain).find(|other| other.rule != best.rule);
        choices.chosen.push(Choice {
            listener: node,
            route: best.route,
            rule: best.rule,
            implementation_specific: best.has_expression,
            decided: runner_up.map(|other| (best.criterion_against(other), other.rule)),
        });
    }
}

/// Whether routes of this kind match the content of HTTP requests.
const fn is_of_http(kind: RouteKind) -> bool {
    matches!(kind, RouteKind::Http | RouteKind::Grpc)
}
