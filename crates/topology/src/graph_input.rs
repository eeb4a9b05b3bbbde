//! The input of a graph: the known objects of a cluster as plain rows, from watches, lists or files.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::locator::{GATEWAY, GATEWAY_CLASS, Kind, KindRef, Locator};
use super::reason::Reason;
use super::rows::{
    BackendKind, Class, Gateway, Grant, Listener, ListenerSet, NAME_LABEL, Namespace, Policy, Route,
    RouteKind, Secret, Service, SetKind, name_label,
};
use super::rules::MergeBehavior;
use policy_sync_api::names::ObjectKey;

/// The objects of one kind.
#[derive(Debug)]
pub struct Rows<'f, R> {
    /// Whether `objects` has all objects of the kind. If not, a missing object is not a fault.
    pub known: bool,
    /// The objects.
    pub objects: Vec<(&'f ObjectKey, &'f R)>,
}

impl<R> Default for Rows<'_, R> {
    fn default() -> Self {
        Self { known: false, objects: Vec::new() }
    }
}

/// The known objects of a cluster.
#[derive(Debug, Default)]
pub struct GraphInput<'f> {
    /// GatewayClasses.
    pub classes: Rows<'f, Class>,
    /// Gateways.
    pub gateways: Rows<'f, Gateway>,
    /// ListenerSets, in the order of [`SetKind::ALL`].
    pub sets: [Rows<'f, ListenerSet>; 2],
    /// Routes, in the order of [`RouteKind::ALL`].
    pub routes: [Rows<'f, Route>; 5],
    /// Services and other backends, in the order of [`BackendKind::ALL`].
    pub backends: [Rows<'f, Service>; 3],
    /// Secrets with certificates.
    pub secrets: Rows<'f, Secret>,
    /// Namespaces.
    pub namespaces: Rows<'f, Namespace>,
    /// ReferenceGrants. If they are unknown, every reference is permitted.
    pub grants: Rows<'f, Grant>,
    /// Policies, with their kinds.
    pub policies: Vec<(&'f Kind, &'f ObjectKey, &'f Policy)>,
    /// How policies of a kind are merged, if parameters configure it, or if the CustomResourceDefinition of the kind is
    /// known.
    pub merge_behaviors: BTreeMap<&'f Kind, MergeBehavior<'f>>,
    /// The prefix of namespaces for copies; if empty, no object counts as a copy.
    pub downstream_prefix: &'f str,
    /// The name of this controller, which implements no Gateways: its entries in the status of routes are
    /// ignored.
    pub controller: &'f str,
}

/// The kinds that the known objects refer to, and that have to be read as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Whether each kind of Services and other backends has to be read, in the order of [`BackendKind::ALL`].
    pub backends: [bool; 3],
    /// Whether Namespaces have to be read, because a selector uses their labels.
    pub namespaces: bool,
    /// Whether ReferenceGrants have to be read, because an object refers to another namespace.
    pub grants: bool,
}

impl<'f> GraphInput<'f> {
    /// The number of objects that are nodes, without their sections.
    pub(super) fn count(&self) -> usize {
        let routes: usize = self.routes.iter().map(|rows| rows.objects.len()).sum();
        let sets: usize = self.sets.iter().map(|rows| rows.objects.len()).sum();
        let backends: usize = self.backends.iter().map(|rows| rows.objects.len()).sum();
        self.classes.objects.len() + self.gateways.objects.len() + sets + backends + routes
    }

    /// The kinds that have to be read because of the references of the known objects.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let backends = self.routes.iter().flat_map(|rows| &rows.objects).flat_map(|(key, route)| {
            let backends =
                route.rules.iter().flat_map(|rule| rule.backends.iter().chain(rule.mirrors.iter()));
            backends.map(move |backend| (&key.namespace, backend.locator(&key.namespace)))
        });
        let targets = self.policies.iter().flat_map(|(_, key, policy)| {
            let targets = policy.targets.iter();
            targets.map(move |target| (&key.namespace, target.locator(&key.namespace)))
        });
        let mut needs = Needs::default();
        let certificates = self.listeners().flat_map(|(key, listener)| {
            let certificates = listener.certificates.iter();
            certificates.map(move |certificate| (&key.namespace, certificate.locator(&key.namespace)))
        });
        for (own, to) in backends.chain(targets).chain(certificates) {
            if let Some(kind) = BackendKind::named(to.kind) {
                needs.backends[kind as usize] = true;
            }
            needs.grants |= !to.namespace.is_empty() && **own != *to.namespace;
        }
        needs.namespaces = self.listeners().any(|(_, listener)| listener.namespaces.selects())
            || self.gateways.objects.iter().any(|(_, gateway)| gateway.sets.selects());
        needs
    }

    /// All listeners, each with the Gateway or the ListenerSet that contains it.
    fn listeners(&self) -> impl Iterator<Item = (&'f ObjectKey, &'f Listener)> {
        let of_gateways = self.gateways.objects.iter().map(|(key, gateway)| (*key, &gateway.listeners));
        let of_sets = self.sets.iter().flat_map(|rows| &rows.objects);
        let of_sets = of_sets.map(|(key, set)| (*key, &set.listeners));
        of_gateways
            .chain(of_sets)
            .flat_map(|(key, listeners)| listeners.iter().map(move |listener| (key, listener)))
    }

    /// The routes of a kind.
    #[must_use]
    pub fn routes_of(&self, kind: RouteKind) -> &Rows<'f, Route> {
        &self.routes[kind as usize]
    }

    /// The ListenerSets of a kind.
    #[must_use]
    pub fn sets_of(&self, kind: SetKind) -> &Rows<'f, ListenerSet> {
        &self.sets[kind as usize]
    }

    /// The backends of a kind.
    #[must_use]
    pub fn backends_of(&self, kind: BackendKind) -> &Rows<'f, Service> {
        &self.backends[kind as usize]
    }

    /// Whether all objects of `kind` are known; `None` if the graph has no objects of that kind.
    #[must_use]
    pub fn knows(&self, kind: KindRef<'_>) -> Option<bool> {
        match kind {
            GATEWAY_CLASS => Some(self.classes.known),
            GATEWAY => Some(self.gateways.known),
            _ => RouteKind::named(kind)
                .map(|route| self.routes_of(route).known)
                .or_else(|| SetKind::named(kind).map(|set| self.sets_of(set).known))
                .or_else(|| BackendKind::named(kind).map(|backend| self.backends_of(backend).known)),
        }
    }

    /// Whether some but not all objects of a kind are known.
    pub(super) fn is_partial(&self) -> bool {
        fn partial<R>(rows: &Rows<'_, R>) -> bool {
            !rows.known && !rows.objects.is_empty()
        }
        partial(&self.classes)
            || partial(&self.gateways)
            || self.sets.iter().any(partial)
            || self.backends.iter().any(partial)
            || self.routes.iter().any(partial)
    }

    /// How policies of `kind` are merged.
    #[must_use]
    pub fn merge_behavior(&self, kind: &Kind) -> MergeBehavior<'f> {
        self.merge_behaviors.get(kind).copied().unwrap_or_else(|| MergeBehavior::of(kind.as_ref()))
    }
}

/// The ReferenceGrants of each namespace.
#[derive(Debug)]
pub(super) struct Grants<'f> {
    known: bool,
    by_namespace: HashMap<&'f str, Vec<&'f Grant>>,
}

impl<'f> Grants<'f> {
    pub(super) fn new(graph_input: &GraphInput<'f>) -> Self {
        let mut by_namespace: HashMap<&str, Vec<&Grant>> = HashMap::new();
        for (key, grant) in &graph_input.grants.objects {
            by_namespace.entry(&key.namespace).or_default().push(grant);
        }
        Self { known: graph_input.grants.known, by_namespace }
    }

    /// Whether the object `from` may refer to `to`. References to cluster-scoped objects need no grant.
    pub(super) fn permit(&self, from: Locator<'_>, to: Locator<'_>) -> bool {
        let allows = |grant: &&Grant| grant.allows(from.kind, from.namespace, to.kind, to.name);
        !self.known
            || to.namespace.is_empty()
            || from.namespace == to.namespace
            || self.by_namespace.get(to.namespace).into_iter().flatten().any(allows)
    }

    /// The reason and message for a reference that is not permitted.
    pub(super) fn refusal(from: Locator<'_>, to: Locator<'_>) -> (Reason, String) {
        let message = format!(
            "no ReferenceGrant in namespace {} allows {}s in namespace {} to refer to {} {}",
            to.namespace, from.kind.kind, from.namespace, to.kind.kind, to.name
        );
        (Reason::RefNotPermitted, message)
    }
}

/// The labels of Namespaces.
#[derive(Debug)]
pub(super) struct Labels<'f> {
    known: bool,
    by_name: HashMap<&'f str, &'f BTreeMap<String, String>>,
}

impl<'f> Labels<'f> {
    pub(super) fn new(graph_input: &GraphInput<'f>) -> Self {
        let by_name =
            graph_input.namespaces.objects.iter().map(|(key, row)| (&*key.name, &row.labels)).collect();
        Self { known: graph_input.namespaces.known, by_name }
    }

    /// Returns the labels of `namespace`. If the Namespace does not exist, returns only the label that contains its
    /// name. Returns `None` if it is unknown whether the Namespace exists.
    pub(super) fn of(&self, namespace: &str) -> Option<Cow<'f, BTreeMap<String, String>>> {
        match self.by_name.get(namespace) {
            Some(labels) if labels.contains_key(NAME_LABEL) => Some(Cow::Borrowed(labels)),
            None if !self.known => None,
            labels => {
                let mut own = name_label(namespace);
                own.extend(labels.into_iter().flat_map(|labels| (*labels).clone()));
                Some(Cow::Owned(own))
            }
        }
    }
}
