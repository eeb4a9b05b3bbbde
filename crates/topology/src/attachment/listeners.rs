//! Attaches listeners to their Gateways and ListenerSets. A listener is not attached if its protocol is unsupported, or
//! if it conflicts with another listener on its port.

use std::collections::{HashMap, HashSet};

use crate::graph::{Builder, NodeId, ObjectRow};
use crate::reason::Reason;
use crate::rows::{Listener, Protocol};

impl<'f> Builder<'f> {
    /// Links listeners, and returns the nodes of the listeners that are in force.
    pub(crate) fn attach_listeners(&mut self) -> HashSet<NodeId> {
        let mut in_force = HashSet::new();
        let mut sets = self.sets_by_gateway();
        let gateways: Vec<NodeId> = self.graph.object_nodes().collect();
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

    /// The ListenerSets attached to each Gateway, in the order of precedence: by age, then by name.
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

    /// Links the Gateway's own listeners that do not conflict with each other.
    fn own_listeners(&mut self, gateway: NodeId, in_force: &mut HashSet<NodeId>) -> UsedPorts<'f> {
        let listeners = self.listeners(gateway);
        let mut ports = UsedPorts::default();
        for (node, listener) in &listeners {
            let mut others = UsedPorts::default();
            let beside = listeners.iter().filter(|(other, row)| other != node && row.port == listener.port);
            beside.for_each(|(other, row)| others.add(*other, row));
            if let Some((reason, message)) = self.refusal(&others, listener) {
                self.reject(self.graph.locator(*node), self.graph.locator(gateway), reason, message);
            } else {
                self.link(gateway, *node);
                in_force.insert(*node);
                ports.add(*node, listener);
            }
        }
        ports
    }

    /// Links the listeners of a ListenerSet that do not conflict with listeners of higher precedence.
    fn listeners_of_set(&mut self, set: NodeId, ports: &mut UsedPorts<'f>, in_force: &mut HashSet<NodeId>) {
        for (node, listener) in self.listeners(set) {
            if let Some((reason, message)) = self.refusal(ports, listener) {
                self.reject(self.graph.locator(node), self.graph.locator(set), reason, message);
            } else {
                ports.add(node, listener);
                self.link(set, node);
                in_force.insert(node);
            }
        }
    }

    /// The listeners of an object, in the order of its spec.
    fn listeners(&self, node: NodeId) -> Vec<(NodeId, &'f Listener)> {
        let sections = self.graph.sections(node);
        let mut listeners: Vec<(NodeId, &Listener)> =
            sections.filter_map(|section| Some((section, self.graph.listener(section)?))).collect();
        listeners.sort_by_key(|(section, _)| self.graph.place(*section));
        listeners
    }

    /// The reason why `listener` cannot be in force together with the listeners in `ports`.
    fn refusal(&self, ports: &UsedPorts<'f>, listener: &'f Listener) -> Option<(Reason, String)> {
        let Listener { port, protocol, hostname, .. } = listener;
        if let Protocol::Unsupported(name) = protocol {
            let hint = if Protocol::from(&*name.to_ascii_uppercase()).is_core() {
                ", which are case-sensitive"
            } else {
                ""
            };
            let message =
                format!("unsupported protocol {name:?}: expected HTTP, HTTPS, TLS, TCP or UDP{hint}");
            return Some((Reason::UnsupportedProtocol, message));
        }
        let (reason, (node, other)) = ports.conflict(listener)?;
        let owner = self.graph.locator(node).with(None);
        let other_listener = format!("listener {:?} of {} {}", other.name, owner.kind.kind, owner.object());
        let message = match reason {
            Reason::ProtocolConflict => {
                format!(
                    "{other_listener} uses port {port} for {}, which conflicts with {protocol}",
                    other.protocol
                )
            }
            _ => {
                let hosts = hostname.as_deref().unwrap_or("all hosts");
                format!("{other_listener} also has {hosts} on port {port}")
            }
        };
        Some((reason, message))
    }
}

/// A listener and its node.
type ListenerNode<'f> = (NodeId, &'f Listener);

/// The listeners that already use a port, by the fields that decide whether two listeners conflict.
#[derive(Default)]
struct UsedPorts<'f> {
    /// The first listener of each port, protocol and host.
    hosts: HashMap<(u16, &'f Protocol, Option<&'f str>), ListenerNode<'f>>,
    /// The first TCP listener of each port.
    tcp: HashMap<u16, ListenerNode<'f>>,
    /// The first HTTP, HTTPS or TLS listener of each port.
    http: HashMap<u16, ListenerNode<'f>>,
}

impl<'f> UsedPorts<'f> {
    fn add(&mut self, node: NodeId, listener: &'f Listener) {
        let Listener { port, protocol, hostname, .. } = listener;
        // The implementation assigns a different port to each listener with port 0.
        if *port == 0 {
            return;
        }
        let of_protocol = match protocol {
            Protocol::Tcp => Some(&mut self.tcp),
            Protocol::Http | Protocol::Https | Protocol::Tls => Some(&mut self.http),
            Protocol::Udp | Protocol::Other(_) | Protocol::Unsupported(_) => None,
        };
        if let Some(holders) = of_protocol {
            holders.entry(*port).or_insert((node, listener));
        }
        self.hosts.entry((*port, protocol, hostname.as_deref())).or_insert((node, listener));
    }

    /// The reason why `listener` conflicts with a listener in this collection, and that listener.
    fn conflict(&self, listener: &'f Listener) -> Option<(Reason, ListenerNode<'f>)> {
        let Listener { port, protocol, hostname, .. } = listener;
        let by_protocol = match protocol {
            Protocol::Tcp => self.http.get(port),
            Protocol::Http | Protocol::Https | Protocol::Tls => self.tcp.get(port),
            Protocol::Udp | Protocol::Other(_) | Protocol::Unsupported(_) => None,
        };
        let by_host = || self.hosts.get(&(*port, protocol, hostname.as_deref()));
        by_protocol
            .map(|other| (Reason::ProtocolConflict, *other))
            .or_else(|| by_host().map(|other| (Reason::HostnameConflict, *other)))
    }
}
