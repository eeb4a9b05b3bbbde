//! Gateways to their classes, ListenerSets to their Gateways.

use crate::topology::graph::{Builder, NodeId, ObjectRow};
use crate::topology::reason::Reason;
use crate::topology::rows::Parent;

impl Builder<'_> {
    pub(in crate::topology) fn attach_gateways(&mut self) {
        let objects: Vec<NodeId> = self.graph.object_nodes().collect();
        for node in objects {
            match self.graph.object(node).row {
                ObjectRow::Gateway(gateway) => {
                    let class = gateway.class_locator();
                    if let Some(class) = self.find(class) {
                        self.link(class, node);
                    } else {
                        let message = format!("GatewayClass {} does not exist", class.name);
                        self.turn_away(self.graph.locator(node), class, Reason::ParentNotFound, message);
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
        let turned_away = if set.parent.parent == Parent::Gateway {
            match self.find(to) {
                None => Some((Reason::ParentNotFound, format!("Gateway {} does not exist", to.object()))),
                Some(gateway) => match self.graph.object(gateway).row {
                    ObjectRow::Gateway(row)
                        if !row
                            .sets
                            .allows(to.namespace, from.namespace, || self.labels.of(from.namespace)) =>
                    {
                        let message = format!(
                            "Gateway {} allows no ListenerSets of namespace {}",
                            to.object(),
                            from.namespace
                        );
                        Some((Reason::NotAllowed, message))
                    }
                    _ => {
                        self.link(gateway, node);
                        None
                    }
                },
            }
        } else {
            Some((Reason::OtherParent, format!("its parent is a {}, no Gateway", to.kind.kind)))
        };
        if let Some((reason, message)) = turned_away {
            self.turn_away(from, to, reason, message);
        }
    }
}
