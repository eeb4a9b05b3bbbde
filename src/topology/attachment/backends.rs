//! Rules of routes to Services and their ports, and to backends of other kinds.

use crate::topology::facts::Grants;
use crate::topology::graph::{Builder, NodeId};
use crate::topology::reason::Reason;
use crate::topology::rows::BackendReference;

impl<'f> Builder<'f> {
    pub(in crate::topology) fn attach_backends(&mut self) {
        let nodes = self.graph.nodes();
        for node in nodes {
            if let Some(rule) = self.graph.rule(node) {
                for backend in rule.backends.iter() {
                    self.attach_backend(node, backend);
                }
            }
        }
    }

    fn attach_backend(&mut self, rule: NodeId, backend: &'f BackendReference) {
        let from = self.graph.locator(rule);
        let to = backend.locator(from.namespace);
        if !self.grants.permit(from, to) {
            let (reason, message) = Grants::refusal(from, to);
            return self.turn_away(from, to, reason, message);
        }
        let message = match (self.find(to), to.section) {
            (None, _) => format!("{} {} does not exist", to.kind.kind, to.object()),
            (Some(service), None) => return self.link(rule, service),
            (Some(service), Some(port)) => match backend.port.and_then(|port| self.port(service, port)) {
                Some(node) => return self.link(rule, node),
                None => format!("Service {} has no port {port}", to.object()),
            },
        };
        self.turn_away(from, to, Reason::BackendNotFound, message);
    }
}
