//! A collection of a cluster's objects, from files or lists: the source of [`GraphInput`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::graph_input::{GraphInput, Needs, Rows};
use super::locator::{GATEWAY, GATEWAY_CLASS, Kind, KindRef, SECRET, graph_kind};
use super::rows::{
    BackendKind, Class, Gateway, Grant, ListenerSet, Namespace, ParentStatus, Policy, Route, RouteKind,
    Secret, Service, SetKind, Shared,
};
use super::rules::{MergeBehavior, MergeConfig};
use crate::fault::Fault;
use policy_sync_api::gateway::{GROUP, POLICY_LABEL, is_direct};
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_api::syntax::{is_dns_label, is_dns_subdomain, is_kind};
use policy_sync_api::text::excerpt;

/// CustomResourceDefinitions.
const DEFINITION: KindRef<'static> =
    KindRef { group: "apiextensions.k8s.io", kind: "CustomResourceDefinition" };
/// Namespaces.
pub const NAMESPACE: KindRef<'static> = KindRef { group: "", kind: "Namespace" };
/// ReferenceGrants.
pub const GRANT: KindRef<'static> = KindRef { group: GROUP, kind: "ReferenceGrant" };

type Table<R> = BTreeMap<ObjectKey, Arc<R>>;

/// The fields of an object that a graph reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// A GatewayClass.
    Class,
    /// A Gateway.
    Gateway(Arc<Gateway>),
    /// A ListenerSet.
    ListenerSet(SetKind, Arc<ListenerSet>),
    /// A route.
    Route(RouteKind, Arc<Route>),
    /// A Service or another backend.
    Backend(BackendKind, Arc<Service>),
    /// A Secret.
    Secret(Arc<Secret>),
    /// A Namespace.
    Namespace(Arc<Namespace>),
    /// A ReferenceGrant.
    Grant(Arc<Grant>),
    /// A policy of any kind.
    Policy(Arc<Policy>),
}

impl Row {
    /// Reads `object`, which is of `kind`. An object of a kind that the graph does not have is read as a
    /// policy.
    ///
    /// # Errors
    ///
    /// If the API server would reject the object.
    pub fn read(kind: KindRef<'_>, object: &HubObject) -> Result<Self, Fault> {
        Ok(match kind {
            GATEWAY_CLASS => Self::Class,
            GATEWAY => Self::Gateway(Gateway::read(object)?.into()),
            SECRET => Self::Secret(Secret::read(object).into()),
            NAMESPACE => Self::Namespace(Namespace::read(object).into()),
            GRANT => Self::Grant(Grant::read(object)?.into()),
            _ => {
                if let Some(route) = RouteKind::named(kind) {
                    Self::Route(route, Route::read(route, object)?.into())
                } else if let Some(set) = SetKind::named(kind) {
                    Self::ListenerSet(set, ListenerSet::read(set, object)?.into())
                } else if let Some(backend) = BackendKind::named(kind) {
                    Self::Backend(backend, Service::read(object)?.into())
                } else {
                    Self::Policy(Policy::read(object)?.into())
                }
            }
        })
    }

    /// Replaces text that other rows are likely to repeat by the equal text in `shared`. Does nothing if the row is in
    /// use elsewhere.
    pub fn share(&mut self, shared: &mut Shared) {
        if let Self::Route(_, route) = self
            && let Some(route) = Arc::get_mut(route)
        {
            route.share(shared);
        }
    }
}

/// The fields that a graph reads, of any number of objects.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    classes: Table<Class>,
    gateways: Table<Gateway>,
    sets: [Table<ListenerSet>; 2],
    routes: [Table<Route>; 5],
    backends: [Table<Service>; 3],
    secrets: Table<Secret>,
    namespaces: Table<Namespace>,
    grants: Table<Grant>,
    policies: BTreeMap<(Kind, ObjectKey), Arc<Policy>>,
    definitions: BTreeMap<Kind, Definition>,
    /// The merge configuration of kinds from parameters. If a kind has several configurations, the first one applies.
    configured: Vec<(GroupResource, MergeConfig)>,
    /// The kinds whose objects are all in the collection. `None` for objects from files; see [`Self::graph_input`].
    listed: Option<BTreeSet<Kind>>,
    /// The prefix of namespaces for copies of a hub's objects.
    pub downstream_prefix: String,
    /// The name of this controller. Its own entries in the status of routes are skipped, because they repeat the graph.
    pub controller: String,
    /// Text that many routes repeat, stored once.
    shared: Shared,
}

/// The parts of a CustomResourceDefinition that a graph needs.
#[derive(Clone, Debug)]
struct Definition {
    plural: Arc<str>,
    /// Whether policies of the kind are direct: they apply to their target only.
    direct: bool,
}

/// The use of an object in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectRole {
    /// An object of one of the graph's kinds; true if the kind is namespaced.
    GraphObject(bool),
    /// A policy: the object has target references or selectors.
    Policy,
    /// A CustomResourceDefinition.
    Definition,
    /// An object that is not part of a graph.
    None,
}

/// The kind of `object`.
#[must_use]
pub fn kind_of(object: &HubObject) -> KindRef<'_> {
    let group = object.api_version.split_once('/').map_or("", |(group, _)| group);
    KindRef { group, kind: &object.kind }
}

/// The use of `object` in a graph.
#[must_use]
pub fn role(object: &HubObject) -> ObjectRole {
    let kind = kind_of(object);
    match kind {
        GATEWAY_CLASS | NAMESPACE => ObjectRole::GraphObject(false),
        GATEWAY | SECRET | GRANT => ObjectRole::GraphObject(true),
        DEFINITION => ObjectRole::Definition,
        _ if graph_kind(kind).is_some() => ObjectRole::GraphObject(true),
        _ => {
            let spec = object.spec_value();
            let refers =
                ["targetRef", "targetRefs", "targetSelectors"].iter().any(|field| !spec[field].is_null());
            if refers { ObjectRole::Policy } else { ObjectRole::None }
        }
    }
}

impl Objects {
    /// An empty collection for a cluster. The caller adds all objects of `kinds`.
    #[must_use]
    pub fn of_cluster(kinds: BTreeSet<Kind>) -> Self {
        Self { listed: Some(kinds), ..Self::default() }
    }

    /// Records that the collection has all objects of `kind`.
    pub fn lists(&mut self, kind: KindRef<'_>) {
        self.listed.get_or_insert_default().insert(kind.to_kind());
    }

    /// Sets the plural of `kind`, and whether its policies are direct.
    pub fn define(&mut self, kind: Kind, plural: &str, direct: bool) {
        self.definitions.insert(kind, Definition { plural: plural.into(), direct });
    }

    /// Configures how policies of a kind are merged. An earlier configuration of the same kind takes
    /// precedence.
    pub fn configure(&mut self, resource: GroupResource, configured: MergeConfig) {
        self.configured.push((resource, configured));
    }

    /// The kinds that have to be read because objects in the collection refer to them.
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.graph_input().needs()
    }

    /// The Gateways.
    #[must_use]
    pub fn gateways(&self) -> &BTreeMap<ObjectKey, Arc<Gateway>> {
        &self.gateways
    }

    /// The policies, each with its kind.
    #[must_use]
    pub fn policies(&self) -> &BTreeMap<(Kind, ObjectKey), Arc<Policy>> {
        &self.policies
    }

    /// A copy without policies and without Gateways, as a base for other collections.
    #[must_use]
    pub fn without_gateways_and_policies(&self) -> Self {
        Self {
            classes: self.classes.clone(),
            definitions: self.definitions.clone(),
            configured: self.configured.clone(),
            listed: self.listed.clone(),
            ..Self::default()
        }
    }

    /// Adds a GatewayClass.
    pub fn put_class(&mut self, key: ObjectKey) {
        self.classes.insert(key, Class.into());
    }

    /// Adds a Gateway.
    pub fn put_gateway(&mut self, key: ObjectKey, gateway: Gateway) {
        self.gateways.insert(key, gateway.into());
    }

    /// Adds a policy of `kind`.
    pub fn put_policy(&mut self, kind: Kind, key: ObjectKey, policy: Policy) {
        self.policies.insert((kind, key), policy.into());
    }

    /// Adds the row of the object `key` of `kind`.
    pub fn put(&mut self, kind: KindRef<'_>, key: ObjectKey, row: Row) {
        match row {
            Row::Class => self.put_class(key),
            Row::Gateway(gateway) => drop(self.gateways.insert(key, gateway)),
            Row::ListenerSet(kind, set) => drop(self.sets[kind as usize].insert(key, set)),
            Row::Route(route, row) => drop(self.routes[route as usize].insert(key, row)),
            Row::Backend(kind, backend) => drop(self.backends[kind as usize].insert(key, backend)),
            Row::Secret(secret) => drop(self.secrets.insert(key, secret)),
            Row::Namespace(namespace) => drop(self.namespaces.insert(key, namespace)),
            Row::Grant(grant) => drop(self.grants.insert(key, grant)),
            Row::Policy(policy) => drop(self.policies.insert((kind.to_kind(), key), policy)),
        }
    }

    /// Adds `object`.
    ///
    /// # Errors
    ///
    /// If the API server would reject the object. Then nothing is added.
    pub fn take(&mut self, object: &HubObject) -> Result<(), Fault> {
        check(object)?;
        match role(object) {
            ObjectRole::GraphObject(_) | ObjectRole::Policy => {
                let kind = kind_of(object);
                let mut row = Row::read(kind, object)?;
                if let Row::Route(_, route) = &mut row
                    && let Some(route) = Arc::get_mut(route)
                {
                    route.statuses = ParentStatus::read(object);
                }
                row.share(&mut self.shared);
                self.put(kind, object.key(), row);
            }
            ObjectRole::Definition => self.add_definition(object),
            ObjectRole::None => {}
        }
        Ok(())
    }

    fn add_definition(&mut self, object: &HubObject) {
        let (spec, label) = (object.spec_value(), object.metadata.labels.get(POLICY_LABEL));
        let names = &spec["names"];
        if let (Some(group), Some(kind)) = (spec["group"].as_str(), names["kind"].as_str()) {
            let kind = Kind { group: group.into(), kind: kind.into() };
            self.define(
                kind,
                names["plural"].as_str().unwrap_or_default(),
                label.is_some_and(|label| is_direct(label)),
            );
        }
    }

    /// The input of a graph with these objects.
    ///
    /// Objects from files are assumed to be complete for each kind in the files. If the files contain a Gateway, they
    /// are assumed to contain all ListenerSets and routes as well. They are always assumed to contain all
    /// ReferenceGrants.
    #[must_use]
    pub fn graph_input(&self) -> GraphInput<'_> {
        let whole = !self.gateways.is_empty();
        let mut graph_input = GraphInput {
            classes: self.rows(&self.classes, GATEWAY_CLASS, false),
            gateways: self.rows(&self.gateways, GATEWAY, whole),
            secrets: self.secrets(),
            namespaces: self.namespaces(),
            grants: self.rows(&self.grants, GRANT, true),
            policies: self.policies.iter().map(|((kind, key), policy)| (kind, key, &**policy)).collect(),
            downstream_prefix: &self.downstream_prefix,
            controller: &self.controller,
            ..GraphInput::default()
        };
        for ((table, to), kind) in self.sets.iter().zip(&mut graph_input.sets).zip(SetKind::ALL) {
            *to = self.rows(table, kind.kind(), whole);
        }
        for ((table, to), kind) in self.backends.iter().zip(&mut graph_input.backends).zip(BackendKind::ALL) {
            *to = self.rows(table, kind.kind(), false);
        }
        for ((table, to), kind) in self.routes.iter().zip(&mut graph_input.routes).zip(RouteKind::ALL) {
            *to = self.rows(table, kind.kind(), whole);
        }
        graph_input.merge_behaviors = self.merge_behaviors();
        graph_input
    }

    /// The objects of `kind`. Objects from files are complete if `of_files` is set or the table is not empty.
    fn rows<'o, R>(&self, table: &'o Table<R>, kind: KindRef<'_>, of_files: bool) -> Rows<'o, R> {
        let known = match &self.listed {
            Some(listed) => listed.iter().any(|listed| listed.as_ref() == kind),
            None => of_files || !table.is_empty(),
        };
        Rows { known, objects: table.iter().map(|(key, row)| (key, &**row)).collect() }
    }

    /// The Secrets. Secrets from files are complete only if one of them is of the type `kubernetes.io/tls`. Otherwise
    /// the files may omit certificates that the cluster issues.
    fn secrets(&self) -> Rows<'_, Secret> {
        let mut rows = self.rows(&self.secrets, SECRET, false);
        rows.known &= self.listed.is_some() || self.secrets.values().any(|secret| secret.is_tls);
        rows
    }

    /// The Namespaces. Namespaces from files are never complete, because files may contain objects without their
    /// Namespaces.
    fn namespaces(&self) -> Rows<'_, Namespace> {
        let mut rows = self.rows(&self.namespaces, NAMESPACE, false);
        rows.known &= self.listed.is_some();
        rows
    }

    /// The merge strategies of kinds that have a configuration or a definition.
    fn merge_behaviors(&self) -> BTreeMap<&Kind, MergeBehavior<'_>> {
        let mut merge_behaviors = BTreeMap::new();
        let mut kinds: Vec<&Kind> = self.policies.keys().map(|(kind, _)| kind).collect();
        kinds.dedup();
        for kind in kinds {
            let definition = self.definitions.get(kind);
            let is_meant = |resource: &GroupResource| {
                *resource.group == *kind.group
                    && definition.map_or_else(
                        || resource.is_plural_of(&kind.kind),
                        |definition| definition.plural == resource.resource,
                    )
            };
            let is_known = MergeBehavior::of(kind.as_ref()) != MergeBehavior::Fields;
            if let Some((_, configured)) = self.configured.iter().find(|(resource, _)| is_meant(resource)) {
                merge_behaviors.insert(kind, MergeBehavior::Configured(configured));
            } else if !is_known && definition.is_some_and(|definition| definition.direct) {
                merge_behaviors.insert(kind, MergeBehavior::Direct);
            }
        }
        merge_behaviors
    }
}

/// Checks the fields that every object has, as the API server does.
fn check(object: &HubObject) -> Result<(), Fault> {
    let metadata = &object.metadata;
    let bad = |place: &str, text: &str, what: &str| {
        Err(Fault::new(place, format!("{:?} is not a valid {what}", excerpt(text))))
    };
    let group = kind_of(object).group;
    if !group.is_empty() && !is_dns_subdomain(group) {
        return bad("apiVersion", &object.api_version, "group and version");
    }
    if !is_kind(&object.kind) {
        return bad("kind", &object.kind, "kind");
    }
    if !is_dns_subdomain(&metadata.name) {
        return bad("metadata.name", &metadata.name, "Kubernetes name");
    }
    if !metadata.namespace.is_empty() && !is_dns_label(&metadata.namespace) {
        return bad("metadata.namespace", &metadata.namespace, "namespace name");
    }
    Ok(())
}
