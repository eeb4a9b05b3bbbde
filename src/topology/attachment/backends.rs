//! Rules of routes to Services and their ports, and to backends of other kinds.

use crate::topology::graph::{Builder, NodeId};
use crate::topology::locator::{Locator, SERVICE, Section};
use crate::topology::reason::Reason;
use crate::topology::rows::BackendReference;

impl<'f> Builder<'f> {
    pub(in crate::topology) fn attach_backends(&mut self) {
        let nodes = self.graph.nodes();
        for node in nodes {
            if let Some(rule) = self.graph.rule(node) {
                for backend in &rule.backends {
                    self.attach_backend(node, backend);
                }
            }
        }
    }

    fn attach_backend(&mut self, rule: NodeId, backend: &'f BackendReference) {
        let from = self.graph.locator(rule);
        let namespace = backend.namespace.as_deref().unwrap_or(from.namespace);
        let kind = backend.backend.kind();
        let port = backend.port.filter(|_| kind == SERVICE);
        let object = Locator { kind, namespace, name: &backend.name, section: None };
        let to = object.with(port.map(Section::Port));
        if !self.grants.permit((from.kind, from.namespace), (kind, namespace, &backend.name)) {
            let message = format!(
                "no ReferenceGrant of namespace {namespace} lets {}s of namespace {} refer to {} {}",
                from.kind.kind, from.namespace, kind.kind, backend.name
            );
            return self.turn_away(from, to, Reason::RefNotPermitted, message);
        }
        let message = match (self.find(kind, namespace, &backend.name), port) {
            (None, _) => format!("{} {} does not exist", kind.kind, object.object()),
            (Some(service), None) => return self.link(rule, service),
            (Some(service), Some(port)) => match self.port(service, port) {
                Some(node) => return self.link(rule, node),
                None => format!("Service {} has no port {port}", object.object()),
            },
        };
        self.turn_away(from, to, Reason::BackendNotFound, message);
    }
}
