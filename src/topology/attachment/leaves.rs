//! What others refer to, and of whose kind nothing is known: it stands in the graph by its name alone.

use std::collections::BTreeMap;

use crate::topology::facts::{Facts, Grants};
use crate::topology::locator::{GATEWAY_CLASS, KindRef, Locator, SERVICE, Section};
use crate::topology::rows::{Parent, ParentReference, RouteKind};

/// The leaves that `facts` refer to, each with the sections of it that are named.
pub(in crate::topology) fn leaves<'f>(
    facts: &Facts<'f>,
    grants: &Grants<'f>,
) -> impl Iterator<Item = (Locator<'f>, Vec<Section<'f>>)> + use<'f> {
    let mut found = Found::default();
    if !facts.classes.known {
        for (_, gateway) in &facts.gateways.objects {
            found.take(GATEWAY_CLASS, "", &gateway.class, None);
        }
    }
    for (key, set) in &facts.sets.objects {
        found.parent(facts, &set.parent, &key.namespace);
    }
    for kind in RouteKind::ALL {
        for (key, route) in &facts.routes_of(kind).objects {
            for parent in &route.parents {
                found.parent(facts, parent, &key.namespace);
            }
            for backend in route.rules.iter().flat_map(|rule| &rule.backends) {
                let to = backend.backend.kind();
                let namespace = backend.namespace.as_ref().unwrap_or(&key.namespace);
                let is_known = to == SERVICE && facts.services.known;
                if is_known || !grants.permit((kind.kind(), &key.namespace), (to, namespace, &backend.name)) {
                    continue;
                }
                let port = backend.port.filter(|_| to == SERVICE).map(Section::Port);
                found.take(to, namespace, &backend.name, port);
            }
        }
    }
    for (kind, key, policy) in &facts.policies {
        for target in &policy.targets {
            if facts.knows(target.kind.as_ref()) != Some(false) {
                continue;
            }
            let to = target.kind.as_ref();
            let namespace = match to {
                GATEWAY_CLASS => "",
                _ => target.namespace.as_ref().unwrap_or(&key.namespace),
            };
            let own = namespace.is_empty();
            if own || grants.permit((kind.as_ref(), &key.namespace), (to, namespace, &target.name)) {
                found.take(to, namespace, &target.name, target.section.as_deref().map(Section::Named));
            }
        }
    }
    found.0.into_values()
}

/// Leaves by their locators.
#[derive(Default)]
struct Found<'f>(BTreeMap<String, (Locator<'f>, Vec<Section<'f>>)>);

impl<'f> Found<'f> {
    fn take(&mut self, kind: KindRef<'f>, namespace: &'f str, name: &'f str, section: Option<Section<'f>>) {
        let locator = Locator { kind, namespace, name, section: None };
        let (_, sections) = self.0.entry(locator.to_string()).or_insert_with(|| (locator, Vec::new()));
        // A number may be a name as well.
        if let Some(section) = section
            && !sections.iter().any(|known| known.to_string() == section.to_string())
        {
            sections.push(section);
        }
    }

    /// A parent, where nothing is known of its kind.
    fn parent(&mut self, facts: &Facts<'f>, parent: &'f ParentReference, namespace: &'f str) {
        let known = match parent.parent {
            Parent::Gateway => facts.gateways.known,
            Parent::ListenerSet => facts.sets.known,
            Parent::Other(_) => true,
        };
        if !known {
            let namespace = parent.namespace.as_deref().unwrap_or(namespace);
            let section = parent.section.as_deref().map(Section::Named);
            self.take(parent.parent.kind(), namespace, &parent.name, section);
        }
    }
}
