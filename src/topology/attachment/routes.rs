//! Routes to listeners, in the order in which Gateway API says why one does not attach.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::same_hosts::Hosts;
use crate::topology::graph::{Builder, NodeId, ObjectRow};
use crate::topology::hostname;
use crate::topology::locator::{KindRef, Locator, Section};
use crate::topology::reason::Reason;
use crate::topology::rows::{Listener, Parent, ParentReference, Protocol, Route, RouteKind};

/// How far a route got at a listener, in the order of Gateway API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The listener is none of those that the reference means.
    Meant,
    /// The listener does not let it attach.
    Allowed,
    /// They have no host in common.
    Hosts,
    /// It attaches, unless another route is there first.
    Attached,
}

impl<'f> Builder<'f> {
    /// Links routes to the listeners that are `in_force`, and their rules to them.
    pub(in crate::topology) fn attach_routes(&mut self, in_force: &HashSet<NodeId>) {
        let routes: Vec<(NodeId, RouteKind, &'f Route)> =
            self.graph.nodes().filter_map(|node| self.route(node)).collect();
        let mut attached: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
        for (node, kind, route) in &routes {
            self.link_sections(*node);
            for parent in &route.parents {
                for (listener, step) in self.steps(in_force, (*node, *kind, route), parent) {
                    if step == Step::Attached {
                        attached.entry(listener).or_default().insert(*node);
                    }
                }
            }
        }
        let turned_away: HashSet<(NodeId, NodeId)> =
            attached.iter().flat_map(|(listener, routes)| self.in_the_way(*listener, routes)).collect();
        for (node, kind, route) in &routes {
            for parent in &route.parents {
                self.attach_route(in_force, &turned_away, (*node, *kind, route), parent);
            }
        }
    }

    fn route(&self, node: NodeId) -> Option<(NodeId, RouteKind, &'f Route)> {
        match self.graph.object(node).row {
            ObjectRow::Route(kind, route) if !self.graph.is_section(node) => Some((node, kind, route)),
            _ => None,
        }
    }

    /// How far the route gets at each listener of `parent`.
    fn steps(
        &self,
        in_force: &HashSet<NodeId>,
        (node, kind, route): (NodeId, RouteKind, &Route),
        parent: &ParentReference,
    ) -> Vec<(NodeId, Step)> {
        let own = self.graph.object(node).locator.namespace;
        let namespace = parent.namespace.as_deref().unwrap_or(own);
        let Some(found) = self.find(parent.parent.kind(), namespace, &parent.name) else { return Vec::new() };
        let step = |section: NodeId| {
            let listener = self.graph.listener(section)?;
            let is_meant = in_force.contains(&section)
                && parent.section.as_ref().is_none_or(|name| *name == listener.name)
                && parent.port.is_none_or(|port| port == listener.port);
            let allows = || {
                carries(listener, kind) && listener.namespaces.allows(namespace, own, || self.labels.of(own))
            };
            let step = if !is_meant {
                Step::Meant
            } else if !allows() {
                Step::Allowed
            } else if !meet(listener, route) {
                Step::Hosts
            } else {
                Step::Attached
            };
            Some((section, step))
        };
        self.graph.sections(found).filter_map(step).collect()
    }

    /// The routes of a listener that others keep from it: of an HTTPRoute and a GRPCRoute with hosts in common the younger one,
    /// then the later by name. Who is turned away turns nobody away.
    fn in_the_way(&self, listener: NodeId, routes: &BTreeSet<NodeId>) -> Vec<(NodeId, NodeId)> {
        let Some(row) = self.graph.listener(listener) else { return Vec::new() };
        let mut routes: Vec<(NodeId, RouteKind, &Route)> = routes
            .iter()
            .filter_map(|node| self.route(*node))
            .filter(|(_, kind, _)| matches!(kind, RouteKind::Grpc | RouteKind::Http))
            .collect();
        if routes.iter().all(|(_, kind, _)| *kind == routes[0].1) {
            return Vec::new();
        }
        routes.sort_by_cached_key(|(node, kind, route)| {
            (route.created, self.graph.locator(*node).object(), *kind)
        });
        let mut turned_away = Vec::new();
        let (mut grpc, mut http) = (Hosts::default(), Hosts::default());
        for (node, kind, route) in routes {
            let hosts = hosts(row, route);
            let (own, others) = if kind == RouteKind::Grpc { (&mut grpc, &http) } else { (&mut http, &grpc) };
            if others.meet(&hosts) {
                turned_away.push((listener, node));
            } else {
                own.add(&hosts);
            }
        }
        turned_away
    }

    fn attach_route(
        &mut self,
        in_force: &HashSet<NodeId>,
        turned_away: &HashSet<(NodeId, NodeId)>,
        (node, kind, route): (NodeId, RouteKind, &'f Route),
        parent: &'f ParentReference,
    ) {
        let from = self.graph.object(node).locator;
        let namespace = parent.namespace.as_deref().unwrap_or(from.namespace);
        let object = Locator { kind: parent.parent.kind(), namespace, name: &parent.name, section: None };
        let to = object.with(parent.section.as_deref().map(Section::Named));
        let words = Words { from, route, kind, parent, object };
        if let Parent::Other(_) = parent.parent {
            return self.turn_away(from, to, Reason::OtherParent, words.other_parent());
        }
        let Some(found) = self.find(object.kind, namespace, &parent.name) else {
            return self.turn_away(from, to, Reason::ParentNotFound, words.not_found());
        };
        if let ObjectRow::Leaf(_) = self.graph.object(found).row {
            let section = parent.section.as_ref().and_then(|name| self.section(found, name));
            if let Some(section) = section {
                self.link(found, section);
            }
            return self.link(section.unwrap_or(found), node);
        }
        let steps = self.steps(in_force, (node, kind, route), parent);
        let attached = steps.iter().filter(|(_, step)| *step == Step::Attached);
        let attached: Vec<NodeId> = attached.map(|(listener, _)| *listener).collect();
        let (away, there): (Vec<NodeId>, Vec<NodeId>) =
            attached.into_iter().partition(|listener| turned_away.contains(&(*listener, node)));
        if !there.is_empty() {
            return there.into_iter().for_each(|listener| self.link(listener, node));
        }
        if !away.is_empty() {
            return self.turn_away(from, to, Reason::Conflicted, words.conflicted());
        }
        let (reason, message) = match steps.iter().map(|(_, step)| *step).max() {
            Some(Step::Hosts) => (Reason::NoMatchingListenerHostname, words.no_host()),
            Some(Step::Allowed) => (Reason::NotAllowedByListeners, words.not_allowed()),
            _ => (Reason::NoMatchingParent, words.no_listener(self.graph.sections(found).next().is_some())),
        };
        self.turn_away(from, to, reason, message);
    }
}

/// The hosts that `listener` and `route` both let through.
pub(in crate::topology) fn hosts<'h>(listener: &'h Listener, route: &'h Route) -> Vec<&'h str> {
    hostname::between(listener.hostname.as_deref(), route.hostnames.iter().map(|name| &**name))
}

/// Whether there are any.
fn meet(listener: &Listener, route: &Route) -> bool {
    let Some(hostname) = listener.hostname.as_deref() else { return true };
    let mut names = route.hostnames.iter();
    route.hostnames.is_empty() || names.any(|name| hostname::meet(hostname, name).is_some())
}

/// Whether `listener` takes routes of `kind`: those of its protocol, and of these the kinds that it names.
fn carries(listener: &Listener, kind: RouteKind) -> bool {
    let by_protocol = match &listener.protocol {
        Protocol::Http | Protocol::Https => matches!(kind, RouteKind::Http | RouteKind::Grpc),
        Protocol::Tls => kind == RouteKind::Tls || (kind == RouteKind::Tcp && listener.terminates),
        Protocol::Tcp => kind == RouteKind::Tcp,
        Protocol::Udp => kind == RouteKind::Udp,
        // Whoever knows the protocol knows its routes.
        Protocol::Other(_) => true,
    };
    let is_named =
        |kinds: &[crate::topology::locator::Kind]| kinds.iter().any(|named| named.as_ref() == kind.kind());
    by_protocol && listener.kinds.as_deref().is_none_or(is_named)
}

/// What is said of a route that does not attach.
struct Words<'w> {
    from: Locator<'w>,
    route: &'w Route,
    kind: RouteKind,
    parent: &'w ParentReference,
    object: Locator<'w>,
}

impl Words<'_> {
    fn parent(&self) -> String {
        format!("{} {}", self.object.kind.kind, self.object.object())
    }

    fn other_parent(&self) -> String {
        let KindRef { kind, .. } = self.object.kind;
        format!("a parent of the kind {kind} is a matter of other controllers")
    }

    fn not_found(&self) -> String {
        format!("{} does not exist", self.parent())
    }

    fn no_listener(&self, any: bool) -> String {
        let named = self.parent.section.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
        let in_force = if any { " that is in force" } else { "" };
        format!("{} has no listener{named}{}{in_force}", self.parent(), self.port())
    }

    fn port(&self) -> String {
        self.parent.port.map(|port| format!(" on port {port}")).unwrap_or_default()
    }

    /// Of the listeners that are meant: that the one does not, or that none of them does.
    fn none(&self, does_not: &str, does: &str) -> String {
        match &self.parent.section {
            Some(name) => format!("listener {name:?} of {} {does_not}", self.parent()),
            None => format!("no listener of {}{} {does}", self.parent(), self.port()),
        }
    }

    fn not_allowed(&self) -> String {
        let what = format!("{}s of namespace {}", self.kind.kind().kind, self.from.namespace);
        self.none(&format!("does not allow {what}"), &format!("allows {what}"))
    }

    fn no_host(&self) -> String {
        let hosts: Vec<&str> = self.route.hostnames.iter().map(|name| &**name).collect();
        let hosts = format!("host of {}", hosts.join(", "));
        self.none(&format!("has no {hosts}"), &format!("has a {hosts}"))
    }

    fn conflicted(&self) -> String {
        let other = if self.kind == RouteKind::Http { RouteKind::Grpc } else { RouteKind::Http };
        let other = other.kind().kind;
        format!("a {other} on the same listener has a host in common, and is older, or first by name")
    }
}
