//! Rules of routes to Services and their ports, and to backends of other kinds. Of a kind that is not read, nothing is known of the
//! backend.

use crate::topology::facts::Grants;
use crate::topology::graph::{Builder, NodeId};
use crate::topology::locator::is_of_graph;
use crate::topology::reason::{Reason, Unresolved};
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
        if is_of_graph(to.kind).is_none() {
            let message = format!("backends of the kind {} are not read", to.kind);
            self.unresolved(Unresolved { from, to: Some(to), reason: Reason::UnknownKind, message });
        }
        let message = match (self.find(to), to.section) {
            (None, _) => format!("{} {} does not exist", to.kind.kind, to.object()),
            (Some(found), None) => return self.link(rule, found),
            (Some(found), Some(port)) => match backend.port.and_then(|port| self.port(found, port)) {
                Some(node) => return self.link(rule, node),
                None => format!("{} {} has no port {port}", to.kind.kind, to.object()),
            },
        };
        self.turn_away(from, to, Reason::BackendNotFound, message);
    }
}
