//! Resolves the backends of routes: Services and their ports, and backends of other kinds. If the objects of a kind are
//! unknown, it is also unknown whether a backend of this kind exists.
//!
//! The backends of `RequestMirror` filters have to resolve as well, but the graph has no links to them.

use crate::graph::{Builder, NodeId, ObjectRow};
use crate::graph_input::Grants;
use crate::locator::{KindRef, Locator, graph_kind};
use crate::reason::{Reason, Unresolved};
use crate::rows::{BackendKind, BackendReference};

/// Whether an implementation may support backends of `kind`, a kind whose objects the graph does not read. Core kinds
/// other than Service cannot receive requests, and neither can Gateways, ListenerSets and routes.
pub(super) fn may_be_backend(kind: KindRef<'_>) -> bool {
    !kind.group.is_empty() && graph_kind(kind).is_none()
}

/// The purpose of a reference to a backend.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BackendUse {
    /// The rule sends requests to the backend.
    Backend,
    /// A `RequestMirror` filter sends copies of requests to the backend.
    Mirror,
}

impl<'f> Builder<'f> {
    pub(crate) fn attach_backends(&mut self) {
        for node in self.graph.nodes() {
            let Some(rule) = self.graph.rule(node) else { continue };
            for backend in rule.backends.iter() {
                if let Some(found) = self.resolve(node, backend, BackendUse::Backend) {
                    self.link(node, found);
                }
            }
            for mirror in rule.mirrors.iter() {
                self.resolve(node, mirror, BackendUse::Mirror);
            }
        }
    }

    /// Returns the node of `backend`, a reference of `rule`. Records the problem if the reference does not resolve, or
    /// if it is unknown whether the reference resolves.
    fn resolve(
        &mut self,
        rule: NodeId,
        backend: &'f BackendReference,
        purpose: BackendUse,
    ) -> Option<NodeId> {
        let from = self.graph.locator(rule);
        let to = backend.locator(from.namespace);
        let (node, problem) = self.backend(from, to, backend.port, purpose);
        if let Some((reason, message)) = problem {
            let field = match purpose {
                BackendUse::Backend => "",
                BackendUse::Mirror => "RequestMirror filter: ",
            };
            let message = format!("{field}{message}");
            if reason.is_fault() {
                self.reject(from, to, reason, message);
            } else {
                self.unresolved(Unresolved { from, to: Some(to), reason, message });
            }
        }
        node
    }

    /// Returns the node of the backend `to`, or of its `port`. Also returns the problem if the reference of the rule
    /// `from` does not resolve, or if it is unknown whether the reference resolves.
    fn backend(
        &self,
        from: Locator<'f>,
        to: Locator<'f>,
        port: Option<u16>,
        purpose: BackendUse,
    ) -> (Option<NodeId>, Option<(Reason, String)>) {
        if !self.grants.permit(from, to) {
            return (None, Some(Grants::refusal(from, to)));
        }
        let object = format!("{} {}", to.kind.kind, to.object());
        let Some(kind) = BackendKind::named(to.kind) else {
            if to.kind.group.is_empty() {
                let message = format!("{} is not a backend kind: refer to a Service", to.kind);
                return (None, Some((Reason::InvalidKind, message)));
            }
            let node = self.find(to).filter(|_| may_be_backend(to.kind));
            let message = format!("backends of the kind {} are not read", to.kind);
            return (node, Some((Reason::UnknownKind, message)));
        };
        let found = self.find(to);
        let Some((found, service)) = found.and_then(|node| match self.graph.object(node).row {
            ObjectRow::Backend(service) => Some((node, service)),
            _ => None,
        }) else {
            if self.graph_input.backends_of(kind).known {
                return (None, Some((Reason::BackendNotFound, format!("{object} does not exist"))));
            }
            // The node is a leaf: it is unknown whether the backend exists.
            let node =
                found.and_then(|node| to.section.and(port).map_or(Some(node), |port| self.port(node, port)));
            let message = format!("it is unknown whether {object} exists");
            return (node, (purpose == BackendUse::Mirror).then_some((Reason::UnknownKind, message)));
        };
        let port = port.filter(|_| to.section.is_some());
        let node = port.map_or(Some(found), |port| self.port(found, port));
        if service.is_external {
            let message = format!(
                "{object} has type ExternalName, which implementations should not support: refer to a \
                 Service with endpoints, or to a backend kind of the implementation"
            );
            // Implementations that support ExternalName do not need the port.
            return (node.or(Some(found)), Some((Reason::ImplementationSpecific, message)));
        }
        let missing = port.filter(|_| node.is_none());
        let missing = missing.map(|port| (Reason::BackendNotFound, format!("{object} has no port {port}")));
        (node, missing)
    }
}
