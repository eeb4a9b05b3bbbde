//! What a cluster has, as far as a topology reads it: lists with the rights of who asks.
//!
//! ```text
//! discovery ─▶ classes ─▶ kinds of policies ─┬─▶ what is there ─▶ what that refers to: Services, Namespaces, ReferenceGrants
//!              CRDs with GEP-713's label ────╯
//! ```
//!
//! On a hub the kinds of policies are those that our classes' parameters list; on a cluster without a class of ours, a spoke, those
//! whose definition has GEP-713's label. What may not be listed, or is not served, is not known, and no fault.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;

use super::query::Listed;
use super::served::{ServedKind, discover};
use crate::api::gateway::{POLICY_LABEL, is_direct};
use crate::api::names::{ControllerName, GroupVersionResource};
use crate::api::object::HubObject;
use crate::api::params::Role;
use crate::hub::{Extent, HubClient, HubError};
use crate::sync::kinds::GATEWAY_API;
use crate::topology::locator::{GATEWAY, GATEWAY_CLASS, Kind, KindRef, LISTENER_SET, Locator, SERVICE};
use crate::topology::objects::{GRANT, NAMESPACE, kind_of};
use crate::topology::rows::RouteKind;
use crate::topology::rules::Configured;
use crate::topology::show::{self, ObjectFault};
use crate::topology::{Graph, Needs, Objects};

/// The objects of a cluster, as far as a topology reads them.
#[derive(Debug, Default)]
pub struct ClusterObjects {
    /// The objects.
    pub objects: Objects,
    /// Objects that are not as the API has them, and parameters.
    pub faults: Vec<ObjectFault>,
    /// What may not be read, a line each.
    pub unread: Vec<String>,
    /// The kinds that are not served.
    pub unserved: BTreeSet<Kind>,
}

/// Of what a cluster does not serve, a line for each kind that something of `graph` refers to.
pub fn unserved(unserved: &BTreeSet<Kind>, graph: &Graph<'_>) -> Vec<String> {
    let kinds = graph.unknown().into_iter().filter(|kind| unserved.contains(&kind.to_kind()));
    kinds.map(|kind| format!("the cluster has no {kind}: {BY_NAME}")).collect()
}

/// How objects are shown of which nothing is known.
pub const BY_NAME: &str = "those that are referred to stand by their names";

/// What to read of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterQuery<'a> {
    /// Whose classes are ours.
    pub controller: &'a ControllerName,
    /// The namespace that is looked at where a user may not look at all.
    pub namespace: Option<&'a str>,
    /// What a user may do where rights are missing, after the words that say so.
    pub hint: &'a str,
}

/// Reads what the cluster has.
///
/// # Errors
///
/// Where it has no Gateway API, or does not answer.
pub async fn cluster_objects(hub: &HubClient, query: ClusterQuery<'_>) -> Result<ClusterObjects, HubError> {
    hub.has(&[GATEWAY_API]).await?;
    let served = discover(hub).await?;
    let mut reader = Reader {
        hub,
        query,
        found: ClusterObjects { objects: Objects::of_cluster(BTreeSet::new()), ..ClusterObjects::default() },
        forbidden: Vec::new(),
    };
    let mut kinds: Vec<(ServedKind, Extent)> = Vec::new();
    let routes = RouteKind::ALL.map(RouteKind::kind);
    for kind in [GATEWAY_CLASS, GATEWAY, LISTENER_SET].into_iter().chain(routes) {
        match served.iter().find(|served| is(served, kind)) {
            Some(served) => kinds.push((served.clone(), Extent::Whole)),
            None => drop(reader.found.unserved.insert(kind.to_kind())),
        }
    }
    let policies = reader.policies(&served).await?;
    kinds.extend(policies.into_iter().map(|kind| (kind, Extent::Whole)));
    reader.read(kinds).await?;
    let Needs { services, namespaces, grants } = reader.found.objects.needs();
    let core = |kind: KindRef<'_>, resource| ServedKind::core(kind.kind, resource);
    let mut kinds: Vec<(ServedKind, Extent)> = Vec::new();
    if services {
        kinds.push((core(SERVICE, "services"), Extent::Whole));
    }
    if namespaces {
        kinds.push((core(NAMESPACE, "namespaces"), Extent::Metadata));
    }
    match served.iter().find(|served| is(served, GRANT)) {
        Some(served) if grants => kinds.push((served.clone(), Extent::Whole)),
        Some(_) => {}
        None => drop(reader.found.unserved.insert(GRANT.to_kind())),
    }
    reader.read(kinds).await?;
    Ok(reader.finish())
}

fn is(served: &ServedKind, kind: KindRef<'_>) -> bool {
    *served.gvr.kind.group == *kind.group && *served.kind == *kind.kind
}

struct Reader<'r> {
    hub: &'r HubClient,
    query: ClusterQuery<'r>,
    found: ClusterObjects,
    /// The kinds that may not be listed, each with how the hub said so.
    forbidden: Vec<(String, HubError)>,
}

/// What a list came to.
enum List {
    /// All.
    Whole(Vec<HubObject>),
    /// Those of the namespace that is asked for, and why not all.
    Part(Vec<HubObject>, HubError),
    /// Nothing, and why.
    Nothing(HubError),
}

impl Reader<'_> {
    /// The kinds of policies, and what is said of how they are merged.
    async fn policies(&mut self, served: &[ServedKind]) -> Result<Vec<ServedKind>, HubError> {
        let labels = self.labels().await?;
        let kind =
            |kind: &ServedKind| Kind { group: kind.gvr.kind.group.clone(), kind: kind.kind.as_str().into() };
        for of in served {
            let direct = labels.get(&of.gvr.kind.to_string()).is_some_and(|label| is_direct(label));
            self.found.objects.define(kind(of), &of.gvr.kind.resource, direct);
        }
        let listed = match Listed::read(self.hub, self.query.controller).await {
            Ok(listed) => Some(listed).filter(|listed| listed.has_classes),
            // What may not be read of classes is told where these are read.
            Err(error) if error.is_forbidden() => None,
            Err(error) => return Err(error),
        };
        let is_labelled = |kind: &&ServedKind| labels.contains_key(&kind.gvr.kind.to_string());
        let labelled = || served.iter().filter(is_labelled).cloned().collect();
        let Some(listed) = listed else { return Ok(labelled()) };
        for (resource, merge) in &listed.merges {
            self.found.objects.configure(resource.clone(), Configured::from(merge));
        }
        let fault = |message| ObjectFault { message, object: "parameters".to_owned(), place: None };
        self.found.faults.extend(listed.faults.into_iter().map(fault));
        // Where parameters may not be read, labels are what is left.
        let is_unread = !listed.unread.is_empty();
        self.found.unread.extend(listed.unread);
        if is_unread && listed.kinds.is_empty() {
            return Ok(labelled());
        }
        Ok(listed.kinds.into_iter().filter(|kind| kind.role == Role::Policy).collect())
    }

    /// The labels of definitions of policies, by the names of these.
    async fn labels(&mut self) -> Result<BTreeMap<String, String>, HubError> {
        let gvr = GroupVersionResource::definitions();
        let what = format!("list {}", gvr.kind);
        match self.hub.objects(&gvr, "", Some(POLICY_LABEL), Extent::Metadata, &what).await {
            Ok(definitions) => {
                let label = |mut object: HubObject| {
                    Some((object.metadata.name, object.metadata.labels.remove(POLICY_LABEL)?))
                };
                Ok(definitions.into_iter().filter_map(label).collect())
            }
            Err(error) if error.is_forbidden() => {
                self.forbidden.push(("CustomResourceDefinition".to_owned(), error));
                Ok(BTreeMap::new())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads all objects of `kinds`.
    async fn read(&mut self, kinds: Vec<(ServedKind, Extent)>) -> Result<(), HubError> {
        let lists = join_all(kinds.iter().map(|(kind, extent)| self.list(kind, *extent))).await;
        for ((kind, _), list) in kinds.iter().zip(lists) {
            let (objects, refusal) = match list? {
                List::Whole(objects) => (objects, None),
                List::Part(objects, error) => (objects, Some(error)),
                List::Nothing(error) => (Vec::new(), Some(error)),
            };
            match refusal {
                None => self.found.objects.lists(KindRef { group: &kind.gvr.kind.group, kind: &kind.kind }),
                Some(error) => self.forbidden.push((kind.kind.clone(), error)),
            }
            for object in objects {
                self.found.take(kind, object);
            }
        }
        Ok(())
    }

    async fn list(&self, kind: &ServedKind, extent: Extent) -> Result<List, HubError> {
        let ServedKind { gvr, is_namespaced, .. } = kind;
        let what = format!("list {}", gvr.kind);
        let error = match self.hub.objects(gvr, "", None, extent, &what).await {
            Ok(objects) => return Ok(List::Whole(objects)),
            Err(error) if error.is_forbidden() => error,
            Err(error) => return Err(error),
        };
        let Some(namespace) = self.query.namespace.filter(|_| *is_namespaced) else {
            return Ok(List::Nothing(error));
        };
        match self.hub.objects(gvr, namespace, None, extent, &what).await {
            Ok(objects) => Ok(List::Part(objects, error)),
            Err(error) if error.is_forbidden() => Ok(List::Nothing(error)),
            Err(error) => Err(error),
        }
    }

    /// All that was found. What may not be listed is one line.
    fn finish(self) -> ClusterObjects {
        let Self { mut found, forbidden, query, .. } = self;
        let kinds: Vec<&str> = forbidden.iter().map(|(kind, _)| kind.as_str()).collect();
        let what = format!("list {}", kinds.join(", "));
        if let Some((_, error)) = forbidden.into_iter().next() {
            found.unread.push(format!("{}{}", error.on(what), query.hint));
        }
        found
    }
}

impl ClusterObjects {
    /// What nothing is known of, though something of `graph` refers to it, and what may not be read: a line each.
    #[must_use]
    pub fn unknown(&self, graph: &Graph<'_>) -> Vec<String> {
        self.unread.iter().cloned().chain(unserved(&self.unserved, graph)).collect()
    }

    /// What is wrong with the objects that `graph` is of.
    #[must_use]
    pub fn faults(&self, graph: &Graph<'_>) -> Vec<ObjectFault> {
        self.faults.iter().cloned().chain(show::faults(graph, &|_| None)).collect()
    }

    /// Takes in `object`, which is one of `kind`; items of lists do not say that themselves.
    fn take(&mut self, kind: &ServedKind, mut object: HubObject) {
        object.api_version = kind.gvr.api_version();
        object.kind.clone_from(&kind.kind);
        if let Err(fault) = self.objects.take(&object) {
            let (kind, key) = (kind_of(&object), object.key());
            self.faults.push(ObjectFault::new(Locator::of(kind, &key), &fault));
        }
    }
}
