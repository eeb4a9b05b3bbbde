//! Objects of a cluster, taken in one by one: what files and lists come to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::facts::{Facts, Needs, Rows};
use super::locator::{GATEWAY, GATEWAY_CLASS, Kind, KindRef, SECRET, is_of_graph};
use super::rows::{
    BackendKind, Class, Gateway, Grant, ListenerSet, Namespace, ParentStatus, Policy, Route, RouteKind,
    Secret, Service, SetKind, Shared,
};
use super::rules::{Configured, Manner};
use crate::fault::Fault;
use policy_sync_api::gateway::{GROUP, POLICY_LABEL, is_direct};
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_api::syntax::{is_dns_label, is_dns_subdomain, is_kind};
use policy_sync_api::text::excerpt;

/// Definitions of kinds.
const DEFINITION: KindRef<'static> =
    KindRef { group: "apiextensions.k8s.io", kind: "CustomResourceDefinition" };
/// Namespaces.
pub const NAMESPACE: KindRef<'static> = KindRef { group: "", kind: "Namespace" };
/// ReferenceGrants.
pub const GRANT: KindRef<'static> = KindRef { group: GROUP, kind: "ReferenceGrant" };

type Table<R> = BTreeMap<ObjectKey, Arc<R>>;

/// An object, as far as a graph reads it.
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
    /// The row of `object`, which is of `kind`; where a graph knows no such kind, that of a policy.
    ///
    /// # Errors
    ///
    /// What the API server would refuse.
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

    /// Has `shared` keep once what other rows are likely to say as well, where nobody else has this one yet.
    pub fn share(&mut self, shared: &mut Shared) {
        if let Self::Route(_, route) = self
            && let Some(route) = Arc::get_mut(route)
        {
            route.share(shared);
        }
    }
}

/// Objects, as far as a graph reads them.
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
    /// What parameters say of kinds, the first of a kind.
    configured: Vec<(GroupResource, Configured)>,
    /// The kinds of which these are all objects; of files, what they have tells.
    listed: Option<BTreeSet<Kind>>,
    /// What names of namespaces with copies of a hub begin with.
    pub downstream_prefix: String,
    /// The name of this controller. Its own entries in the status of routes are skipped, because they repeat the graph.
    pub controller: String,
    /// What many routes say, once.
    shared: Shared,
}

/// What the definition of a kind says.
#[derive(Clone, Debug)]
struct Definition {
    plural: Arc<str>,
    /// Whether its policies are direct.
    direct: bool,
}

/// What an object is to a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An object of one of its kinds, and whether such objects are in namespaces.
    Of(bool),
    /// A policy.
    Policy,
    /// The definition of a kind.
    Definition,
    /// Nothing.
    None,
}

/// The kind of `object`.
#[must_use]
pub fn kind_of(object: &HubObject) -> KindRef<'_> {
    let group = object.api_version.split_once('/').map_or("", |(group, _)| group);
    KindRef { group, kind: &object.kind }
}

/// What `object` is to a graph.
#[must_use]
pub fn role(object: &HubObject) -> Role {
    let kind = kind_of(object);
    match kind {
        GATEWAY_CLASS | NAMESPACE => Role::Of(false),
        GATEWAY | SECRET | GRANT => Role::Of(true),
        DEFINITION => Role::Definition,
        _ if is_of_graph(kind).is_some() => Role::Of(true),
        _ => {
            let spec = object.spec_value();
            let refers =
                ["targetRef", "targetRefs", "targetSelectors"].iter().any(|field| !spec[field].is_null());
            if refers { Role::Policy } else { Role::None }
        }
    }
}

impl Objects {
    /// Those of a cluster, which are all that there are of `kinds`.
    #[must_use]
    pub fn of_cluster(kinds: BTreeSet<Kind>) -> Self {
        Self { listed: Some(kinds), ..Self::default() }
    }

    /// Takes in that these are all objects of `kind`, too.
    pub fn lists(&mut self, kind: KindRef<'_>) {
        self.listed.get_or_insert_default().insert(kind.to_kind());
    }

    /// Takes in that `kind` has this plural, and whether its policies are direct.
    pub fn define(&mut self, kind: Kind, plural: &str, direct: bool) {
        self.definitions.insert(kind, Definition { plural: plural.into(), direct });
    }

    /// Takes in how policies of a kind are merged. What was said of it before holds.
    pub fn configure(&mut self, resource: GroupResource, configured: Configured) {
        self.configured.push((resource, configured));
    }

    /// What else has to be known of a cluster that has these objects.
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.facts().needs()
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

    /// The same without policies and without Gateways, as a base for others.
    #[must_use]
    pub fn without_them(&self) -> Self {
        Self {
            classes: self.classes.clone(),
            definitions: self.definitions.clone(),
            configured: self.configured.clone(),
            listed: self.listed.clone(),
            ..Self::default()
        }
    }

    /// Takes in a GatewayClass.
    pub fn put_class(&mut self, key: ObjectKey) {
        self.classes.insert(key, Class.into());
    }

    /// Takes in a Gateway.
    pub fn put_gateway(&mut self, key: ObjectKey, gateway: Gateway) {
        self.gateways.insert(key, gateway.into());
    }

    /// Takes in a policy of `kind`.
    pub fn put_policy(&mut self, kind: Kind, key: ObjectKey, policy: Policy) {
        self.policies.insert((kind, key), policy.into());
    }

    /// Takes in the row of the object `key` of `kind`.
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

    /// Takes `object` in.
    ///
    /// # Errors
    ///
    /// What the API server would refuse. Then nothing is taken.
    pub fn take(&mut self, object: &HubObject) -> Result<(), Fault> {
        check(object)?;
        match role(object) {
            Role::Of(_) | Role::Policy => {
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
            Role::Definition => self.define_by(object),
            Role::None => {}
        }
        Ok(())
    }

    fn define_by(&mut self, object: &HubObject) {
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

    /// What is known of a cluster that has these objects.
    ///
    /// Where they are of files, these are all that there are of a kind that one of them is of; and where there is a Gateway, there are
    /// no ListenerSets and routes beside these. What files do not grant is not granted.
    #[must_use]
    pub fn facts(&self) -> Facts<'_> {
        let whole = !self.gateways.is_empty();
        let mut facts = Facts {
            classes: self.rows(&self.classes, GATEWAY_CLASS, false),
            gateways: self.rows(&self.gateways, GATEWAY, whole),
            secrets: self.secrets(),
            namespaces: self.namespaces(),
            grants: self.rows(&self.grants, GRANT, true),
            policies: self.policies.iter().map(|((kind, key), policy)| (kind, key, &**policy)).collect(),
            downstream_prefix: &self.downstream_prefix,
            controller: &self.controller,
            ..Facts::default()
        };
        for ((table, to), kind) in self.sets.iter().zip(&mut facts.sets).zip(SetKind::ALL) {
            *to = self.rows(table, kind.kind(), whole);
        }
        for ((table, to), kind) in self.backends.iter().zip(&mut facts.backends).zip(BackendKind::ALL) {
            *to = self.rows(table, kind.kind(), false);
        }
        for ((table, to), kind) in self.routes.iter().zip(&mut facts.routes).zip(RouteKind::ALL) {
            *to = self.rows(table, kind.kind(), whole);
        }
        facts.manners = self.manners();
        facts
    }

    /// The objects of `kind`; `of_files` says whether these are all that there are where they are of files, though there is none.
    fn rows<'o, R>(&self, table: &'o Table<R>, kind: KindRef<'_>, of_files: bool) -> Rows<'o, R> {
        let known = match &self.listed {
            Some(listed) => listed.iter().any(|listed| listed.as_ref() == kind),
            None => of_files || !table.is_empty(),
        };
        Rows { known, objects: table.iter().map(|(key, row)| (key, &**row)).collect() }
    }

    /// The Secrets. Those of files are complete only if one of them is of the type `kubernetes.io/tls`: files often hold other Secrets, while
    /// a cluster issues the certificates.
    fn secrets(&self) -> Rows<'_, Secret> {
        let mut rows = self.rows(&self.secrets, SECRET, false);
        rows.known &= self.listed.is_some() || self.secrets.values().any(|secret| secret.is_tls);
        rows
    }

    /// The Namespaces. Those of files are never complete: files have objects of Namespaces that they do not have.
    fn namespaces(&self) -> Rows<'_, Namespace> {
        let mut rows = self.rows(&self.namespaces, NAMESPACE, false);
        rows.known &= self.listed.is_some();
        rows
    }

    /// How policies are merged of each kind of which that is said.
    fn manners(&self) -> BTreeMap<&Kind, Manner<'_>> {
        let mut manners = BTreeMap::new();
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
            let is_known = Manner::of(kind.as_ref()) != Manner::Fields;
            if let Some((_, configured)) = self.configured.iter().find(|(resource, _)| is_meant(resource)) {
                manners.insert(kind, Manner::Configured(configured));
            } else if !is_known && definition.is_some_and(|definition| definition.direct) {
                manners.insert(kind, Manner::Direct);
            }
        }
        manners
    }
}

/// Whether the API server would take what every object has.
fn check(object: &HubObject) -> Result<(), Fault> {
    let metadata = &object.metadata;
    let bad = |place: &str, text: &str, what: &str| {
        Err(Fault::new(place, format!("{:?} is no {what}", excerpt(text))))
    };
    let group = kind_of(object).group;
    if !group.is_empty() && !is_dns_subdomain(group) {
        return bad("apiVersion", &object.api_version, "group and version");
    }
    if !is_kind(&object.kind) {
        return bad("kind", &object.kind, "kind");
    }
    if !is_dns_subdomain(&metadata.name) {
        return bad("metadata.name", &metadata.name, "name of Kubernetes");
    }
    if !metadata.namespace.is_empty() && !is_dns_label(&metadata.namespace) {
        return bad("metadata.namespace", &metadata.namespace, "name of a namespace");
    }
    Ok(())
}
