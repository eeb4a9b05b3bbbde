//! Leaves: objects that other objects refer to, of a kind whose objects are unknown. The graph has only the names of
//! leaves.

use std::collections::BTreeMap;

use super::backends::may_be_backend;
use crate::graph_input::{Grants, GraphInput};
use crate::locator::{Locator, Section};
use crate::rows::{BackendKind, Parent, ParentReference, RouteKind};

/// The leaves that `graph_input` refers to, each with the sections that references name.
pub(crate) fn leaves<'f>(
    graph_input: &GraphInput<'f>,
    grants: &Grants<'f>,
) -> impl Iterator<Item = (Locator<'f>, Vec<Section<'f>>)> + use<'f> {
    let mut found = Leaves::default();
    if !graph_input.classes.known {
        for (_, gateway) in &graph_input.gateways.objects {
            found.add(gateway.class_locator());
        }
    }
    for (key, set) in graph_input.sets.iter().flat_map(|rows| &rows.objects) {
        found.parent(graph_input, &set.parent, &key.namespace);
    }
    for kind in RouteKind::ALL {
        for (key, route) in &graph_input.routes_of(kind).objects {
            for parent in route.parents.iter() {
                found.parent(graph_input, parent, &key.namespace);
            }
            let from = Locator::of(kind.kind(), key);
            for backend in route.rules.iter().flat_map(|rule| rule.backends.iter()) {
                let to = backend.locator(&key.namespace);
                let is_read = match BackendKind::named(to.kind) {
                    Some(kind) => graph_input.backends_of(kind).known,
                    None => !may_be_backend(to.kind),
                };
                if !is_read && grants.permit(from, to) {
                    found.add(to);
                }
            }
        }
    }
    for (kind, key, policy) in &graph_input.policies {
        let from = Locator::of(kind.as_ref(), key);
        for target in &policy.targets {
            let to = target.locator(&key.namespace);
            if graph_input.knows(to.kind) == Some(false) && grants.permit(from, to) {
                found.add(to);
            }
        }
    }
    found.0.into_values()
}

/// The leaves, by the text of their locators.
#[derive(Default)]
struct Leaves<'f>(BTreeMap<String, (Locator<'f>, Vec<Section<'f>>)>);

impl<'f> Leaves<'f> {
    fn add(&mut self, to: Locator<'f>) {
        let object = to.with(None);
        let (_, sections) = self.0.entry(object.to_string()).or_insert_with(|| (object, Vec::new()));
        // A section name in digits has the same text as a port number, so the texts are compared.
        if let Some(section) = to.section
            && !sections.iter().any(|known| known.to_string() == section.to_string())
        {
            sections.push(section);
        }
    }

    /// Adds a parent as a leaf, if objects of its kind are unknown.
    fn parent(&mut self, graph_input: &GraphInput<'f>, parent: &'f ParentReference, namespace: &'f str) {
        let is_other = matches!(parent.parent, Parent::Other(_));
        if !is_other && graph_input.knows(parent.parent.kind()) == Some(false) {
            self.add(parent.locator(namespace));
        }
    }
}
