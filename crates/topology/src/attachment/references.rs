//! Checks the references of listeners: the kinds of routes that they allow, and their certificates. A listener with
//! unresolved references stays attached. Its routes stay attached, too, except routes of a kind that its protocol does
//! not carry.

use std::collections::{HashMap, HashSet};

use super::routes::protocol_carries;
use crate::graph::Builder;
use crate::graph_input::{Grants, GraphInput};
use crate::locator::{Kind, Locator, SECRET};
use crate::reason::{Reason, Unresolved};
use crate::rows::{CertificateReference, Listener, RouteKind, Secret};
use policy_sync_api::gateway::GROUP;

impl<'f> Builder<'f> {
    /// Records the unresolved references of all listeners.
    pub(crate) fn resolve_listeners(&mut self) {
        let secrets = Secrets::new(self.graph_input);
        for node in self.graph.nodes() {
            let Some(listener) = self.graph.listener(node) else { continue };
            let from = self.graph.locator(node);
            let mut found: Vec<Unresolved<'f>> = Vec::new();
            for kind in listener.kinds.iter().flatten() {
                let refusal = route_kind(listener, kind);
                found.extend(refusal.map(|(reason, message)| Unresolved { from, to: None, reason, message }));
            }
            let mut seen: HashSet<Locator<'f>> = HashSet::new();
            for certificate in &listener.certificates {
                let to = certificate.locator(from.namespace);
                if let Some((reason, message)) = secrets.refusal(&self.grants, from, certificate)
                    && seen.insert(to)
                {
                    found.push(Unresolved { from, to: Some(to), reason, message });
                }
            }
            found.into_iter().for_each(|item| self.unresolved(item));
        }
    }
}

/// The reason why `listener` cannot carry routes of `kind`, although its `allowedRoutes` lists this kind.
fn route_kind(listener: &Listener, kind: &Kind) -> Option<(Reason, String)> {
    let protocol = &listener.protocol;
    match RouteKind::named(kind.as_ref()) {
        Some(route) if protocol_carries(listener, route) != Some(false) => None,
        Some(_) => Some((
            Reason::InvalidRouteKinds,
            format!("a listener with protocol {protocol} does not support {}s", kind.kind),
        )),
        // An implementation that defines a protocol also defines which kinds of routes it carries.
        None if protocol.is_core() && *kind.group == *GROUP => {
            Some((Reason::InvalidRouteKinds, format!("Gateway API has no route kind {}", kind.kind)))
        }
        None if protocol.is_core() => {
            let message = format!("support of the route kind {kind} depends on the implementation");
            Some((Reason::UnknownKind, message))
        }
        None => None,
    }
}

/// Secrets by namespace and name.
struct Secrets<'f> {
    known: bool,
    by_name: HashMap<(&'f str, &'f str), &'f Secret>,
}

impl<'f> Secrets<'f> {
    fn new(graph_input: &'f GraphInput<'f>) -> Self {
        let rows = &graph_input.secrets;
        let by_name = rows.objects.iter().map(|(key, row)| ((&*key.namespace, &*key.name), *row)).collect();
        Self { known: rows.known, by_name }
    }

    /// The reason why the listener `from` cannot use `certificate`.
    fn refusal(
        &self,
        grants: &Grants<'_>,
        from: Locator<'_>,
        certificate: &CertificateReference,
    ) -> Option<(Reason, String)> {
        let to = certificate.locator(from.namespace);
        if !grants.permit(from, to) {
            return Some(Grants::refusal(from, to));
        }
        let name = to.object();
        if to.kind != SECRET {
            return Some(if to.kind.group.is_empty() {
                (
                    Reason::InvalidCertificateRef,
                    format!("a {} cannot hold a certificate: refer to a Secret", to.kind.kind),
                )
            } else {
                let message =
                    format!("support of the certificate kind {} depends on the implementation", to.kind);
                (Reason::UnknownKind, message)
            });
        }
        let message = match self.by_name.get(&(to.namespace, to.name)) {
            Some(Secret { malformed: Some(key), .. }) => format!("{key} of Secret {name} is not PEM"),
            Some(_) => return None,
            None if self.known => format!("Secret {name} does not exist"),
            None => return None,
        };
        Some((Reason::InvalidCertificateRef, message))
    }
}
