//! Attaches Gateways to their GatewayClasses and ListenerSets to their Gateways.

use crate::graph::{Builder, NodeId, ObjectRow};
use crate::locator::Locator;
use crate::reason::{Reason, Unresolved};
use crate::rows::Parent;

impl Builder<'_> {
    pub(crate) fn attach_gateways(&mut self) {
        let objects: Vec<NodeId> = self.graph.object_nodes().collect();
        for node in objects {
            match self.graph.object(node).row {
                ObjectRow::Gateway(gateway) => {
                    let class = gateway.class_locator();
                    if let Some(class) = self.find(class) {
                        self.link(class, node);
                    } else {
                        let message = format!("GatewayClass {} does not exist", class.name);
                        self.reject(self.graph.locator(node), class, Reason::ParentNotFound, message);
                    }
                }
                ObjectRow::Set(_) => self.attach_set(node),
                _ => {}
            }
        }
    }

    fn attach_set(&mut self, node: NodeId) {
        let ObjectRow::Set(set) = self.graph.object(node).row else { return };
        let from = self.graph.locator(node);
        let to = set.parent.locator(from.namespace).with(None);
        let rejection = if set.parent.parent == Parent::Gateway {
            match self.find(to) {
                None => Some((Reason::ParentNotFound, format!("Gateway {} does not exist", to.object()))),
                Some(gateway) if self.allows_set(gateway, from) == Some(false) => {
                    let message = format!(
                        "Gateway {} allows no ListenerSets of namespace {}",
                        to.object(),
                        from.namespace
                    );
                    Some((Reason::NotAllowed, message))
                }
                Some(gateway) => {
                    if self.allows_set(gateway, from).is_none() {
                        let what = format!("allowedListeners of Gateway {}", to.object());
                        self.unresolved(unknown_labels(from, to, &what));
                    }
                    self.link(gateway, node);
                    None
                }
            }
        } else {
            Some((Reason::OtherParent, format!("its parent is a {}, not a Gateway", to.kind.kind)))
        };
        if let Some((reason, message)) = rejection {
            self.reject(from, to, reason, message);
        }
    }

    /// Whether `gateway` allows the ListenerSet `set`; `None` if that depends on unknown labels.
    fn allows_set(&self, gateway: NodeId, set: Locator<'_>) -> Option<bool> {
        let ObjectRow::Gateway(row) = self.graph.object(gateway).row else { return Some(true) };
        let own = self.graph.locator(gateway).namespace;
        row.sets.allows(own, set.namespace, || self.labels.of(set.namespace))
    }
}

/// Returns an [`Unresolved`] with the reason `UnknownLabels` for the reference from `from` to its parent `to`. `what`
/// names the selector that needs the labels of the Namespace of `from`.
pub(super) fn unknown_labels<'f>(from: Locator<'f>, to: Locator<'f>, what: &str) -> Unresolved<'f> {
    let namespace = from.namespace;
    let message = format!(
        "{what}: the selector needs the labels of Namespace {namespace}, which are unknown: provide the \
         Namespace, or the right to list Namespaces"
    );
    Unresolved { from, to: Some(to), reason: Reason::UnknownLabels, message }
}
