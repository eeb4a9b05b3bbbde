//! Objects of a cluster, taken in one by one: what files and lists come to.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::facts::{Facts, Rows};
use super::locator::{GATEWAY, GATEWAY_CLASS, Kind, KindRef, LISTENER_SET, SERVICE};
use super::rows::{Class, Gateway, Grant, ListenerSet, Namespace, Policy, Route, RouteKind, Service};
use super::rules::Manner;
use crate::api::gateway::GROUP;
use crate::api::names::ObjectKey;
use crate::api::object::HubObject;
use crate::api::syntax::{is_dns_label, is_dns_subdomain, is_kind};
use crate::api::text::excerpt;
use crate::topology::fault::Fault;

/// The label of a definition that says how policies of its kind are merged, by GEP-713.
const POLICY_LABEL: &str = "gateway.networking.k8s.io/policy";
/// Definitions of kinds.
const DEFINITION: KindRef<'static> =
    KindRef { group: "apiextensions.k8s.io", kind: "CustomResourceDefinition" };
/// Namespaces.
const NAMESPACE: KindRef<'static> = KindRef { group: "", kind: "Namespace" };
/// ReferenceGrants.
const GRANT: KindRef<'static> = KindRef { group: GROUP, kind: "ReferenceGrant" };

type Table<R> = BTreeMap<ObjectKey, R>;

/// Objects, as far as a graph reads them.
#[derive(Debug, Default)]
pub struct Objects {
    classes: Table<Class>,
    gateways: Table<Gateway>,
    sets: Table<ListenerSet>,
    routes: [Table<Route>; 5],
    services: Table<Service>,
    namespaces: Table<Namespace>,
    grants: Table<Grant>,
    policies: BTreeMap<(Kind, ObjectKey), Policy>,
    /// The kinds whose definition says that their policies are direct.
    direct: BTreeSet<Kind>,
    /// What many routes say, once.
    texts: HashSet<Arc<str>>,
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
        GATEWAY | LISTENER_SET | SERVICE | GRANT => Role::Of(true),
        DEFINITION => Role::Definition,
        _ if RouteKind::named(kind).is_some() => Role::Of(true),
        _ => {
            let spec = object.spec_value();
            let refers = ["targetRef", "targetRefs"].iter().any(|field| !spec[field].is_null());
            if refers { Role::Policy } else { Role::None }
        }
    }
}

impl Objects {
    /// Takes `object` in.
    ///
    /// # Errors
    ///
    /// What the API server would refuse. Then nothing is taken.
    pub fn take(&mut self, object: &HubObject) -> Result<(), Fault> {
        check(object)?;
        let (kind, key) = (kind_of(object), object.key());
        match kind {
            GATEWAY_CLASS => drop(self.classes.insert(key, Class)),
            GATEWAY => drop(self.gateways.insert(key, Gateway::read(object)?)),
            LISTENER_SET => drop(self.sets.insert(key, ListenerSet::read(object)?)),
            SERVICE => drop(self.services.insert(key, Service::read(object)?)),
            NAMESPACE => drop(self.namespaces.insert(key, Namespace::read(object))),
            GRANT => drop(self.grants.insert(key, Grant::read(object)?)),
            DEFINITION => self.define(object),
            _ => match (RouteKind::named(kind), role(object)) {
                (Some(route), _) => {
                    let mut row = Route::read(route, object)?;
                    row.intern(&mut |text| {
                        if let Some(known) = self.texts.get(&**text) {
                            *text = known.clone();
                        } else {
                            self.texts.insert(text.clone());
                        }
                    });
                    self.routes[route as usize].insert(key, row);
                }
                (None, Role::Policy) => {
                    self.policies.insert((kind.to_kind(), key), Policy::read(object)?);
                }
                _ => {}
            },
        }
        Ok(())
    }

    fn define(&mut self, object: &HubObject) {
        let label = object.metadata.labels.get(POLICY_LABEL);
        if label.is_some_and(|label| label.eq_ignore_ascii_case("direct")) {
            let spec = object.spec_value();
            if let (Some(group), Some(kind)) = (spec["group"].as_str(), spec["names"]["kind"].as_str()) {
                self.direct.insert(Kind { group: group.into(), kind: kind.into() });
            }
        }
    }

    /// What is known where these are all objects that there are. Of a kind that none of them is of nothing is known; but where there
    /// is a Gateway, there are no ListenerSets and routes beside these.
    #[must_use]
    pub fn facts(&self) -> Facts<'_> {
        let whole = !self.gateways.is_empty();
        let mut facts = Facts {
            classes: rows(&self.classes, false),
            gateways: rows(&self.gateways, whole),
            sets: rows(&self.sets, whole),
            services: rows(&self.services, false),
            namespaces: rows(&self.namespaces, false),
            grants: rows(&self.grants, true),
            policies: self.policies.iter().map(|((kind, key), policy)| (kind, key, policy)).collect(),
            ..Facts::default()
        };
        for (table, to) in self.routes.iter().zip(&mut facts.routes) {
            *to = rows(table, whole);
        }
        let is_unknown = |kind: &&Kind| Manner::of(kind.as_ref()) == Manner::Fields;
        facts.manners = self.direct.iter().filter(is_unknown).map(|kind| (kind, Manner::Direct)).collect();
        facts
    }
}

fn rows<R>(table: &Table<R>, known: bool) -> Rows<'_, R> {
    Rows { known: known || !table.is_empty(), objects: table.iter().collect() }
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
