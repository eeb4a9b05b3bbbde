//! Lists the objects of a cluster for a topology, with the user's rights.
//!
//! ```text
//! discovery ─▶ classes ─▶ kinds of policies ─┬─▶ objects ─▶ referenced objects: Services, Namespaces, ReferenceGrants
//!              CRDs with GEP-713's label ────╯
//! ```
//!
//! On a hub, the kinds of policies are those in the parameters of the controller's GatewayClasses. On a cluster without
//! such a class (a spoke), they are the kinds whose definition has GEP-713's label. On a spoke, copies from the hub
//! are also read if the name of their kind ends in `Policy`. Kinds that the user may not list, or that the cluster does
//! not serve, are unknown. That is not an error.

mod kinds;

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;

use super::known::Known;
use super::served::ServedKind;
use policy_sync_api::annotations::POLICY_SYNCED;
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_hub::{HubClient, HubError};
use policy_sync_mirror::Projection;
use policy_sync_topology::locator::{Kind, KindRef, Locator};
use policy_sync_topology::objects::{NAMESPACE, kind_of};
use policy_sync_topology::show::{self, ObjectFault};
use policy_sync_topology::{Fault, Graph, Objects};

pub(super) use kinds::TopologyKinds;

/// The objects of a cluster or of files, reduced to the fields that a topology needs.
#[derive(Debug, Default)]
pub struct ClusterObjects {
    /// The parsed objects.
    pub objects: Objects,
    /// Objects and parameters that cannot be parsed.
    pub faults: Vec<ObjectFault>,
    /// Kinds that could not be read, one line each, with the reason.
    pub unread: Vec<String>,
    /// The kinds that the cluster does not serve; `None` for files.
    pub unserved: Option<BTreeSet<Kind>>,
    /// For files: the file and line of each object. The key is a locator such as
    /// `gateway.gateway.networking.k8s.io:shop/web`.
    pub locations: BTreeMap<String, String>,
}

/// The kind of the objects that define the kinds of policies.
pub(super) const DEFINITION: &str = "CustomResourceDefinition";

/// The note on how unread objects are displayed.
const BY_NAME: &str = "referenced objects appear only by name";

/// The parameters of [`cluster_objects`].
#[derive(Clone, Copy, Debug)]
pub struct ClusterQuery<'a> {
    /// The controller whose GatewayClasses are considered.
    pub controller: &'a ControllerName,
    /// The namespace to list if the user may not list all namespaces.
    pub namespace: Option<&'a str>,
    /// A hint on how to obtain missing rights, appended to the message about them.
    pub hint: &'a str,
}

/// Reads the objects of the cluster.
///
/// # Errors
///
/// If the cluster cannot be reached, or does not serve the Gateway API.
pub async fn cluster_objects(hub: &HubClient, query: ClusterQuery<'_>) -> Result<ClusterObjects, HubError> {
    let kinds = TopologyKinds::read(hub, query.controller).await?;
    let mut reader = TopologyReader { hub, query, found: kinds.objects(), forbidden: Vec::new() };
    let always = kinds.always.iter().map(|kind| (kind.clone(), Projection::Full)).collect();
    reader.read(always, |_| true).await?;
    let of_copies = kinds.of_copies.iter().map(|kind| (kind.clone(), Projection::Full)).collect();
    reader.read(of_copies, |object| object.metadata.annotations.contains_key(POLICY_SYNCED)).await?;
    let needed = kinds.needed(reader.found.objects.needs()).into_iter();
    // Only the labels of Namespaces are needed.
    let projection = |kind: &ServedKind| {
        if *kind.kind == *NAMESPACE.kind { Projection::Metadata } else { Projection::Full }
    };
    reader.read(needed.map(|kind| (kind.clone(), projection(kind))).collect(), |_| true).await?;
    Ok(reader.finish(kinds.definitions_error))
}

struct TopologyReader<'r> {
    hub: &'r HubClient,
    query: ClusterQuery<'r>,
    found: ClusterObjects,
    /// The kinds that the user may not list, with the hub's error.
    forbidden: Vec<(String, HubError)>,
}

/// The result of a list.
enum ListResult {
    /// All objects.
    Complete(Vec<HubObject>),
    /// The objects of the query's namespace, and the error of the list in all namespaces.
    Partial(Vec<HubObject>, HubError),
    /// No objects, and the error.
    Denied(HubError),
}

impl TopologyReader<'_> {
    /// Reads the objects of `kinds` that satisfy `counts`.
    async fn read(
        &mut self,
        kinds: Vec<(ServedKind, Projection)>,
        counts: impl Fn(&HubObject) -> bool,
    ) -> Result<(), HubError> {
        let lists = join_all(kinds.iter().map(|(kind, projection)| self.list(kind, *projection))).await;
        for ((kind, _), list) in kinds.iter().zip(lists) {
            let (objects, refusal) = match list? {
                ListResult::Complete(objects) => (objects, None),
                ListResult::Partial(objects, error) => (objects, Some(error)),
                ListResult::Denied(error) => (Vec::new(), Some(error)),
            };
            match refusal {
                None => self.found.objects.lists(KindRef { group: &kind.gvr.kind.group, kind: &kind.kind }),
                Some(error) => self.forbidden.push((kind.kind.clone(), error)),
            }
            for object in objects.into_iter().filter(&counts) {
                self.found.take(kind, object);
            }
        }
        Ok(())
    }

    async fn list(&self, kind: &ServedKind, projection: Projection) -> Result<ListResult, HubError> {
        let ServedKind { gvr, is_namespaced, .. } = kind;
        let what = format!("list {}", gvr.kind);
        let error = match Known::of(self.hub.objects(gvr, "", None, projection, &what).await)? {
            Known::Known(objects) => return Ok(ListResult::Complete(objects)),
            Known::Unknown(error) => error,
        };
        let Some(namespace) = self.query.namespace.filter(|_| *is_namespaced) else {
            return Ok(ListResult::Denied(error));
        };
        Ok(match Known::of(self.hub.objects(gvr, namespace, None, projection, &what).await)? {
            Known::Known(objects) => ListResult::Partial(objects, error),
            Known::Unknown(error) => ListResult::Denied(error),
        })
    }

    /// Adds one line for all kinds that the user may not list. `definitions_error` is the error of listing definitions.
    fn finish(self, definitions_error: Option<HubError>) -> ClusterObjects {
        let Self { mut found, mut forbidden, query, .. } = self;
        forbidden.splice(..0, definitions_error.map(|error| (DEFINITION.to_owned(), error)));
        let kinds: Vec<&str> = forbidden.iter().map(|(kind, _)| kind.as_str()).collect();
        let what = format!("list {}", kinds.join(", "));
        if let Some((_, error)) = forbidden.into_iter().next() {
            found.unread.push(format!("{}{}", error.on(what), query.hint));
        }
        found
    }
}

impl ClusterObjects {
    /// One line for each missing right, and for each kind that `graph` refers to and that was not read.
    #[must_use]
    pub fn unknown(&self, graph: &Graph<'_>) -> Vec<String> {
        self.unread.iter().cloned().chain(self.missing(graph)).collect()
    }

    /// One line for each kind that `graph` refers to and that the files lack or the cluster does not serve.
    #[must_use]
    pub fn missing(&self, graph: &Graph<'_>) -> Vec<String> {
        let kinds = graph.unknown().into_iter();
        let missing = kinds.filter_map(|kind| match &self.unserved {
            None => Some(format!("no {} is given: {BY_NAME}", kind.kind)),
            Some(unserved) => {
                unserved.contains(&kind.to_kind()).then(|| format!("the cluster has no {kind}: {BY_NAME}"))
            }
        });
        missing.collect()
    }

    /// The faults of parsing, followed by those that `graph` found.
    #[must_use]
    pub fn faults(&self, graph: &Graph<'_>) -> Vec<ObjectFault> {
        let place = |object: &str| self.locations.get(object).cloned();
        self.faults.iter().cloned().chain(show::faults(graph, &place)).collect()
    }

    /// Records that the object `key` of `kind` cannot be parsed.
    pub(super) fn fault(&mut self, kind: KindRef<'_>, key: &ObjectKey, fault: &Fault) {
        self.faults.push(ObjectFault::new(Locator::of(kind, key), fault));
    }

    /// Adds `object`. Items of a list lack `apiVersion` and `kind`, so these are set from `kind`.
    fn take(&mut self, kind: &ServedKind, mut object: HubObject) {
        object.api_version = kind.gvr.api_version();
        object.kind.clone_from(&kind.kind);
        if let Err(fault) = self.objects.take(&object) {
            self.fault(kind_of(&object), &object.key(), &fault);
        }
    }
}
