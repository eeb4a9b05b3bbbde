//! Listeners to their Gateways and ListenerSets: those that share a port and do not go together carry nothing.

use std::collections::{HashMap, HashSet};

use crate::topology::graph::{Builder, NodeId, ObjectRow};
use crate::topology::reason::Reason;
use crate::topology::rows::{Listener, Protocol};

impl<'f> Builder<'f> {
    /// Links listeners, and returns those that are in force.
    pub(in crate::topology) fn attach_listeners(&mut self) -> HashSet<NodeId> {
        let mut in_force = HashSet::new();
        let mut sets = self.sets_by_gateway();
        let gateways: Vec<NodeId> = self.graph.nodes().filter(|node| !self.graph.is_section(*node)).collect();
        for gateway in gateways {
            if let ObjectRow::Gateway(_) | ObjectRow::Leaf(_) = self.graph.object(gateway).row {
                let mut ports = self.own_listeners(gateway, &mut in_force);
                for set in sets.remove(&gateway).unwrap_or_default() {
                    self.listeners_of_set(set, &mut ports, &mut in_force);
                }
            }
        }
        in_force
    }

    /// The ListenerSets that are attached to each Gateway, the older first, then by name.
    fn sets_by_gateway(&self) -> HashMap<NodeId, Vec<NodeId>> {
        let mut sets: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
        for (gateway, set) in self.linked() {
            if let ObjectRow::Set(_) = self.graph.object(set).row {
                sets.entry(gateway).or_default().push(set);
            }
        }
        for sets in sets.values_mut() {
            sets.sort_by_key(|set| match self.graph.object(*set).row {
                ObjectRow::Set(row) => Some((row.created, self.graph.locator(*set).object())),
                _ => None,
            });
        }
        sets
    }

    /// Links the listeners of the Gateway's own that conflict with none of its others.
    fn own_listeners(&mut self, gateway: NodeId, in_force: &mut HashSet<NodeId>) -> Ports<'f> {
        let mut ports = Ports::default();
        let listeners = self.listeners(gateway);
        for (index, (node, listener)) in listeners.iter().enumerate() {
            let others = listeners.iter().enumerate().filter(|(other, _)| *other != index);
            let others: Vec<&Listener> = others.map(|(_, (_, other))| *other).collect();
            match conflict(listener, others) {
                Some((reason, other)) => self.conflicted(*node, gateway, listener, reason, other),
                None => {
                    self.link(gateway, *node);
                    in_force.insert(*node);
                    ports.0.entry(listener.port).or_default().push(listener);
                }
            }
        }
        ports
    }

    /// Links the listeners of a ListenerSet that conflict with none before them.
    fn listeners_of_set(&mut self, set: NodeId, ports: &mut Ports<'f>, in_force: &mut HashSet<NodeId>) {
        for (node, listener) in self.listeners(set) {
            let earlier = ports.0.entry(listener.port).or_default();
            match conflict(listener, earlier.iter().copied()) {
                Some((reason, other)) => self.conflicted(node, set, listener, reason, other),
                None => {
                    earlier.push(listener);
                    self.link(set, node);
                    in_force.insert(node);
                }
            }
        }
    }

    /// The listeners of an object, in its own order.
    fn listeners(&self, node: NodeId) -> Vec<(NodeId, &'f Listener)> {
        let sections = self.graph.sections(node);
        let mut listeners: Vec<(NodeId, &Listener)> =
            sections.filter_map(|section| Some((section, self.graph.listener(section)?))).collect();
        listeners.sort_by_key(|(section, _)| self.graph.place(*section));
        listeners
    }

    fn conflicted(
        &mut self,
        node: NodeId,
        owner: NodeId,
        listener: &Listener,
        reason: Reason,
        other: &Listener,
    ) {
        let message = match reason {
            Reason::ProtocolConflict => format!(
                "listener {:?} has port {} for {}, which does not go with {}",
                other.name, other.port, other.protocol, listener.protocol
            ),
            _ => match &listener.hostname {
                Some(hostname) => {
                    format!("listener {:?} has {hostname} on port {}, too", other.name, other.port)
                }
                None => format!("listener {:?} has all hosts on port {}, too", other.name, other.port),
            },
        };
        self.turn_away(self.graph.locator(node), self.graph.locator(owner), reason, message);
    }
}

/// The listeners in force of a Gateway, by port.
#[derive(Default)]
struct Ports<'f>(HashMap<u16, Vec<&'f Listener>>);

/// Why `listener` cannot be beside one of `others`, and which.
fn conflict<'o>(
    listener: &Listener,
    others: impl IntoIterator<Item = &'o Listener> + Clone,
) -> Option<(Reason, &'o Listener)> {
    let is_of_http_or_tls =
        |protocol: &Protocol| matches!(protocol, Protocol::Http | Protocol::Https | Protocol::Tls);
    let protocols = |other: &&Listener| {
        let (left, right) = (&listener.protocol, &other.protocol);
        other.port == listener.port
            && ((*left == Protocol::Tcp && is_of_http_or_tls(right))
                || (*right == Protocol::Tcp && is_of_http_or_tls(left)))
    };
    let hosts = |other: &&Listener| {
        other.port == listener.port
            && other.protocol == listener.protocol
            && other.hostname == listener.hostname
    };
    let by_protocol = others.clone().into_iter().find(protocols);
    let by_host = || others.into_iter().find(hosts);
    by_protocol
        .map(|other| (Reason::ProtocolConflict, other))
        .or_else(|| by_host().map(|other| (Reason::HostnameConflict, other)))
}
