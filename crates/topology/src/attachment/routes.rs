//! Attaches routes to listeners. If several reasons prevent an attachment, the reported reason follows the precedence
//! in Gateway API.

use std::collections::{BTreeMap, HashSet};

use super::gateways::unknown_labels;
use super::same_hosts::HostSet;
use crate::graph::{Builder, NodeId, ObjectRow};
use crate::hostname;
use crate::locator::{KindRef, Locator};
use crate::reason::Reason;
use crate::rows::{Listener, Parent, ParentReference, Protocol, Route, RouteKind};
use policy_sync_api::text::named;

/// How many of Gateway API's checks a route passes at a listener, in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AttachStage {
    /// The parent reference does not select the listener.
    NotSelected,
    /// The listener does not allow the route.
    NotAllowed,
    /// The listener and the route have no host in common.
    NoCommonHost,
    /// The route attaches if the labels of its namespace, which are unknown, match the selector of the listener. Also,
    /// the route must not conflict with another route.
    UnknownLabels,
    /// The route attaches, unless it conflicts with another route.
    Attached,
}

impl<'f> Builder<'f> {
    /// Links routes to the listeners that are `in_force`, and the rules of routes to their routes.
    pub(crate) fn attach_routes(&mut self, in_force: &HashSet<NodeId>) {
        let routes: Vec<(NodeId, RouteKind, &'f Route)> =
            self.graph.object_nodes().filter_map(|node| self.route(node)).collect();
        let mut taken: Vec<RouteAttachment<'f>> = Vec::new();
        for (node, kind, route) in routes {
            self.link_sections(node);
            for parent in route.parents.iter() {
                let messages = ParentMessages::new(self.graph.locator(node), kind, route, parent);
                let listeners = self.try_parent(in_force, node, &messages);
                taken.push(RouteAttachment { route: node, messages, listeners });
            }
        }
        let mut by_listener: BTreeMap<NodeId, BTreeMap<NodeId, bool>> = BTreeMap::new();
        for RouteAttachment { route, listeners, .. } in &taken {
            for (listener, is_certain) in listeners {
                *by_listener.entry(*listener).or_default().entry(*route).or_default() |= is_certain;
            }
        }
        let conflicting: HashSet<(NodeId, NodeId)> = by_listener
            .iter()
            .flat_map(|(listener, routes)| self.conflicting_routes(*listener, routes))
            .collect();
        for RouteAttachment { route, messages, mut listeners } in taken {
            let accepted_by = self.accepted_by(messages.route, messages.from.namespace, messages.parent);
            let has_precedence = |(listener, _): &(NodeId, bool)| !conflicting.contains(&(*listener, route));
            if !listeners.is_empty() && !listeners.iter().any(has_precedence) {
                self.reject_parent(&messages, Reason::Conflicted, messages.conflicted());
                // If an implementation accepts a conflicting route, the implementation serves both routes.
                listeners.retain(|_| accepted_by.is_some());
            } else {
                listeners.retain(has_precedence);
                if let ([(_, is_certain)], Some(_)) = (&mut *listeners, accepted_by) {
                    *is_certain = true;
                }
                if !listeners.is_empty() {
                    self.report_rejection(messages.route, messages.from, messages.parent);
                }
            }
            self.report_unknown(&messages, &listeners);
            for (listener, is_certain) in listeners {
                if !is_certain {
                    self.graph.uncertain.insert((listener, route));
                }
                self.link(listener, route);
            }
        }
    }

    /// Records that unknown labels decide whether some of these `listeners` allow the route.
    fn report_unknown(&mut self, messages: &ParentMessages<'f>, listeners: &[(NodeId, bool)]) {
        let unknown = listeners.iter().filter(|(_, is_certain)| !is_certain);
        let names: Vec<&str> =
            unknown.filter_map(|(node, _)| Some(&*self.graph.listener(*node)?.name)).collect();
        if !names.is_empty() {
            let listeners = if names.len() == 1 { "listener" } else { "listeners" };
            let what = format!("allowedRoutes of {listeners} {} of {}", named(&names), messages.parent());
            self.unresolved(unknown_labels(messages.from, messages.to, &what));
        }
    }

    fn route(&self, node: NodeId) -> Option<(NodeId, RouteKind, &'f Route)> {
        match self.graph.object(node).row {
            ObjectRow::Route(kind, route) => Some((node, kind, route)),
            _ => None,
        }
    }

    /// Returns the listeners that a parent reference attaches the route to. The flag of a listener is true if the
    /// attachment is certain. Conflicts with other routes are not checked. If there is no such listener, records the
    /// reason. If the content of the parent is unknown, links the route to the parent, or to the section that the
    /// reference names, and returns no listener.
    fn try_parent(
        &mut self,
        in_force: &HashSet<NodeId>,
        node: NodeId,
        messages: &ParentMessages<'f>,
    ) -> Vec<(NodeId, bool)> {
        let ParentMessages { to, parent, .. } = *messages;
        if let Parent::Other(_) = parent.parent {
            self.reject_parent(messages, Reason::OtherParent, messages.other_parent());
            return Vec::new();
        }
        let Some(found) = self.find(to) else {
            self.reject_parent(messages, Reason::ParentNotFound, messages.not_found());
            return Vec::new();
        };
        if let ObjectRow::Leaf(_) = self.graph.object(found).row {
            let section = parent.section.as_ref().and_then(|name| self.section(found, name));
            if let Some(section) = section {
                self.link(found, section);
            }
            self.link(section.unwrap_or(found), node);
            return Vec::new();
        }
        let mut furthest = AttachStage::NotSelected;
        let mut attached = Vec::new();
        for section in self.graph.sections(found) {
            let stage = self.stage(in_force, section, messages);
            furthest = furthest.max(stage);
            if stage >= AttachStage::UnknownLabels {
                attached.push((section, stage == AttachStage::Attached));
            }
        }
        match furthest {
            AttachStage::Attached | AttachStage::UnknownLabels => {}
            AttachStage::NoCommonHost => {
                self.reject_parent(messages, Reason::NoMatchingListenerHostname, messages.no_host())
            }
            AttachStage::NotAllowed => {
                self.reject_parent(messages, Reason::NotAllowedByListeners, messages.not_allowed())
            }
            AttachStage::NotSelected => {
                let any = self.graph.sections(found).next().is_some();
                self.reject_parent(messages, Reason::NoMatchingParent, messages.no_listener(any));
            }
        }
        attached
    }

    fn reject_parent(&mut self, messages: &ParentMessages<'f>, reason: Reason, message: String) {
        let ParentMessages { from, to, parent, route, .. } = *messages;
        // The parent may have been deleted after the status was written.
        let may_differ = !matches!(reason, Reason::OtherParent | Reason::ParentNotFound);
        match self.accepted_by(route, from.namespace, parent).filter(|_| may_differ) {
            Some(controller) => self.report_acceptance(controller, (from, to), reason, &message),
            None => self.reject_on_port((to, parent.port), from, reason, message),
        }
    }

    /// How far the route gets in the checks of the listener `section`: the first check that fails, or the result if none
    /// fails.
    fn stage(
        &self,
        in_force: &HashSet<NodeId>,
        section: NodeId,
        messages: &ParentMessages<'_>,
    ) -> AttachStage {
        let ParentMessages { from, to, route, kind, parent } = messages;
        let Some(listener) = self.graph.listener(section).filter(|_| in_force.contains(&section)) else {
            return AttachStage::NotSelected;
        };
        let labels = || self.labels.of(from.namespace);
        let is_allowed = || listener.namespaces.allows(to.namespace, from.namespace, labels);
        if !parent.selects(listener) {
            AttachStage::NotSelected
        } else if !carries(listener, *kind) {
            AttachStage::NotAllowed
        } else {
            match is_allowed() {
                Some(false) => AttachStage::NotAllowed,
                _ if !have_common_host(listener, route) => AttachStage::NoCommonHost,
                None => AttachStage::UnknownLabels,
                Some(true) => AttachStage::Attached,
            }
        }
    }

    /// The routes that conflict with other routes on a listener. If an HTTPRoute and a GRPCRoute have hosts in common,
    /// the younger route is rejected. Of two routes of equal age, the later by name is rejected. A rejected route
    /// causes no further conflicts, and neither does a route whose attachment is uncertain.
    fn conflicting_routes(
        &self,
        listener: NodeId,
        certain: &BTreeMap<NodeId, bool>,
    ) -> Vec<(NodeId, NodeId)> {
        let Some(row) = self.graph.listener(listener) else { return Vec::new() };
        let mut routes: Vec<(NodeId, RouteKind, &Route)> = certain
            .keys()
            .filter_map(|node| self.route(*node))
            .filter(|(_, kind, _)| matches!(kind, RouteKind::Grpc | RouteKind::Http))
            .collect();
        if routes.iter().all(|(_, kind, _)| *kind == routes[0].1) {
            return Vec::new();
        }
        routes.sort_by_cached_key(|(node, kind, route)| {
            (route.created, self.graph.locator(*node).object(), *kind)
        });
        let mut conflicting = Vec::new();
        let (mut grpc, mut http) = (HostSet::default(), HostSet::default());
        for (node, kind, route) in routes {
            let hosts = hosts(row, route);
            let (own, others) = if kind == RouteKind::Grpc { (&mut grpc, &http) } else { (&mut http, &grpc) };
            if others.overlap(&hosts) {
                conflicting.push((listener, node));
            } else if certain.get(&node) == Some(&true) {
                own.add(&hosts);
            }
        }
        conflicting
    }
}

/// The hosts that both `listener` and `route` serve.
pub(crate) fn hosts<'h>(listener: &'h Listener, route: &'h Route) -> Vec<&'h str> {
    hostname::common_hosts(listener.hostname.as_deref(), route.hostnames.iter().map(|name| &**name))
}

/// Whether `listener` and `route` have a host in common.
fn have_common_host(listener: &Listener, route: &Route) -> bool {
    let Some(hostname) = listener.hostname.as_deref() else { return true };
    let mut names = route.hostnames.iter();
    route.hostnames.is_empty() || names.any(|name| hostname::intersect(hostname, name).is_some())
}

/// Whether the protocol of `listener` carries routes of `kind`; `None` if only an implementation knows the
/// protocol.
pub(super) fn protocol_carries(listener: &Listener, kind: RouteKind) -> Option<bool> {
    Some(match &listener.protocol {
        Protocol::Http | Protocol::Https => matches!(kind, RouteKind::Http | RouteKind::Grpc),
        Protocol::Tls => kind == RouteKind::Tls || (kind == RouteKind::Tcp && listener.terminates),
        Protocol::Tcp => kind == RouteKind::Tcp,
        Protocol::Udp => kind == RouteKind::Udp,
        Protocol::Other(_) | Protocol::Unsupported(_) => return None,
    })
}

/// Whether `listener` accepts routes of `kind`: by its protocol, and by `allowedRoutes.kinds` if that field is set.
fn carries(listener: &Listener, kind: RouteKind) -> bool {
    let by_protocol = protocol_carries(listener, kind) != Some(false);
    let is_named = |kinds: &[crate::locator::Kind]| kinds.iter().any(|named| named.as_ref() == kind.kind());
    by_protocol && listener.kinds.as_deref().is_none_or(is_named)
}

/// The listeners that one parent reference attaches a route to, unless the route conflicts with another route.
struct RouteAttachment<'w> {
    route: NodeId,
    messages: ParentMessages<'w>,
    /// The listeners. The flag of a listener is true if it is certain that the listener allows the route.
    listeners: Vec<(NodeId, bool)>,
}

/// A parent reference of a route, with the messages for each reason why the route does not attach.
struct ParentMessages<'w> {
    from: Locator<'w>,
    to: Locator<'w>,
    route: &'w Route,
    kind: RouteKind,
    parent: &'w ParentReference,
}

impl<'w> ParentMessages<'w> {
    fn new(from: Locator<'w>, kind: RouteKind, route: &'w Route, parent: &'w ParentReference) -> Self {
        Self { from, to: parent.locator(from.namespace), route, kind, parent }
    }

    fn parent(&self) -> String {
        format!("{} {}", self.to.kind.kind, self.to.object())
    }

    fn other_parent(&self) -> String {
        let KindRef { kind, .. } = self.to.kind;
        format!("parents of the kind {kind} are handled by other controllers")
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

    /// Returns a message about the listener that the reference names, or about all listeners if the reference names no
    /// listener.
    fn listener_message(&self, does_not: &str, does: &str) -> String {
        match &self.parent.section {
            Some(name) => format!("listener {name:?} of {} {does_not}", self.parent()),
            None => format!("no listener of {}{} {does}", self.parent(), self.port()),
        }
    }

    fn not_allowed(&self) -> String {
        let what = format!("{}s of namespace {}", self.kind.kind().kind, self.from.namespace);
        self.listener_message(&format!("does not allow {what}"), &format!("allows {what}"))
    }

    fn no_host(&self) -> String {
        let hosts: Vec<&str> = self.route.hostnames.iter().map(|name| &**name).collect();
        let hosts = format!("host of {}", hosts.join(", "));
        self.listener_message(&format!("has no {hosts}"), &format!("has a {hosts}"))
    }

    fn conflicted(&self) -> String {
        let other = if self.kind == RouteKind::Http { RouteKind::Grpc } else { RouteKind::Http };
        let other = other.kind().kind;
        format!("a {other} on the same listener shares a hostname, and is older or first by name")
    }
}
