//! The entries in the status of a route that show its attachments: a row with the present entries, and the request that
//! writes the desired entries.
//!
//! The list `status.parents` is atomic, so the whole list is replaced. The write keeps the entries of other
//! controllers, and succeeds only at the resource version at which they were read.

use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams};
use kube::core::request;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::digest;
use super::pending::{Desired, DesiredStatus};
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, GroupVersionResource};
use policy_sync_api::object::HubObject;
use policy_sync_hub::reconcile::of_kind;
use policy_sync_topology::conditions::ParentConditions;
use policy_sync_topology::rows::ParentReference;

/// Maximum number of entries in a route's status (Gateway API).
pub(super) const ENTRIES_LIMIT: usize = 32;

/// The status of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteStatus {
    /// The hash of the route's uid.
    pub(super) uid: Hash,
    /// The generation of the route.
    pub(super) generation: i64,
    /// The hash of this controller's entries.
    pub(super) digest: Hash,
    /// Whether this controller has entries and all of them are of the current generation.
    pub(super) is_current: bool,
    /// The number of entries of other controllers; the API limits it.
    pub(super) others: u8,
}

impl RouteStatus {
    /// Summarizes the status of `route`.
    pub(super) fn of(route: &HubObject, controller: &ControllerName) -> Self {
        let entries = Entries::read(route, controller);
        let generation = route.metadata.generation;
        let mut generations = entries.ours.iter().flatten().map(Entry::generation);
        Self {
            uid: Hash::of_text(&route.metadata.uid),
            generation,
            digest: entries.digest(),
            is_current: !entries.ours.is_empty() && generations.all(|seen| seen == Some(generation)),
            others: u8::try_from(entries.others.len()).unwrap_or(u8::MAX),
        }
    }
}

/// The entries of a route's status.
#[derive(Debug)]
struct Entries<'o> {
    /// The entries of this controller. An entry is `None` if this controller would write it differently.
    ours: Vec<Option<Entry>>,
    /// The entries of other controllers, unchanged.
    others: Vec<&'o RawValue>,
}

/// An entry of this controller, for one parent reference.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    parent_ref: ParentReference,
    #[serde(default)]
    conditions: Vec<Condition>,
}

impl Entry {
    /// The generation of the conditions; `None` if the conditions have different generations.
    fn generation(&self) -> Option<i64> {
        let first = self.conditions.first()?.observed_generation;
        self.conditions.iter().all(|condition| condition.observed_generation == first).then_some(first)?
    }

    fn digest(&self) -> Option<Hash> {
        let conditions = digest::of_conditions(&self.conditions);
        Some(digest::of_entry(&self.parent_ref, conditions, self.generation()?))
    }
}

impl<'o> Entries<'o> {
    fn read(route: &'o HubObject, controller: &ControllerName) -> Self {
        #[derive(Default, Deserialize)]
        struct Status<'o> {
            #[serde(borrow, default)]
            parents: Vec<&'o RawValue>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Owned {
            controller_name: String,
        }
        let status = route.status.as_deref().map(|status| serde_json::from_str::<Status<'o>>(status.get()));
        let status = status.and_then(Result::ok).unwrap_or_default();
        let is_ours = |entry: &&RawValue| {
            let owned = serde_json::from_str::<Owned>(entry.get());
            owned.is_ok_and(|owned| owned.controller_name == controller.as_str())
        };
        let (ours, others): (Vec<_>, Vec<_>) = status.parents.into_iter().partition(is_ours);
        let ours = ours.into_iter().map(|entry| serde_json::from_str(entry.get()).ok()).collect();
        Self { ours, others }
    }

    fn digest(&self) -> Hash {
        digest::of_route(self.ours.iter().map(|entry| entry.as_ref().and_then(Entry::digest)))
    }

    /// This controller's conditions for `reference`.
    fn conditions(&self, reference: &ParentReference) -> &[Condition] {
        let mut ours = self.ours.iter().flatten();
        ours.find(|entry| entry.parent_ref == *reference).map_or(&[], |entry| &entry.conditions)
    }
}

/// A request that sets the status `desired` on the route `found`, whose resource is `gvr`. `None` if the route already
/// has that status. Also `None` if the route is newer than the graph, because the graph will be rebuilt.
///
/// # Errors
///
/// If the request cannot be built.
pub fn route_status_request(
    controller: &ControllerName,
    gvr: &GroupVersionResource,
    found: &HubObject,
    desired: &DesiredStatus,
    now: Moment,
) -> Result<Option<Request<Vec<u8>>>, request::Error> {
    let Desired::Route { generation, entries } = &desired.desired else { return Ok(None) };
    let current = Entries::read(found, controller);
    let metadata = &found.metadata;
    let is_another = Hash::of_text(&metadata.uid) != desired.uid || metadata.generation != *generation;
    if is_another || current.digest() == desired.digest {
        return Ok(None);
    }
    let spec = found.spec_value();
    let room = ENTRIES_LIMIT.saturating_sub(current.others.len());
    let mut parents: Vec<Box<RawValue>> = current.others.iter().map(|entry| (*entry).to_owned()).collect();
    for ParentConditions { reference, conditions } in entries.iter().take(room) {
        let written: &Value = &spec["parentRefs"][*reference];
        let Ok(parent) = serde_json::from_value::<ParentReference>(written.clone()) else { continue };
        let before = current.conditions(&parent);
        let dated: Vec<Condition> =
            conditions.texts.iter().map(|text| text.dated(before, *generation, now)).collect();
        let entry = json!({"parentRef": written, "controllerName": controller.as_str(), "conditions": dated});
        parents.push(serde_json::value::to_raw_value(&entry).map_err(request::Error::SerializeBody)?);
    }
    let body = json!({
        "metadata": {"resourceVersion": metadata.resource_version},
        "status": {"parents": parents},
    });
    let parameters =
        PatchParams { field_manager: Some(controller.topology_field_manager()), ..PatchParams::default() };
    let routes = of_kind(gvr, &metadata.namespace);
    let request = routes.patch_subresource("status", &metadata.name, &parameters, &Patch::Merge(&body))?;
    Ok(Some(request))
}
