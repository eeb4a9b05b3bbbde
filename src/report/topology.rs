//! What a cluster has, as far as a topology reads it: lists with the rights of who asks.
//!
//! ```text
//! discovery ─▶ classes ─▶ kinds of policies ─┬─▶ what is there ─▶ what that refers to: Services, Namespaces, ReferenceGrants
//!              CRDs with GEP-713's label ────╯
//! ```
//!
//! On a hub the kinds of policies are those that our classes' parameters list; on a cluster without a class of ours, a spoke, those
//! whose definition has GEP-713's label, and the hub's copies of other kinds whose names end in `Policy`. Kinds that cannot be listed, or
//! are not served, are unknown, which is no fault.

mod kinds;

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;

use super::known::Known;
use super::served::ServedKind;
use policy_sync_api::annotations::POLICY_SYNCED;
use policy_sync_api::names::{ControllerName, ObjectKey};
use policy_sync_api::object::HubObject;
use policy_sync_hub::{HubClient, HubError};
use policy_sync_mirror::Extent;
use policy_sync_topology::locator::{Kind, KindRef, Locator};
use policy_sync_topology::objects::{NAMESPACE, kind_of};
use policy_sync_topology::show::{self, ObjectFault};
use policy_sync_topology::{Fault, Graph, Objects};

pub(super) use kinds::TopologyKinds;

/// The objects of a cluster, or of files, as far as a topology reads them.
#[derive(Debug, Default)]
pub struct ClusterObjects {
    /// The objects.
    pub objects: Objects,
    /// Objects that are not as the API has them, and parameters.
    pub faults: Vec<ObjectFault>,
    /// What may not be read, a line each.
    pub unread: Vec<String>,
    /// The kinds that are not served; `None` where files are all that there is.
    pub unserved: Option<BTreeSet<Kind>>,
    /// Of files: where each object stands, by its locator.
    pub places: BTreeMap<String, String>,
}

/// What definitions of kinds are called.
pub(super) const DEFINITION: &str = "CustomResourceDefinition";

/// How objects are shown of which nothing is known.
const BY_NAME: &str = "those that are referred to stand by their names";

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
    let kinds = TopologyKinds::read(hub, query.controller).await?;
    let mut reader = Reader { hub, query, found: kinds.objects(), forbidden: Vec::new() };
    let always = kinds.always.iter().map(|kind| (kind.clone(), Extent::Whole)).collect();
    reader.read(always, |_| true).await?;
    let of_copies = kinds.of_copies.iter().map(|kind| (kind.clone(), Extent::Whole)).collect();
    reader.read(of_copies, |object| object.metadata.annotations.contains_key(POLICY_SYNCED)).await?;
    let needed = kinds.needed(reader.found.objects.needs()).into_iter();
    // Of Namespaces labels are read.
    let extent =
        |kind: &ServedKind| if *kind.kind == *NAMESPACE.kind { Extent::Metadata } else { Extent::Whole };
    reader.read(needed.map(|kind| (kind.clone(), extent(kind))).collect(), |_| true).await?;
    Ok(reader.finish(kinds.refused))
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
    /// Reads the objects of `kinds` that `counts`.
    async fn read(
        &mut self,
        kinds: Vec<(ServedKind, Extent)>,
        counts: impl Fn(&HubObject) -> bool,
    ) -> Result<(), HubError> {
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
            for object in objects.into_iter().filter(&counts) {
                self.found.take(kind, object);
            }
        }
        Ok(())
    }

    async fn list(&self, kind: &ServedKind, extent: Extent) -> Result<List, HubError> {
        let ServedKind { gvr, is_namespaced, .. } = kind;
        let what = format!("list {}", gvr.kind);
        let error = match Known::of(self.hub.objects(gvr, "", None, extent, &what).await)? {
            Known::Known(objects) => return Ok(List::Whole(objects)),
            Known::Unknown(error) => error,
        };
        let Some(namespace) = self.query.namespace.filter(|_| *is_namespaced) else {
            return Ok(List::Nothing(error));
        };
        Ok(match Known::of(self.hub.objects(gvr, namespace, None, extent, &what).await)? {
            Known::Known(objects) => List::Part(objects, error),
            Known::Unknown(error) => List::Nothing(error),
        })
    }

    /// All that was found. What may not be listed is one line; definitions are where they are `refused`.
    fn finish(self, refused: Option<HubError>) -> ClusterObjects {
        let Self { mut found, mut forbidden, query, .. } = self;
        forbidden.splice(..0, refused.map(|error| (DEFINITION.to_owned(), error)));
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

    /// The kinds that something of `graph` refers to, and that files do not have, or the cluster does not serve: a line each.
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

    /// What is wrong with the objects that `graph` is of.
    #[must_use]
    pub fn faults(&self, graph: &Graph<'_>) -> Vec<ObjectFault> {
        let place = |object: &str| self.places.get(object).cloned();
        self.faults.iter().cloned().chain(show::faults(graph, &place)).collect()
    }

    /// Takes in that a row of the object `key` of `kind` cannot be read.
    pub(super) fn fault(&mut self, kind: KindRef<'_>, key: &ObjectKey, fault: &Fault) {
        self.faults.push(ObjectFault::new(Locator::of(kind, key), fault));
    }

    /// Takes in `object`, which is one of `kind`; items of lists do not say that themselves.
    fn take(&mut self, kind: &ServedKind, mut object: HubObject) {
        object.api_version = kind.gvr.api_version();
        object.kind.clone_from(&kind.kind);
        if let Err(fault) = self.objects.take(&object) {
            self.fault(kind_of(&object), &object.key(), &fault);
        }
    }
}
